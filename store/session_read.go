package store

import (
	"errors"
	"slices"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/internal/journal"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/record"
)

// mostLooked bounds how many sessions are examined for one page, so that a filter with few matches does not read the
// whole memory. A session whose record lacks its client and project counts for lookOfExchanges.
const (
	mostLooked      = 10_000
	lookOfExchanges = 20
)

// Sessions lists the sessions of an account, including damaged ones. Merged sessions are left out. With filters a page
// may have fewer than Limit, or none, although more follow: see Reached.
func (s Archive) Sessions(account string, q record.SessionQuery) (record.SessionPage, error) {
	number, err := s.accounts.Number(account)
	if err != nil {
		return record.SessionPage{}, err
	}
	w, err := s.sessionWindow(number, &q)
	if err != nil {
		return record.SessionPage{}, err
	}
	page := record.SessionPage{Data: make([]record.Session, 0, w.Limit)}
	left, at := mostLooked, ""
	err = s.db.View(func(tx *badger.Txn) error {
		s.sessions.Each(tx, &w, number, func(id kv.SessionID, item *badger.Item) bool {
			if left <= 0 {
				page.HasMore, page.Reached = true, at
				return false
			}
			session := s.listedSession(number, id, item)
			left, at = left-1, session.ID
			if (q.Client != "" || q.Project != "") && session.Client == "" && session.Project == "" {
				left -= lookOfExchanges
				readOrigin(tx, number, id, &session)
			}
			if !q.Matches(&session) {
				return true
			}
			if page.HasMore = len(page.Data) == w.Limit; page.HasMore {
				return false
			}
			page.Data = append(page.Data, session)
			return true
		})
		return nil
	})
	if err != nil {
		return record.SessionPage{}, kv.StorageError(err, "the sessions cannot be listed; run mneme check")
	}
	if w.Reverse {
		slices.Reverse(page.Data)
	}
	return page, nil
}

// readOrigin takes a session's client and project from its first exchanges.
func readOrigin(tx *badger.Txn, account kv.AccountNumber, id kv.SessionID, session *record.Session) {
	const first = 5 // clients start with requests of their own
	w, left := kv.Window{Limit: first}, first
	w.Walk(tx, kv.MemberPrefix(account, id), func(exchange kv.TimeID, _ *badger.Item) bool {
		if info, err := journal.Info(tx, account, kv.ExchangeID(exchange)); err == nil {
			session.NoteOrigin(info.Client(), info.Project)
		}
		left--
		return left > 0 && (session.Client == "" || session.Project == "")
	})
}

// sessionWindow reads the cursors of a query.
func (s *core) sessionWindow(account kv.AccountNumber, q *record.SessionQuery) (w kv.Window, err error) {
	after, before := q.After, q.Before
	err = s.db.View(func(tx *badger.Txn) (err error) {
		for _, cursor := range [...]*string{&after, &before} {
			text := *cursor
			if *cursor, err = s.sessions.Place(tx, account, text); errors.Is(err, badger.ErrKeyNotFound) {
				return record.NoSession(text)
			}
			if err != nil {
				return kv.StorageError(err, "session %s cannot be read; run mneme check", text)
			}
		}
		return nil
	})
	if err != nil {
		return w, err
	}
	return kv.NewWindow(after, before, q.Limit, q.Ascending, kv.SessionPrefix)
}

// Session returns one session of the account; [codec.KindNotFound] if there is none. A session that was merged into
// another says so in Merged.
func (s Archive) Session(account, id string) (*record.Session, error) {
	number, key, err := s.sessionOf(account, id)
	if err != nil {
		return nil, err
	}
	var r *record.StoredSession
	err = s.db.View(func(tx *badger.Txn) (err error) {
		r, err = s.sessions.Get(tx, kv.SessionRef{Account: number, ID: key})
		return err
	})
	if errors.Is(err, badger.ErrKeyNotFound) {
		return nil, record.NoSession(id)
	}
	if err != nil {
		return nil, kv.StorageError(err, "session %s cannot be read; run mneme check", id)
	}
	return &r.Session, nil
}

// sessionOf parses the ids of an account and a session.
func (s *core) sessionOf(account, id string) (kv.AccountNumber, kv.SessionID, error) {
	key, ok := kv.ParseSessionID(id)
	number, known := s.accounts.Find(account)
	if !ok || !known {
		return 0, key, record.NoSession(id)
	}
	return number, key, nil
}

// sessionWith returns the session that has the exchanges of a session: itself, or the one that it was merged into. An
// unreadable one counts as not merged, because its exchanges may still be readable.
func (s *core) sessionWith(tx *badger.Txn, ref kv.SessionRef) (kv.SessionRef, error) {
	for range record.MaxMerges {
		r, err := s.sessions.Get(tx, ref)
		if errors.Is(err, badger.ErrKeyNotFound) {
			return ref, err
		}
		if err != nil {
			return ref, nil //nolint:nilerr // see above
		}
		into, merged := kv.ParseSessionID(r.Merged)
		if !merged {
			break
		}
		ref.ID = into
	}
	return ref, nil
}

// mostlyListed is room for the exchanges of most sessions. An entry has 700 bytes.
const mostlyListed = 16

