package catalog

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/mnemeproxy/mneme/store/record"
)

// What tests call that users of the package do not.

var ErrReplaced = errReplaced

func Expire(ctx context.Context, c *Catalog, account string) error { return c.expire(ctx, account) }

func Remove(ctx context.Context, c *Catalog) error { return c.remove(ctx, 0) }

const ReadStored = readStored

func UnusedObjects(ctx context.Context, c *Catalog, account record.AccountNumber) (unused [][]byte, arrived int64, err error) {
	return c.unusedObjects(ctx, account)
}

func FreeSome(ctx context.Context, c *Catalog, account record.AccountNumber, erasure string, arrived int64, unused [][]byte) error {
	return c.update(ctx, func(tx pgx.Tx) error { return freeSome(ctx, tx, account, erasure, arrived, unused) })
}
