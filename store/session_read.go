package store

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// SessionQuery asks for a page of sessions, by when they began.
type SessionQuery struct {
	After, Before string // cursors, as in [ExchangeQuery]
	Limit         int    // 1 to 1000; 0: 20
	Ascending     bool   // oldest first; otherwise newest first

	// Filters; the zero value does not filter.
	ChatKey         string
	ExternalSession string
	Model           string // requested in one of the session's exchanges, case-insensitive
	Tag             string
	Client          string // as [ExchangeInfo.Client] returns it
	Project         string
	State           SessionState
	Parent          string    // only the subagents of this session
	Since, Until    time.Time // the last exchange began in this range; Until is exclusive
}

// SessionState is how the exchanges of a session ended.
type SessionState uint8

const (
	AnyState   SessionState = iota
	Complete                // all have complete answers
	Incomplete              // some do not, or are open
)

// SessionPage is an answer to a [SessionQuery].
type SessionPage struct {
	Data    []Session
	HasMore bool

	// Reached is the session at which a filtered search stopped before the page was full; "" if it did not. Continue
	// with it as After, or as Before if the query had only that.
	Reached string
}

// mostLooked bounds how many sessions are examined for one page, so that a filter with few matches does not read the
// whole memory. A session whose record lacks its client and project counts for lookOfExchanges.
const (
	mostLooked      = 10_000
	lookOfExchanges = 20
)

