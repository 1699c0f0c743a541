package catalog

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// refSize is the size of a ref: a letter and a hash.
const refSize = 1 + len(kv.Hash{})

func refOf(o store.ObjectRef) []byte { return append([]byte{o.Space}, o.Hash[:]...) }

func objectOf(account store.AccountNumber, ref []byte) (o store.ObjectRef) {
	o.Space, o.Account = ref[0], account
	copy(o.Hash[:], ref[1:])
	return o
}

// joinRefs gives refs one behind the other.
func joinRefs(objects []store.ObjectRef) []byte {
	joined := make([]byte, 0, len(objects)*refSize)
	for _, o := range objects {
		joined = append(joined, refOf(o)...)
	}
	return joined
}

// querier is a pool or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// reached reads all that refs reach.
func reached(ctx context.Context, q querier, account store.AccountNumber, refs []byte) (store.Objects, error) {
	rows, err := q.Query(ctx, `
		with recursive need(ref) as (
			select substring($2::bytea from i for `+refSizeText+`) from generate_series(1, length($2::bytea), `+refSizeText+`) i
			union
			select substring(o.refs from i for `+refSizeText+`) from need join objects o on o.account = $1 and o.ref = need.ref,
				generate_series(1, length(o.refs), `+refSizeText+`) i
		)
		select o.ref, o.value from need join objects o on o.account = $1 and o.ref = need.ref`, int64(account), refs)
	if err != nil {
		return nil, err
	}
	found := make(store.Objects)
	var ref, value []byte
	_, err = pgx.ForEachRow(rows, []any{&ref, &value}, func() error {
		found[objectOf(account, ref)] = bytes.Clone(value)
		return nil
	})
	return found, err
}

const refSizeText = "33"

// appendBody appends the skeleton of a request and the parts of an answer.
func appendBody(dst, skeleton []byte, parts [][]byte) []byte {
	dst = append(binary.AppendUvarint(dst, uint64(len(skeleton))), skeleton...)
	for _, part := range parts {
		dst = append(binary.AppendUvarint(dst, uint64(len(part))), part...)
	}
	return dst
}

var errBody = errors.New("malformed body")

// readBody reads what appendBody has written. The results point into body.
func readBody(body []byte) (skeleton []byte, parts [][]byte, err error) {
	for len(body) > 0 {
		size, width := binary.Uvarint(body)
		if width <= 0 || size > uint64(len(body)-width) {
			return nil, nil, errBody
		}
		parts = append(parts, body[width:width+int(size)])
		body = body[width+int(size):]
	}
	if len(parts) == 0 {
		return nil, nil, errBody
	}
	return parts[0], parts[1:], nil
}
