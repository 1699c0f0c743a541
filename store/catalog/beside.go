package catalog

import (
	"context"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store"
)

// Own is a store that records for itself, and whose log the catalog takes as it takes those of edges.
type Own interface {
	Exchange(account, id string) (*store.Exchange, error)
	ExchangeInfo(account, id string) (*store.ExchangeInfo, error)
	AnsweredAs(account, response string) (exchange string, err error)
	Import(ctx context.Context, account string, e store.Exported) (taken bool, err error)
}

// Beside is a catalog and the store beside it: single exchanges are found as soon as the store has them.
type Beside struct {
	*Catalog
	Own Own
}

// otherwise asks the store for what is not in the catalog, or not yet.
func otherwise[T any](found T, err error, own func() (T, error)) (T, error) {
	if isMissing(err) {
		if here, missing := own(); missing == nil {
			return here, nil
		}
	}
	return found, err
}

func isMissing(err error) bool {
	return err != nil && codec.AsError(err, "").Kind == codec.KindNotFound
}

// Exchange is [Catalog.Exchange] for both.
func (b Beside) Exchange(account, id string) (*store.Exchange, error) {
	x, err := b.Catalog.Exchange(account, id)
	return otherwise(x, err, func() (*store.Exchange, error) { return b.Own.Exchange(account, id) })
}

// ExchangeInfo is [Catalog.ExchangeInfo] for both.
func (b Beside) ExchangeInfo(account, id string) (*store.ExchangeInfo, error) {
	x, err := b.Catalog.ExchangeInfo(account, id)
	return otherwise(x, err, func() (*store.ExchangeInfo, error) { return b.Own.ExchangeInfo(account, id) })
}

// AnsweredAs is [Catalog.AnsweredAs] for both.
func (b Beside) AnsweredAs(account, response string) (string, error) {
	id, err := b.Catalog.AnsweredAs(account, response)
	return otherwise(id, err, func() (string, error) { return b.Own.AnsweredAs(account, response) })
}

// Import imports one element of an export into the store, whose log takes it to the catalog, where lists and searches
// find it. An exchange that is in the catalog, or was erased there, is not imported: taken is false.
func (b Beside) Import(ctx context.Context, account string, e store.Exported) (taken bool, err error) {
	known := false
	switch {
	case e.Session != nil:
		_, err = b.Session(account, e.Session.ID)
		if known = err == nil; isMissing(err) {
			err = nil
		}
	case e.Exchange != nil:
		if known, err = b.knows(ctx, account, e.Exchange.ID); known {
			return false, err
		}
	}
	if err != nil {
		return false, err
	}
	// The store creates the session in any case, since its exchanges look for it there.
	taken, err = b.Own.Import(ctx, account, e)
	return taken && !known, err
}

// knows reports whether an exchange exists, or existed and was erased.
func (c *Catalog) knows(ctx context.Context, account, id string) (known bool, err error) {
	number, err := c.number(account)
	if err != nil {
		return false, err
	}
	err = c.pool.QueryRow(ctx, `select exists (select from exchanges where account = $1 and id = $2)
		or exists (select from tombs where account = $1 and exchange = $2)`, number, exchangeID(id)).Scan(&known)
	return known, unreadable(err)
}
