package store

import (
	"errors"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/internal/journal"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/record"
)

// Lists include damaged records, with an error and what is known without the record: a broken record never hides
// others, and pages continue after it.

// listedExchange returns an exchange as lists show it.
func (s *core) listedExchange(tx *badger.Txn, account kv.AccountNumber, id kv.ExchangeID) record.ExchangeInfo {
	info, err := journal.Info(tx, account, id)
	if err == nil {
		return *info
	}
	damaged := record.ExchangeInfo{
		ID: id.String(), Account: s.accounts.Name(account), Outcome: record.OutcomeDamaged, Started: id.Time().UTC(),
		Error: errDamaged("the record of this exchange cannot be read; run mneme check"),
	}
	if session, err := kv.Get(tx, kv.ExchangeKey(kv.SpaceBelongs, account, id)); err == nil && len(session) == len(kv.SessionID{}) {
		damaged.Session = kv.SessionID(session).String()
	}
	return damaged
}

// listedEntry returns an exchange and its turn as timelines show them.
func (s *core) listedEntry(tx *badger.Txn, account kv.AccountNumber, id kv.ExchangeID) record.TimelineEntry {
	entry := record.TimelineEntry{Exchange: s.listedExchange(tx, account, id)}
	if entry.Exchange.Outcome == record.OutcomeDamaged {
		return entry
	}
	var err error
	if entry.Turn, err = journal.Turn(tx, account, id); err != nil {
		problem := "the turn cannot be read; rebuild it with: mneme check --repair"
		if errors.Is(err, record.ErrTurnSource) {
			problem = "the turn cannot be read, since its request or its answer is damaged; see: mneme check"
		}
		entry.Turn = &record.Turn{
			Exchange: entry.Exchange.ID, Started: entry.Exchange.Started, Outcome: entry.Exchange.Outcome, Model: entry.Exchange.ModelAsked,
			Error: problem,
		}
	}
	return entry
}

// listedSession returns a session as lists show it.
func (s *core) listedSession(account kv.AccountNumber, id kv.SessionID, item *badger.Item) record.Session {
	if r, err := s.sessions.Newest(kv.SessionRef{Account: account, ID: id}, item); err == nil {
		return r.Session
	}
	var began time.Time
	if !id.IsNamed() {
		began = kv.ExchangeID(id).Time().UTC() // ids of all kinds have the same form
	}
	return record.Session{
		ID: id.String(), Account: s.accounts.Name(account), Created: began, Updated: began,
		Error: errDamaged("the record of this session cannot be read; run mneme check"),
	}
}

func errDamaged(message string) *record.ErrorInfo {
	return &record.ErrorInfo{Kind: codec.KindStorage.String(), Message: message}
}
