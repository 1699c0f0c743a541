package store

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/codec"
)

// What is derived of whole sessions follows them by a mark on each session whose turns have changed: when that began, and
// when it was the last time. A mark stays until its reader confirms it, and a change that comes meanwhile makes it another
// mark; so a crash loses no change, and a session that is talked in has one mark however long that lasts.

// SessionChange says that turns of a session were added, have changed or are gone; the session may be, too. Two of one
// session are equal until it changes again.
type SessionChange struct {
	Account AccountNumber
	Session string
	Since   time.Time // the first change that is not confirmed

	mark string // since and the time of the last change, in nanoseconds
}

func sessionChangeKey(account accountNumber, id sessionID) []byte {
	return append(spaceKeyOf(spaceSessionChange, account), id[:]...)
}

func (g *gathering) sessionChanged(w *write, ref sessionRef) {
	key := sessionChangeKey(ref.account, ref.id)
	now := binary.BigEndian.AppendUint64(nil, uint64(time.Now().UnixNano()))
	since := now
	if mark := g.getOf(ref, key); len(mark) == 2*len(now) {
		since = mark[:len(now)]
	}
	g.put(w, key, slices.Concat(since, now))
}

// SessionChanges gives at most limit sessions that began to change before a time and were not confirmed since: those of
// one account, or with 0 of all. It leaves out what is known says; known may be nil. A mark that is damaged is of a session
// that has always been changing: it is given, and gone once it is confirmed.
func (s Feed) SessionChanges(ctx context.Context, account AccountNumber, before time.Time, limit int, known func(SessionChange) bool) (changes []SessionChange, err error) {
	prefix := []byte{spaceSessionChange}
	if account > 0 {
		prefix = spaceKeyOf(spaceSessionChange, accountNumber(account))
	}
	err = s.view(func(tx *badger.Txn) error {
		err := eachValue(ctx, tx, prefix, func(key, value []byte) error {
			number, id, ok := splitSessionKey(key)
			if !ok {
				return nil // a check finds it
			}
			if len(changes) == limit {
				return errWalked
			}
			c := SessionChange{Account: AccountNumber(number), Session: id.String(), mark: string(value)}
			if len(value) == 16 {
				c.Since = time.Unix(0, int64(binary.BigEndian.Uint64(value)))
			}
			if c.Since.Before(before) && (known == nil || !known(c)) {
				changes = append(changes, c)
			}
			return nil
		})
		if errors.Is(err, errWalked) {
			return nil
		}
		return err
	})
	if err != nil {
		return nil, asStorageError(err, "the sessions that have changed cannot be read; run mneme check")
	}
	return changes, nil
}

// ConfirmSessionChanges takes the marks away, but for those of sessions that have changed again.
func (s Feed) ConfirmSessionChanges(ctx context.Context, changes []SessionChange) error {
	err := s.update(ctx, func(g *gathering, w *write) error {
		for i := range changes {
			c := &changes[i]
			id, _ := parseSessionID(c.Session)
			key := sessionChangeKey(accountNumber(c.Account), id)
			if string(g.get(key)) == c.mark {
				g.put(w, key, nil)
			}
		}
		return g.err
	})
	if err != nil {
		return asStorageError(err, "what is known of sessions could not be noted")
	}
	return nil
}

// RepeatSessionChanges marks every session, for a reader that starts afresh.
func (s Feed) RepeatSessionChanges(ctx context.Context) error {
	var batch []sessionRef
	flush := func() error {
		err := s.update(ctx, func(g *gathering, w *write) error {
			for _, ref := range batch {
				g.sessionChanged(w, ref)
			}
			return nil
		})
		batch = batch[:0]
		return err
	}
	err := s.view(func(tx *badger.Txn) error {
		return eachItem(ctx, tx, []byte{spaceSession}, func(item *badger.Item) error {
			account, id, ok := splitSessionKey(item.Key())
			if !ok {
				return nil
			}
			if batch = append(batch, sessionRef{account, id}); len(batch) < requeueBatch {
				return nil
			}
			return flush()
		})
	})
	if err = errors.Join(err, flush()); err != nil {
		return asStorageError(err, "the sessions could not be listed; run mneme check")
	}
	return nil
}

// SessionAt gives a session by the number of its account; [codec.KindNotFound] if it is gone or was merged into another.
func (s Feed) SessionAt(account AccountNumber, id string) (*Session, error) {
	key, ok := parseSessionID(id)
	if !ok {
		return nil, errNoSession(id)
	}
	var r *sessionRecord
	err := s.view(func(tx *badger.Txn) (err error) {
		r, err = getSession(tx, accountNumber(account), key)
		return err
	})
	switch {
	case errors.Is(err, badger.ErrKeyNotFound) || err == nil && r.Merged != "":
		return nil, codec.Errorf(codec.KindNotFound, "no session %q", id)
	case err != nil:
		return nil, errStorage(err, "session %s cannot be read; run mneme check", id)
	}
	return &r.Session, nil
}
