package store

import (
	"encoding/binary"
	"errors"
	"slices"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/store/internal/commit"
	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// changed notes that the turn of an exchange has changed or, for the zero exchange, the session.
func (g *commitGroup) changed(ref kv.SessionRef, id kv.ExchangeID) *Change {
	return g.note(newChange(0, ref.Account, id, ref.ID))
}

// changedTurn is changed where the ids are known as text, too.
func (g *commitGroup) changedTurn(ref kv.SessionRef, id kv.ExchangeID, session, exchange string) *Change {
	return g.note(&Change{Account: ref.Account, Exchange: exchange, Session: session, place: kv.ExchangeRef{Account: ref.Account, ID: id}, session: ref.ID})
}

// note adds a change to the log.
func (g *commitGroup) note(c *Change) *Change {
	g.store.feed.last++
	c.Seq = g.store.feed.last
	g.changes = append(g.changes, c)
	return c
}

// sessionChanged notes that a session has changed.
func (g *commitGroup) sessionChanged(ref kv.SessionRef) { g.changed(ref, kv.ExchangeID{}) }

// ended notes that an exchange has ended and has to be digested.
func (g *commitGroup) ended(ref kv.SessionRef, id kv.ExchangeID) *Change {
	c := g.changed(ref, id)
	c.undigested = true
	return c
}

func newChange(seq uint64, account kv.AccountNumber, id kv.ExchangeID, session kv.SessionID) *Change {
	c := &Change{Seq: seq, Account: account, place: kv.ExchangeRef{Account: account, ID: id}, session: session}
	if id != (kv.ExchangeID{}) {
		c.Exchange = id.String()
	}
	if session != (kv.SessionID{}) {
		c.Session = session.String()
	}
	return c
}

// logRecords returns the group's additions to the log. They must be committed before the changes themselves: a crash in
// between leaves a log that reports too much, and what was not committed is done and noted again.
func (g *commitGroup) logRecords() (records []commit.Entry) {
	for rest := g.changes; len(rest) > 0; {
		n := 1
		for n < min(len(rest), changesTogether) && rest[n].Seq == rest[n-1].Seq+1 {
			n++
		}
		value := make([]byte, 0, n*changeSize)
		for _, c := range rest[:n] {
			value = append(binary.BigEndian.AppendUint32(value, uint32(c.Account)), c.place.ID[:]...)
			value = append(value, c.session[:]...)
		}
		records = append(records, commit.Entry{Key: feedKey(logRecords, rest[n-1].Seq), Value: value})
		rest = rest[n:]
	}
	return records
}

// nextOfLog returns changes of the log, from memory if they are there, without those that are not for the stage: the
// digest stage gets exchanges without a turn, the other stages all other changes.
func (f Feed) nextOfLog(s Stage, after, last uint64, limit int) (*Batch, error) {
	for {
		f.feed.mu.Lock()
		changes, inMemory := f.feed.recent.after(after, last, limit)
		f.feed.mu.Unlock()
		if !inMemory {
			var err error
			if changes, err = f.readLog(after, last, limit); err != nil {
				return nil, err
			}
		}
		if len(changes) == 0 {
			f.Done(s, &Batch{through: last})
			return nil, nil //nolint:nilnil // there is nothing
		}
		after = changes[len(changes)-1].Seq
		if inMemory {
			changes = slices.DeleteFunc(changes, func(c *Change) bool { return c.undigested != (s == StageDigest) })
		}
		if len(changes) > 0 {
			return &Batch{Changes: changes, through: after}, nil
		}
	}
}

// readLog returns changes of the log on disk.
func (f Feed) readLog(after, last uint64, limit int) (changes []*Change, err error) {
	err = f.each(logRecords, after, changeSize, func(number uint64, value []byte) error {
		for seq := number - uint64(len(value)/changeSize) + 1; seq <= number; seq++ {
			if len(changes) == limit || seq > last { // a part of the notes may be committed alone
				return errWalked
			}
			if seq > after {
				id, session := kv.ExchangeID(value[4:]), kv.SessionID(value[4+len(kv.ExchangeID{}):])
				changes = append(changes, newChange(seq, kv.AccountNumber(binary.BigEndian.Uint32(value)), id, session))
			}
			value = value[changeSize:]
		}
		return nil
	})
	return changes, err
}

var errMalformedChange = errors.New("malformed entry in the log of changes")

// each visits records after the one with that number, with entries of the given size.
func (f Feed) each(of byte, after uint64, size int, visit func(number uint64, value []byte) error) error {
	err := f.view(func(tx *badger.Txn) error {
		options := badger.IteratorOptions{Prefix: []byte{kv.SpaceChange, of}, PrefetchValues: true, PrefetchSize: 16}
		for item := range kv.Scan(tx, options, feedKey(of, after+1)) {
			key := item.Key()
			err := item.Value(func(value []byte) error {
				if len(key) != 2+8 || len(value)%size != 0 {
					return errMalformedChange
				}
				return visit(binary.BigEndian.Uint64(key[2:]), value)
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if errors.Is(err, errWalked) {
		return nil
	}
	return err
}

// trim removes from the log what all stages have done, given the new cursor of one of them.
func (f Feed) trim(g *commitGroup, w *commit.Op, s Stage, cursor uint64) (upTo uint64) {
	st, done := f.of(s)
	if upTo = cursor; cursor <= st.cursor { // nothing of the log is confirmed, or the stage has started over in the meantime
		upTo = 0
	} else {
		w.Add(cursorRecord(s, cursor))
	}
	for i := range f.feed.stages {
		other := &f.feed.stages[i]
		if stages[i] == StageDigest && other != st && other.position > other.cursor { // turns are in the store as soon as they are done
			other.cursor = other.position
			w.Add(cursorRecord(StageDigest, other.cursor))
		}
		if other.following && other != st {
			upTo = min(upTo, other.cursor)
		}
	}
	done()
	from := f.feed.trimmed.Load()
	if upTo <= from {
		return 0
	}
	if s := g.store.ahead.oldest(); s != nil && s.since < upTo {
		g.storeSessions(w, 0, upTo)
	}
	n := 0
	for item := range kv.Items(g.Committed(), []byte{kv.SpaceChange, logRecords}, feedKey(logRecords, from+1)) {
		key := item.KeyCopy(nil)
		if number := binary.BigEndian.Uint64(key[2:]); number > upTo {
			break
		} else if n++; n > mostTrimmed {
			return number - 1
		}
		w.Add(commit.Entry{Key: key})
	}
	return upTo
}
