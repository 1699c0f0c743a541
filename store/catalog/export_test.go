package catalog

import (
	"context"

	"github.com/mnemeproxy/mneme/store"
)

// What tests call that users of the package do not.

var ErrReplaced = errReplaced

func Expire(ctx context.Context, c *Catalog, account string) error { return c.expire(ctx, account) }

func DropCopies(ctx context.Context, c *Catalog, account store.AccountNumber) (done bool, err error) {
	return c.dropCopies(ctx, account)
}
