package catalog

import (
	"context"

	"github.com/mnemeproxy/mneme/store/record"
)

// What tests call that users of the package do not.

var ErrReplaced = errReplaced

func Expire(ctx context.Context, c *Catalog, account string) error { return c.expire(ctx, account) }

func Remove(ctx context.Context, c *Catalog) error { return c.remove(ctx, 0) }

func FreeObjects(ctx context.Context, c *Catalog, account record.AccountNumber, erasure string) error {
	return c.freeObjects(ctx, account, erasure)
}
