package catalog

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/mnemeproxy/mneme/store/record"
)

// holdPacks prevents the packs of an account from being rewritten, and their content from being erased, until the
// transaction ends.
func holdPacks(ctx context.Context, tx pgx.Tx, account record.AccountNumber) error {
	_, err := tx.Exec(ctx, "select pg_advisory_xact_lock($1, $2)", lockPacks, int32(account))
	return err
}
