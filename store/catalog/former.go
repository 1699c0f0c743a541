package catalog

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/ship"
)

// Former is a store that held the memory of a centre before the database. The exchanges it holds arrive as a log; those
// erased in it are in no log.
type Former interface {
	After(mark ship.ErasedMark, most int) (page []ship.ErasedExchange, upTo ship.ErasedMark, err error)
	Asked(visit func(account string, asked *store.Erasure) error) error
	Edges() ([]store.EdgeErased, error)
	Latest() (time.Time, error)
}

// formerName is the row of meta that shows that the erasures of the former store were taken over.
const formerName = "former"

// formerMost is how many erased exchanges one statement takes over.
const formerMost = 2000

// TakeOver makes sure that what was erased in the former store stays erased: it copies the log, the receipts, and the
// edges that have not carried out all erasures. own is that store: an exchange may have been erased and imported again.
// TakeOver runs once, in one transaction, before anything arrives.
func (e Erased) TakeOver(ctx context.Context, former Former, own Own) error {
	err := e.catalog.update(ctx, func(tx pgx.Tx) error {
		// Marks of edges refer to the former log. They stay valid if its entries keep their numbers in this one.
		if _, err := tx.Exec(ctx, "select pg_advisory_xact_lock($1, 0)", lockErased); err != nil {
			return err
		}
		begun, err := tx.Exec(ctx, "insert into meta values ($1, now()::text) on conflict do nothing", formerName)
		if err != nil || begun.RowsAffected() == 0 {
			return err
		}
		t := takingOver{e.catalog, tx, former, own}
		if err := t.log(ctx); err != nil {
			return err
		}
		if err := t.receipts(ctx); err != nil {
			return err
		}
		return t.edges(ctx)
	})
	if err != nil {
		return fmt.Errorf("take over what was erased in the data directory: %w", err)
	}
	e.catalog.erasing.Notify() // resume an unfinished erasure
	return nil
}

type takingOver struct {
	*Catalog
	tx     pgx.Tx
	former Former
	own    Own
}

func (t *takingOver) log(ctx context.Context) error {
	for mark := (ship.ErasedMark{}); ; {
		page, upTo, err := t.former.After(mark, formerMost)
		if err != nil {
			return err
		}
		if len(page) == 0 {
			return nil
		}
		mark = upTo
		var accounts []int64
		var ids []string
		for _, x := range page {
			number, err := t.accounts.Number(x.Account)
			if isMissing(err) {
				continue // deleted with everything it had
			}
			if err != nil {
				return err
			}
			switch _, err := t.own.ExchangeInfo(x.Account, x.Exchange); {
			case isMissing(err):
				accounts, ids = append(accounts, int64(number)), append(ids, x.Exchange)
			case err != nil:
				return err
			}
		}
		if err := buryInOrder(ctx, t.tx, accounts, ids, make([]*string, len(ids))); err != nil {
			return err
		}
	}
}

// receipts copies the receipts from before the first one here: erasures here are carried out in the store beside as
// well.
func (t *takingOver) receipts(ctx context.Context) error {
	var first *string
	if err := t.tx.QueryRow(ctx, "select min(id) from erasures").Scan(&first); err != nil {
		return err
	}
	return t.former.Asked(func(account string, e *store.Erasure) error {
		number, err := t.accounts.Number(account)
		if err != nil || first != nil && e.ID >= *first {
			return unlessNotFound(err)
		}
		receipt, err := json.Marshal(e)
		if err == nil {
			_, err = t.tx.Exec(ctx, "insert into erasures values ($1, $2, $3, $4) on conflict do nothing",
				int64(number), e.ID, e.State == store.ErasureDone, string(receipt))
		}
		return err
	})
}

func (t *takingOver) edges(ctx context.Context) error {
	edges, err := t.former.Edges()
	if err != nil {
		return err
	}
	for _, edge := range edges {
		_, err := t.tx.Exec(ctx, "insert into edges values ($1, $2, $3, $4) on conflict do nothing",
			int32(edge.Node), edge.Seen, unlessZero(edge.Clean), unlessZero(edge.Gone))
		if err != nil {
			return err
		}
	}
	latest, err := t.former.Latest()
	if err != nil || latest.IsZero() {
		return err
	}
	return noteLatest(ctx, t.tx, latest)
}

func unlessNotFound(err error) error {
	if isMissing(err) {
		return nil
	}
	return err
}
