package feed

import (
	"encoding/binary"
	"errors"
	"slices"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/store/internal/commit"
	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// nextOfLog returns changes of the log, from memory if they are there, without those that are not for the stage: the
// digest stage gets exchanges without a turn, the other stages all other changes.
func (f *Feed) nextOfLog(s Stage, after, last uint64, limit int) (*Batch, error) {
	for {
		f.mu.Lock()
		changes, inMemory := f.recent.after(after, last, limit)
		f.mu.Unlock()
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
			changes = slices.DeleteFunc(changes, func(c *Change) bool { return c.Undigested != (s == StageDigest) })
		}
		if len(changes) > 0 {
			return &Batch{Changes: changes, through: after}, nil
		}
	}
}

// readLog returns changes of the log on disk.
func (f *Feed) readLog(after, last uint64, limit int) (changes []*Change, err error) {
	err = f.each(Logged, after, ChangeSize, func(number uint64, value []byte) error {
		for seq := number - uint64(len(value)/ChangeSize) + 1; seq <= number; seq++ {
			if len(changes) == limit || seq > last { // a part of the notes may be committed alone
				return kv.ErrEnough
			}
			if seq > after {
				id, session := kv.ExchangeID(value[4:]), kv.SessionID(value[4+len(kv.ExchangeID{}):])
				c := NewChange(kv.AccountNumber(binary.BigEndian.Uint32(value)), id, session)
				c.Seq = seq
				changes = append(changes, c)
			}
			value = value[ChangeSize:]
		}
		return nil
	})
	return changes, err
}

var errMalformed = errors.New("malformed entry in the log of changes")

// each visits records after the one with that number, with entries of the given size.
func (f *Feed) each(of byte, after uint64, size int, visit func(number uint64, value []byte) error) error {
	err := f.db.View(func(tx *badger.Txn) error {
		options := badger.IteratorOptions{Prefix: []byte{kv.SpaceChange, of}, PrefetchValues: true, PrefetchSize: 16}
		for item := range kv.Scan(tx, options, Key(of, after+1)) {
			key := item.Key()
			err := item.Value(func(value []byte) error {
				if len(key) != 2+8 || len(value)%size != 0 {
					return errMalformed
				}
				return visit(binary.BigEndian.Uint64(key[2:]), value)
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if errors.Is(err, kv.ErrEnough) {
		return nil
	}
	return err
}

// trim removes from the log what all stages have done, given the new cursor of one of them.
func (f *Feed) trim(g *commit.Group, w *commit.Op, s Stage, cursor uint64) (upTo uint64) {
	st, done := f.of(s)
	if upTo = cursor; cursor <= st.cursor { // nothing of the log is confirmed, or the stage has started over in the meantime
		upTo = 0
	} else {
		w.Add(Cursor(s, cursor))
	}
	for i := range f.stages {
		other := &f.stages[i]
		if Stages[i] == StageDigest && other != st && other.position > other.cursor { // turns are in the store as soon as they are done
			other.cursor = other.position
			w.Add(Cursor(StageDigest, other.cursor))
		}
		if other.following && other != st {
			upTo = min(upTo, other.cursor)
		}
	}
	done()
	from := f.trimmed.Load()
	if upTo <= from {
		return 0
	}
	f.trimming(g, w, upTo)
	n := 0
	for item := range kv.Items(g.Committed(), []byte{kv.SpaceChange, Logged}, Key(Logged, from+1)) {
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

// EachLogged visits the changes of the log after a number, as far as they can be read.
func EachLogged(tx *badger.Txn, after uint64, visit func(kv.SessionRef, kv.ExchangeID)) {
	for item := range kv.Items(tx, []byte{kv.SpaceChange, Logged}, Key(Logged, after+1)) {
		_ = item.Value(func(value []byte) error {
			for ; len(value) >= ChangeSize; value = value[ChangeSize:] {
				account, session := kv.AccountNumber(binary.BigEndian.Uint32(value)), kv.SessionID(value[4+len(kv.ExchangeID{}):])
				visit(kv.SessionRef{Account: account, ID: session}, kv.ExchangeID(value[4:]))
			}
			return nil
		})
	}
}

// NewChange returns a change without a number; exchange and session may be zero.
func NewChange(account kv.AccountNumber, id kv.ExchangeID, session kv.SessionID) *Change {
	c := &Change{Account: account, Place: kv.ExchangeRef{Account: account, ID: id}, In: session}
	if id != (kv.ExchangeID{}) {
		c.Exchange = id.String()
	}
	if session != (kv.SessionID{}) {
		c.Session = session.String()
	}
	return c
}
