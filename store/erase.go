package store

import (
	"context"

	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/internal/upkeep"
	"github.com/mnemeproxy/mneme/store/record"
)

// Erase erases the selected exchanges of an account in the background, and returns a receipt for following it. With
// dryRun it counts at once and erases nothing. A running exchange is left alone and counted. A session that was merged
// into another one stands for that one, which the receipt names too.
//
// The content of an exchange may also be in the requests of later exchanges, which repeat the history; to erase a
// conversation, erase its session.
func (s Archive) Erase(ctx context.Context, account string, sel record.Selection, dryRun bool) (*record.Erasure, error) {
	number, err := s.accounts.Number(account)
	if err != nil {
		return nil, err
	}
	if err := sel.Check(); err != nil {
		return nil, err
	}
	if dryRun {
		return s.keeper.Erasures.Count(ctx, number, sel)
	}
	return s.keeper.Erasures.Begin(ctx, number, sel, record.ErasedByRequest)
}

// Erasure returns the receipt of an erasure of the account.
func (s Archive) Erasure(account, id string) (*record.Erasure, error) {
	number, known := s.accounts.Find(account)
	if !known {
		return nil, upkeep.NoErasure(id)
	}
	return s.keeper.Erasures.Receipt(number, id)
}

// RetentionOf returns the retention rule of an account.
func (s Archive) RetentionOf(account string) Retention { return s.keeper.Retention.Of(account) }

// Usage returns the disk usage of an account. For a large account it may be an earlier result: see AsOf.
func (s Archive) Usage(ctx context.Context, account string) (record.Usage, error) {
	number, err := s.accounts.Number(account)
	if err != nil {
		return record.Usage{}, err
	}
	return s.usage.Of(ctx, number)
}

// MergeSession moves all exchanges of a session into another one of the same account and returns that. Links to the
// first then lead there.
func (s Archive) MergeSession(ctx context.Context, account, from, into string) (*record.Session, error) {
	number, fromID, err := s.sessionOf(account, from)
	if err != nil {
		return nil, err
	}
	_, intoID, err := s.sessionOf(account, into)
	if err != nil {
		return nil, err
	}
	if err := s.keeper.Moves.Merge(ctx, kv.SessionRef{Account: number, ID: fromID}, intoID); err != nil {
		return nil, err
	}
	return s.Session(account, into)
}

// SplitSession moves an exchange of a session, or of the one that it was merged into, and all that began after it there,
// into a new session and returns that. Links to the session stay; only the ids of moved responses lead to the new one.
func (s Archive) SplitSession(ctx context.Context, account, session, exchange string) (*record.Session, error) {
	number, id, err := s.sessionOf(account, session)
	if err != nil {
		return nil, err
	}
	first, ok := kv.ParseExchangeID(exchange)
	if !ok {
		return nil, record.NoExchange(exchange)
	}
	split, err := s.keeper.Moves.Split(ctx, kv.SessionRef{Account: number, ID: id}, first)
	if err != nil {
		return nil, err
	}
	return s.Session(account, split.String())
}

// Compact is [upkeep.Space.Compact].
func (s Upkeep) Compact(ctx context.Context) error { return s.keeper.Space.Compact(ctx) }