// Timeline lists the exchanges of a session, or of the one that it was merged into, each with what it added. A damaged
// one is [record.OutcomeDamaged], and a turn that is damaged says so as its error.
func (s Archive) Timeline(account, session string, q record.TimelineQuery) (record.TimelinePage, error) {
	number, key, err := s.sessionOf(account, session)
	if err != nil {
		return record.TimelinePage{}, err
	}
	w, err := kv.NewWindow(q.After, q.Before, q.Limit, !q.Descending, kv.ExchangePrefix)
	if err != nil {
		return record.TimelinePage{}, err
	}
	page := record.TimelinePage{Data: make([]record.TimelineEntry, 0, min(w.Limit, mostlyListed))}
	err = s.db.View(func(tx *badger.Txn) error {
		with, err := s.sessionWith(tx, kv.SessionRef{Account: number, ID: key})
		if err != nil {
			return err
		}
		w.Walk(tx, kv.MemberPrefix(number, with.ID), func(id kv.TimeID, _ *badger.Item) bool {
			if page.HasMore = len(page.Data) == w.Limit; page.HasMore {
				return false
			}
			page.Data = append(page.Data, s.listedEntry(tx, number, kv.ExchangeID(id)))
			return true
		})
		return nil
	})
	if errors.Is(err, badger.ErrKeyNotFound) {
		return record.TimelinePage{}, record.NoSession(session)
	}
	if err != nil {
		return record.TimelinePage{}, kv.StorageError(err, "the timeline of %s cannot be read; run mneme check", session)
	}
	if w.Reverse {
		slices.Reverse(page.Data)
	}
	return page, nil
}

// longestSearch is how many of a session's newest exchanges are searched for an answer.
const longestSearch = 10_000

// AnsweredAs returns the exchange whose answer has that provider's id, on the surface whose requests name the answer
// that they continue; [codec.KindNotFound] if the account has none.
func (s Archive) AnsweredAs(account, response string) (exchange string, err error) {
	number, err := s.accounts.Number(account)
	if err != nil {
		return "", err
	}
	err = s.db.View(func(tx *badger.Txn) error {
		value, err := kv.Get(tx, record.LinkKey(number, record.Clue{Kind: record.ByResponse, Value: response}))
		if err != nil || len(value) != len(kv.SessionID{}) {
			return err
		}
		session, err := s.sessionWith(tx, kv.SessionRef{Account: number, ID: kv.SessionID(value)})
		if err != nil {
			return err
		}
		w, err := kv.NewWindow("", "", 1, false, kv.ExchangePrefix)
		if err != nil {
			return err
		}
		left := longestSearch
		w.Walk(tx, kv.MemberPrefix(number, session.ID), func(id kv.TimeID, _ *badger.Item) bool {
			if info, err := journal.Info(tx, number, kv.ExchangeID(id)); err == nil && info.ResponseID == response {
				exchange = info.ID
			}
			left--
			return exchange == "" && left > 0
		})
		return nil
	})
	switch {
	case err != nil && !errors.Is(err, badger.ErrKeyNotFound):
		return "", kv.StorageError(err, "the answer %s cannot be looked up; run mneme check", response)
	case exchange == "":
		return "", codec.Errorf(codec.KindNotFound, "no answer with that id")
	}
	return exchange, nil
}

// SessionAt returns a session by the number of its account; [codec.KindNotFound] if it is gone or was merged.
func (f Feed) SessionAt(account record.AccountNumber, id string) (*record.Session, error) {
	key, ok := kv.ParseSessionID(id)
	if !ok {
		return nil, record.NoSession(id)
	}
	var r *record.StoredSession
	err := f.store.db.View(func(tx *badger.Txn) (err error) {
		r, err = f.store.sessions.Get(tx, kv.SessionRef{Account: account, ID: key})
		return err
	})
	switch {
	case errors.Is(err, badger.ErrKeyNotFound) || err == nil && r.Merged != "":
		return nil, record.NoSession(id)
	case err != nil:
		return nil, kv.StorageError(err, "session %s cannot be read; run mneme check", id)
	}
	return &r.Session, nil
}

// TurnAt returns an exchange and its turn. Turn is nil for an exchange without one, and the error is
// [codec.KindNotFound] for one that is gone.
func (f Feed) TurnAt(account record.AccountNumber, exchange string) (record.TimelineEntry, error) {
	var entry record.TimelineEntry
	id, ok := kv.ParseExchangeID(exchange)
	if !ok {
		return entry, record.NoExchange(exchange)
	}
	err := f.store.db.View(func(tx *badger.Txn) (err error) {
		entry, err = journal.Entry(tx, account, id)
		return err
	})
	if errors.Is(err, badger.ErrKeyNotFound) {
		return entry, record.NoExchange(exchange)
	}
	if err != nil {
		return entry, kv.StorageError(err, "the turn of %s cannot be read; run mneme check", exchange)
	}
	return entry, nil
}

// SessionKnownAs returns the session of an account that has an id, its own or one from a client; "" if none has.
func (s Archive) SessionKnownAs(account, id string) (session string) {
	number, ok := s.accounts.Find(account)
	if !ok || id == "" {
		return ""
	}
	if _, own := kv.ParseSessionID(id); own {
		return id
	}
	_ = s.db.View(func(tx *badger.Txn) error {
		for _, key := range record.ClientLinks(number, id) {
			value, err := kv.Get(tx, key)
			if err == nil && len(value) == len(kv.SessionID{}) {
				session = kv.SessionID(value).String()
				return nil
			}
		}
		return nil
	})
	return session
}
