package catalog

import (
	"context"
)

// What tests call that users of the package do not.

var ErrReplaced = errReplaced

func Expire(ctx context.Context, c *Catalog, account string) error { return c.expire(ctx, account) }
