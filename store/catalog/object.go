package catalog

import (
	"encoding/binary"
	"errors"

	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/shipped"
)

// refSize is the size of a ref: a letter and a hash.
const refSize = 1 + len(kv.Hash{})

func refOf(o shipped.ObjectRef) []byte { return append([]byte{o.Space}, o.Hash[:]...) }

func objectOf(account record.AccountNumber, ref []byte) (o shipped.ObjectRef) {
	o.Space, o.Account = ref[0], account
	copy(o.Hash[:], ref[1:])
	return o
}

// joinRefs concatenates refs.
func joinRefs(objects []shipped.ObjectRef) []byte {
	joined := make([]byte, 0, len(objects)*refSize)
	for _, o := range objects {
		joined = append(joined, refOf(o)...)
	}
	return joined
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

// readBody decodes what appendBody has written. The results point into body.
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
