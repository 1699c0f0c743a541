package catalog

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// Rebuild has everything made again in the background that exchanges and their bodies have: sessions and rollups, see [recount], and by
// digests turns, histories and terms. Until a turn is made again, searches find the one there is. It does not make sessions grow, so that
// none is summarized again.
func (c *database) Rebuild(ctx context.Context) error {
	err := c.update(ctx, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "insert into meta values ($1, '{}') on conflict (name) do update set value = excluded.value", recountName)
		if err == nil {
			_, err = tx.Exec(ctx, "delete from meta where name = $1", namedName)
		}
		return err
	})
	if err == nil {
		c.counted.Notify()
		Recalled{c}.Beside(c.nameSessions)
	}
	return err
}