// Sessions lists the sessions of an account, including damaged ones. Merged sessions are left out. With filters a page
// may have fewer than Limit, or none, although more follow: see Reached.
func (s Archive) Sessions(account string, q SessionQuery) (SessionPage, error) {
	number, err := s.accounts.Number(account)
	if err != nil {
		return SessionPage{}, err
	}
	w, err := s.sessionWindow(number, &q)
	if err != nil {
		return SessionPage{}, err
	}
	page := SessionPage{Data: make([]Session, 0, w.Limit)}
	left, at := mostLooked, ""
	err = s.view(func(tx *badger.Txn) error {
		s.eachSession(tx, &w, number, func(id kv.SessionID, item *badger.Item) bool {
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
			if !q.matches(&session) {
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
		return SessionPage{}, kv.StorageError(err, "the sessions cannot be listed; run mneme check")
	}
	if w.Reverse {
		slices.Reverse(page.Data)
	}
	return page, nil
}

// readOrigin takes a session's client and project from its first exchanges.
func readOrigin(tx *badger.Txn, account kv.AccountNumber, id kv.SessionID, session *Session) {
	const first = 5 // clients start with requests of their own
	w, left := kv.Window{Limit: first}, first
	w.Walk(tx, kv.MemberPrefix(account, id), func(exchange kv.TimeID, _ *badger.Item) bool {
		if info, err := getInfo(tx, account, kv.ExchangeID(exchange)); err == nil {
			session.comesFrom(info.Client(), info.Project)
		}
		left--
		return left > 0 && (session.Client == "" || session.Project == "")
	})
}

// sessionWindow reads the cursors of a query.
func (s *core) sessionWindow(account kv.AccountNumber, q *SessionQuery) (w kv.Window, err error) {
	after, before := q.After, q.Before
	err = s.view(func(tx *badger.Txn) (err error) {
		for _, cursor := range [...]*string{&after, &before} {
			text := *cursor
			if *cursor, err = s.place(tx, account, text); errors.Is(err, badger.ErrKeyNotFound) {
				return NoSession(text)
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

func (q *SessionQuery) matches(s *Session) bool {
	is := func(want, have string) bool { return want == "" || want == have }
	return s.Merged == "" &&
		is(q.ChatKey, s.ChatKey) && is(q.ExternalSession, s.ExternalSession) && is(q.Parent, s.Parent) &&
		(q.Model == "" || slices.ContainsFunc(s.Models, func(asked string) bool { return strings.EqualFold(asked, q.Model) })) &&
		(q.Tag == "" || slices.Contains(s.Tags, q.Tag)) &&
		is(q.Client, s.Client) && is(q.Project, s.Project) &&
		(q.State == AnyState || (q.State == Complete) == (s.Exchanges == s.Completed)) &&
		!s.Updated.Before(q.Since) && (q.Until.IsZero() || s.Updated.Before(q.Until))
}

// Session returns one session of the account; [codec.KindNotFound] if there is none. A session that was merged into
// another says so in Merged.
func (s Archive) Session(account, id string) (*Session, error) {
	number, key, err := s.sessionOf(account, id)
	if err != nil {
		return nil, err
	}
	var r *sessionRecord
	err = s.view(func(tx *badger.Txn) (err error) {
		r, err = s.getSession(tx, sessionRef{number, key})
		return err
	})
	if errors.Is(err, badger.ErrKeyNotFound) {
		return nil, NoSession(id)
	}
	if err != nil {
		return nil, kv.StorageError(err, "session %s cannot be read; run mneme check", id)
	}
	return &r.Session, nil
}

// NoSession returns the error for an id of no session.
func NoSession(id string) error {
	if strings.HasPrefix(id, kv.ExchangePrefix) {
		return codec.Errorf(codec.KindNotFound, "no session %q: that is the id of an exchange", id)
	}
	return codec.Errorf(codec.KindNotFound, "no session %q", id)
}

// NoExchange returns the error for an id of no exchange.
func NoExchange(id string) error {
	if strings.HasPrefix(id, kv.SessionPrefix) {
		return codec.Errorf(codec.KindNotFound, "no exchange %q: that is the id of a session", id)
	}
	return codec.Errorf(codec.KindNotFound, "no exchange %q", id)
}

// sessionOf parses the ids of an account and a session.
func (s *core) sessionOf(account, id string) (kv.AccountNumber, kv.SessionID, error) {
	key, ok := kv.ParseSessionID(id)
	number, known := s.accounts.Find(account)
	if !ok || !known {
		return 0, key, NoSession(id)
	}
	return number, key, nil
}

// getSession returns the newest record of a session that exists in a view. A view that may be open for longer than a
// second needs another one for that: see mostShown.
func (s *core) getSession(tx *badger.Txn, ref sessionRef) (*sessionRecord, error) {
	item, err := tx.Get(kv.SessionKey(ref.account, ref.id))
	if err != nil {
		return nil, err
	}
	return s.newestSession(ref, item)
}

// FollowMerges returns the session that has the exchanges of a session: itself, or the one that it was merged into. read
// reads a session; its errors are returned.
func FollowMerges(session string, read func(id string) (*Session, error)) (*Session, error) {
	s, err := read(session)
	for range MaxMerges {
		if err != nil || s.Merged == "" {
			break
		}
		s, err = read(s.Merged)
	}
	return s, err
}

// sessionWith returns the session that has the exchanges of a session: itself, or the one that it was merged into. An
// unreadable one counts as not merged, because its exchanges may still be readable.
func (s *core) sessionWith(tx *badger.Txn, ref sessionRef) (sessionRef, error) {
	for range MaxMerges {
		r, err := s.getSession(tx, ref)
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
		ref.id = into
	}
	return ref, nil
}

// newestSession returns the newest record of a session; item is its stored record.
func (s *core) newestSession(ref sessionRef, item *badger.Item) (*sessionRecord, error) {
	if r := s.ahead.show(ref, item.Version()); r != nil {
		return r, nil
	}
	r := new(sessionRecord)
	return r, item.Value(func(value []byte) error { return decodeRecord(value, r) })
}

// TimelineQuery asks for a page of a session's timeline.
type TimelineQuery struct {
	After, Before string // exchange ids as cursors, as in [ExchangeQuery]
	Limit         int    // 1 to 1000; 0: 20
	Descending    bool   // newest first; otherwise oldest first
}

// TimelineEntry is one exchange of a session.
type TimelineEntry struct {
	Exchange ExchangeInfo `json:"exchange"`
	Turn     *Turn        `json:"turn,omitempty"` // nil: auxiliary, not digested yet, or the exchange is damaged
}

// TimelinePage is an answer to a [TimelineQuery].
type TimelinePage struct {
	Data    []TimelineEntry
	HasMore bool
}

// mostlyListed is room for the exchanges of most sessions. An entry has 700 bytes.
const mostlyListed = 16

// Timeline lists the exchanges of a session, or of the one that it was merged into, each with what it added. A damaged
// one is [OutcomeDamaged], and a turn that is damaged says so as its error.
func (s Archive) Timeline(account, session string, q TimelineQuery) (TimelinePage, error) {
	number, key, err := s.sessionOf(account, session)
	if err != nil {
		return TimelinePage{}, err
	}
	w, err := kv.NewWindow(q.After, q.Before, q.Limit, !q.Descending, kv.ExchangePrefix)
	if err != nil {
		return TimelinePage{}, err
	}
	page := TimelinePage{Data: make([]TimelineEntry, 0, min(w.Limit, mostlyListed))}
	err = s.view(func(tx *badger.Txn) error {
		with, err := s.sessionWith(tx, sessionRef{number, key})
		if err != nil {
			return err
		}
		w.Walk(tx, kv.MemberPrefix(number, with.id), func(id kv.TimeID, _ *badger.Item) bool {
			if page.HasMore = len(page.Data) == w.Limit; page.HasMore {
				return false
			}
			page.Data = append(page.Data, s.listedEntry(tx, number, kv.ExchangeID(id)))
			return true
		})
		return nil
	})
	if errors.Is(err, badger.ErrKeyNotFound) {
		return TimelinePage{}, NoSession(session)
	}
	if err != nil {
		return TimelinePage{}, kv.StorageError(err, "the timeline of %s cannot be read; run mneme check", session)
	}
	if w.Reverse {
		slices.Reverse(page.Data)
	}
	return page, nil
}

func getTimelineEntry(tx *badger.Txn, account kv.AccountNumber, id kv.ExchangeID) (entry TimelineEntry, err error) {
	info, err := getInfo(tx, account, id)
	if err != nil {
		return entry, err
	}
	entry.Exchange = *info
	entry.Turn, err = getTurn(tx, account, id)
	return entry, err
}

// getTurn returns the turn of an exchange, nil if there is none.
func getTurn(tx *badger.Txn, account kv.AccountNumber, id kv.ExchangeID) (*Turn, error) {
	value, err := kv.Get(tx, kv.ExchangeKey(kv.SpaceTurn, account, id))
	if errors.Is(err, badger.ErrKeyNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	r, err := decodeTurn(value, id, textSources(tx, account, id))
	if err != nil {
		return nil, err
	}
	withhold(r.Messages) // it may have been digested before marks were heeded
	withhold(r.Answer)
	return &r.Turn, nil
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
	err = s.view(func(tx *badger.Txn) error {
		value, err := kv.Get(tx, linkKey(number, clue{byResponse, response}))
		if err != nil || len(value) != len(kv.SessionID{}) {
			return err
		}
		session, err := s.sessionWith(tx, sessionRef{number, kv.SessionID(value)})
		if err != nil {
			return err
		}
		w, err := kv.NewWindow("", "", 1, false, kv.ExchangePrefix)
		if err != nil {
			return err
		}
		left := longestSearch
		w.Walk(tx, kv.MemberPrefix(number, session.id), func(id kv.TimeID, _ *badger.Item) bool {
			if info, err := getInfo(tx, number, kv.ExchangeID(id)); err == nil && info.ResponseID == response {
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
func (f Feed) SessionAt(account AccountNumber, id string) (*Session, error) {
	key, ok := kv.ParseSessionID(id)
	if !ok {
		return nil, NoSession(id)
	}
	var r *sessionRecord
	err := f.view(func(tx *badger.Txn) (err error) {
		r, err = f.getSession(tx, sessionRef{account, key})
		return err
	})
	switch {
	case errors.Is(err, badger.ErrKeyNotFound) || err == nil && r.Merged != "":
		return nil, NoSession(id)
	case err != nil:
		return nil, kv.StorageError(err, "session %s cannot be read; run mneme check", id)
	}
	return &r.Session, nil
}

// TurnAt returns an exchange and its turn. Turn is nil for an exchange without one, and the error is
// [codec.KindNotFound] for one that is gone.
func (f Feed) TurnAt(account AccountNumber, exchange string) (TimelineEntry, error) {
	var entry TimelineEntry
	id, ok := kv.ParseExchangeID(exchange)
	if !ok {
		return entry, NoExchange(exchange)
	}
	err := f.view(func(tx *badger.Txn) (err error) {
		entry, err = getTimelineEntry(tx, account, id)
		return err
	})
	if errors.Is(err, badger.ErrKeyNotFound) {
		return entry, NoExchange(exchange)
	}
	if err != nil {
		return entry, kv.StorageError(err, "the turn of %s cannot be read; run mneme check", exchange)
	}
	return entry, nil
}
