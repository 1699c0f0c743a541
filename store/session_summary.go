package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/internal/commit"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/internal/sessions"
	"github.com/mnemeproxy/mneme/store/internal/writing"
	"github.com/mnemeproxy/mneme/store/record"
)

// SessionSummary returns the summary of a session of the account; nil if there is none.
func (s Archive) SessionSummary(account, session string) (*record.SessionSummary, error) {
	number, id, err := s.sessionOf(account, session)
	if err != nil {
		return nil, err
	}
	var m *record.SessionSummary
	err = s.db.View(func(tx *badger.Txn) error {
		m, err = getSummary(tx, kv.SessionRef{Account: number, ID: id})
		return err
	})
	if err != nil {
		return nil, kv.StorageError(err, "the summary of %s cannot be read; run mneme check", session)
	}
	return m, nil
}

func getSummary(tx *badger.Txn, ref kv.SessionRef) (*record.SessionSummary, error) {
	value, err := kv.Get(tx, sessions.SummaryKey(ref))
	if errors.Is(err, badger.ErrKeyNotFound) {
		return nil, nil //nolint:nilnil // most sessions have none
	}
	if err != nil {
		return nil, err
	}
	return record.ReadSummary(value)
}

// KeepSessionSummary stores a summary that was made from the named exchanges, and from the former summary unless that
// is nil. If one of them is gone in the meantime, it stores nothing and returns [codec.KindConflict]: erased content
// does not come back as a summary. Credentials in the text are masked, and it is truncated if too long.
func (s Summaries) KeepSessionSummary(ctx context.Context, account, session string, m record.SessionSummary, former *record.SessionSummary, exchanges []string) error {
	number, id, err := s.sessionOf(account, session)
	if err != nil {
		return err
	}
	value, err := m.Record(s.credentials.Redactor(account))
	if err != nil {
		return err
	}
	ref := kv.SessionRef{Account: number, ID: id}
	err = s.writer.Update(ctx, func(g *writing.Group, w *commit.Op) error {
		if !stillThere(g, ref, former, exchanges) {
			return codec.Errorf(codec.KindConflict, "the exchanges that the summary of %s describes were erased in the meantime", session)
		}
		g.Put(w, sessions.SummaryKey(ref), value)
		g.Sessions.Changes.NoteSession(ref)
		return nil
	})
	if err != nil {
		return kv.AsStorageError(err, "the summary of %s could not be kept", session)
	}
	return nil
}

// stillThere reports whether a session still has these exchanges, and this summary unless former is nil.
func stillThere(g *writing.Group, ref kv.SessionRef, former *record.SessionSummary, exchanges []string) bool {
	for _, text := range exchanges {
		id, ok := kv.ParseExchangeID(text)
		if !ok || !bytes.Equal(g.Get(kv.ExchangeKey(kv.SpaceBelongs, ref.Account, id)), ref.ID[:]) {
			return false
		}
	}
	if former == nil {
		return g.Has(kv.SessionKey(ref.Account, ref.ID))
	}
	m, err := record.ReadSummary(g.Get(sessions.SummaryKey(ref)))
	return err == nil && m.Same(former)
}

// UnsummarizedSessions returns, for each account, the first session that has been idle since a time, if any. Accounts
// for which skip returns true are skipped at once, however many sessions they have.
func (s Summaries) UnsummarizedSessions(ctx context.Context, since time.Time, skip func(record.AccountNumber) bool) (sessions []record.UnsummarizedSession, err error) {
	err = s.db.View(func(tx *badger.Txn) error {
		it := tx.NewIterator(badger.IteratorOptions{Prefix: []byte{kv.SpaceUnsummarized}})
		defer it.Close()
		passed := kv.AccountNumber(0) // skip the rest of its sessions; numbers begin at 1
		for it.Rewind(); it.Valid(); {
			if err := ctx.Err(); err != nil {
				return err
			}
			account, id, ok := kv.SplitSessionKey(it.Item().Key())
			if !ok { // a check finds it
				it.Next()
				continue
			}
			if account == passed || skip(account) {
				it.Seek(kv.SpaceKeyOf(kv.SpaceUnsummarized, account+1))
				continue
			}
			mark, err := it.Item().ValueCopy(nil)
			if err != nil {
				return err
			}
			if grew, ok := readGrown(mark); ok && grew.Before(since) {
				sessions = append(sessions, record.UnsummarizedSession{Account: account, Session: id.String(), Grew: grew})
				passed = account
			}
			it.Next()
		}
		return nil
	})
	if err != nil {
		return nil, kv.AsStorageError(err, "the sessions without a summary cannot be read; run mneme check")
	}
	return sessions, nil
}

// readGrown reads the time in the mark of a session, in nanoseconds since 1970.
func readGrown(mark []byte) (grew time.Time, ok bool) {
	if len(mark) != 8 {
		return time.Time{}, false
	}
	return time.Unix(0, int64(binary.BigEndian.Uint64(mark))), true
}

// ConfirmSummarized removes the mark of a session, unless it has grown again.
func (s Summaries) ConfirmSummarized(ctx context.Context, u record.UnsummarizedSession) error {
	id, ok := kv.ParseSessionID(u.Session)
	if !ok {
		return record.NoSession(u.Session)
	}
	key := sessions.UnsummarizedKey(kv.SessionRef{Account: u.Account, ID: id})
	err := s.writer.Update(ctx, func(g *writing.Group, w *commit.Op) error {
		if grew, ok := readGrown(g.Get(key)); ok && grew.Equal(u.Grew) {
			g.Put(w, key, nil)
		}
		return nil
	})
	if err != nil {
		return kv.AsStorageError(err, "the summary of %s could not be noted", u.Session)
	}
	return nil
}

// summarySpending is the tokens of an account's summaries on one day.
type summarySpending struct {
	Day    string `json:"day"` // in UTC, as in [time.DateOnly]
	Tokens int64  `json:"tokens"`
}

// SummaryTokens returns how many tokens summaries of an account have used on the day of now, in UTC.
func (s Summaries) SummaryTokens(account record.AccountNumber, now time.Time) (int64, error) {
	var spent summarySpending
	err := s.db.View(func(tx *badger.Txn) error {
		value, err := kv.Get(tx, kv.SpaceKeyOf(kv.SpaceSummaryTokens, account))
		if err != nil {
			return err
		}
		return record.Decode(value, &spent)
	})
	if err != nil && !errors.Is(err, badger.ErrKeyNotFound) {
		return 0, kv.StorageError(err, "what summaries have cost cannot be read; run mneme check")
	}
	if spent.Day != dayOf(now) {
		return 0, nil
	}
	return spent.Tokens, nil
}

// AddSummaryTokens counts tokens that a summary of an account has used on the day of now.
func (s Summaries) AddSummaryTokens(ctx context.Context, account record.AccountNumber, now time.Time, tokens int64) error {
	key := kv.SpaceKeyOf(kv.SpaceSummaryTokens, account)
	err := s.writer.UpdateOf(ctx, account, func(g *writing.Group, w *commit.Op) error {
		var spent summarySpending
		if value := g.Get(key); value == nil || record.Decode(value, &spent) != nil || spent.Day != dayOf(now) {
			spent = summarySpending{Day: dayOf(now)}
		}
		spent.Tokens += tokens
		value, err := kv.EncodeRecord(spent)
		if err == nil {
			g.Put(w, key, value)
		}
		return err
	})
	if err != nil {
		return kv.AsStorageError(err, "what a summary has cost could not be noted")
	}
	return nil
}

func dayOf(t time.Time) string { return t.UTC().Format(time.DateOnly) }
