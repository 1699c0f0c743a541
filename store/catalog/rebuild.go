package catalog

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// Rebuild has everything made again in the background that exchanges and their bodies have: sessions and rollups, see [recount], and by
// digests turns, histories and terms. Meanwhile searches find what has been digested so far. It does not make sessions grow, so that
// none is summarized again.
func (c *database) Rebuild(ctx context.Context) error {
	err := c.update(ctx, func(tx pgx.Tx) error {
		for _, statement := range [...]string{
			"insert into meta values ('" + recountName + "', '{}') on conflict (name) do update set value = excluded.value",
			"lock table exchanges, turns, histories", "truncate turns, histories", "delete from meta where name = '" + namedName + "'",
			"update exchanges set again = again or digested, digested = false where speaks",
		} {
			if _, err := tx.Exec(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		c.counted.Notify()
		Recalled{c}.Beside(c.nameSessions)
	}
	return err
}
