package catalog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/mnemeproxy/mneme/store/catalog/pack"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/shipped"
)

// kept is how a row stores a value: inline, or in a pack.
type kept struct {
	value    []byte
	pack     *int64
	at, size *int32
}

// entry returns the place of a value in its pack.
func (k *kept) entry(name []byte) pack.Entry {
	return pack.Entry{Name: name, Pack: pack.ID(*k.pack), At: int(*k.at), Size: int(*k.size)}
}

// columns are the values of several rows, by column.
type columns struct {
	values    [][]byte
	packs     []*int64
	at, sizes []*int32
}

func (c *columns) add(k kept) {
	c.values, c.packs = append(c.values, k.value), append(c.packs, k.pack)
	c.at, c.sizes = append(c.at, k.at), append(c.sizes, k.size)
}

// values collects the values of several rows, inline or in packs.
type values struct {
	found   map[string][]byte
	entries []pack.Entry
}

// add adds a row. The caller may reuse name and value.
func (v *values) add(name []byte, k kept) {
	switch {
	case k.pack != nil:
		v.entries = append(v.entries, k.entry(bytes.Clone(name)))
	case k.value != nil:
		v.found[string(name)] = bytes.Clone(k.value)
	}
}

var errNoBucket = errors.New("it is stored in a bucket, and centre.bodies names none")

// readPacks reads the values in packs. damage has the errors of unreadable values.
func (c *database) readPacks(ctx context.Context, account record.AccountNumber, v *values) (damage []error, err error) {
	if len(v.entries) == 0 {
		return nil, nil
	}
	if c.Packs == nil {
		return nil, errNoBucket
	}
	read, err := c.Packs.Read(ctx, account, v.entries)
	if err != nil {
		return nil, err
	}
	for i := range read {
		if read[i].Err != nil {
			damage = append(damage, read[i].Err)
			continue
		}
		v.found[string(v.entries[i].Name)] = read[i].Bytes
	}
	return damage, nil
}

// querier is a pool, a transaction or a connection.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// readInto adds the rows of a query for keys and records.
func readInto(ctx context.Context, q querier, records map[string][]byte, sql string, args ...any) error {
	rows, err := q.Query(ctx, sql, args...)
	if err != nil {
		return err
	}
	var key, stored []byte
	_, err = pgx.ForEachRow(rows, []any{&key, &stored}, func() error {
		records[string(key)] = slices.Clone(stored)
		return nil
	})
	return err
}

// load reads the bodies of exchanges, and all objects they reference. Damaged values are omitted and logged.
func (c *database) load(ctx context.Context, q querier, account record.AccountNumber, exchanges []*arrivedExchange) (shipped.Objects, error) {
	var v values
	for first := true; ; first = false {
		var err error
		if v, err = stored(ctx, q, account, exchanges); err != nil {
			return nil, err
		}
		damage, err := c.readPacks(ctx, account, &v)
		if err != nil {
			return nil, err
		}
		if err := errors.Join(damage...); first && errors.Is(err, pack.ErrMissing) {
			continue // its pack was rewritten between the two reads
		}
		for _, err := range damage {
			c.Log.Error("a part of the memory cannot be read", "cause", err)
		}
		break
	}
	objects := make(shipped.Objects)
	for name, value := range v.found {
		if len(name) == refSize {
			objects[objectOf(account, []byte(name))] = value
		}
	}
	for _, x := range exchanges {
		x.body = v.found[bodyName(x.info.ID)]
	}
	return objects, nil
}

// bodyName returns the name of an exchange's body in values. No ref has that length.
func bodyName(exchange string) string { return exchange + "/body" }

// readNeeded begins a statement that reads need: the objects of account $1 that refs $2 name, directly or not. Objects are looked
// up one by one: Postgres overestimates their number by far, and would otherwise scan all objects of the account for a join.
const readNeeded = `
	with recursive need(ref) as (
		select substring($2::bytea from i for ` + refSizeText + `) from generate_series(1, length($2::bytea), ` + refSizeText + `) i
		union
		select substring(o.refs from i for ` + refSizeText + `) from need
			cross join lateral (select refs from objects where account = $1 and ref = need.ref offset 0) o,
			generate_series(1, length(o.refs), ` + refSizeText + `) i
	)`

// readStored reads how the objects that are needed, and the bodies of exchanges, are stored.
const readStored = readNeeded + `
	select o.ref, o.value, o.pack, o.at, o.size from need
		cross join lateral (select ref, value, pack, at, size from objects where account = $1 and ref = need.ref offset 0) o
	union all
	select convert_to(id || '/body', 'UTF8'), body, pack, at, size from exchanges where account = $1 and id = any($3)`

// stored reads how the bodies of exchanges, and all objects they reference, are stored.
func stored(ctx context.Context, q querier, account record.AccountNumber, exchanges []*arrivedExchange) (v values, err error) {
	var refs []byte
	var ids []string
	for _, x := range exchanges {
		refs, ids = append(refs, x.refs...), append(ids, x.info.ID)
	}
	rows, err := q.Query(ctx, readStored, int64(account), refs, ids)
	if err != nil {
		return v, err
	}
	v.found = make(map[string][]byte)
	var name []byte
	var k kept
	_, err = pgx.ForEachRow(rows, []any{&name, &k.value, &k.pack, &k.at, &k.size}, func() error {
		v.add(name, k)
		return nil
	})
	if err != nil {
		return v, fmt.Errorf("read objects: %w", err)
	}
	return v, nil
}

// arrivedExchange is an undigested exchange.
type arrivedExchange struct {
	info *record.ExchangeInfo
	refs []byte
	body []byte // [Catalog.load] reads it; nil: it cannot be read
}

func (x *arrivedExchange) assemble(account record.AccountNumber, objects shipped.Objects) (*record.Exchange, error) {
	skeleton, parts, err := readBody(x.body)
	if err != nil {
		return nil, err
	}
	return shipped.Assemble(account, x.info, skeleton, parts, objects)
}
