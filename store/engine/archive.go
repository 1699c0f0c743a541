package engine

import (
	"context"

	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/search"
)

// Archive is what was recorded, and who administered it.
type Archive struct {
	store.Archive
	*store.AuditLog
	store *store.Store
}

// Turn is an exchange and what it added to its session.
func (a Archive) Turn(account, exchange string) (record.TimelineEntry, error) {
	number, err := a.store.Accounts().Number(account)
	if err != nil {
		return record.TimelineEntry{}, err
	}
	return a.store.Feed().TurnAt(number, exchange)
}

// Summaries are what models wrote about sessions, and what there is to write from.
type Summaries struct {
	store.Summaries
	store *store.Store
}

// ClaimSession reports true: no other process has the store open.
func (s Summaries) ClaimSession(context.Context, record.UnsummarizedSession) (claimed bool, err error) {
	return true, nil
}

// Material is what there is to write the summary of a session from; nil when it is gone, or nothing was said in it.
func (s Summaries) Material(account record.AccountNumber, session string) (*search.Material, error) {
	return search.ReadMaterial(s.store, account, session)
}
