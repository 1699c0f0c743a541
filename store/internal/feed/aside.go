package feed

import (
	"context"
	"encoding/binary"
	"errors"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/store/internal/commit"
	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// nextAside returns changes that were put aside, in whole records; nil if there are none.
func (f *Feed) nextAside(s Stage, limit int) (*Batch, error) {
	st, done := f.of(s)
	from := st.aside
	done()
	b := &Batch{}
	err := f.eachAside(s, from, func(number uint64, value []byte) error {
		st, done := f.of(s)
		_, parked := st.parked[number]
		done()
		if parked {
			return nil
		}
		if len(b.Changes) >= limit {
			return kv.ErrEnough
		}
		b.records = append(b.records, number)
		for ; len(value) > 0; value = value[AsideSize:] {
			account, id := kv.AccountNumber(binary.BigEndian.Uint32(value)), kv.ExchangeID(value[4:])
			if s == StageSessions {
				b.Changes = append(b.Changes, NewChange(account, kv.ExchangeID{}, kv.SessionID(id)))
				continue
			}
			b.Changes = append(b.Changes, NewChange(account, id, kv.SessionID{}))
		}
		return nil
	})
	if err != nil || len(b.records) > 0 {
		return b, err
	}
	st, done = f.of(s)
	defer done()
	st.drained, st.behind = true, 0
	return nil, nil
}

// eachAside visits the records of changes that a stage has put aside, after the record with that number.
func (f *Feed) eachAside(s Stage, after uint64, visit func(number uint64, value []byte) error) error {
	return f.each(byte(s), after, AsideSize, visit)
}

// Retry makes a stage try again what it has put aside.
func (f *Feed) Retry(s Stage) {
	st, done := f.of(s)
	defer done()
	for _, changes := range st.parked {
		st.behind += changes
	}
	st.aside, st.parked, st.drained = 0, nil, false
}

// Repeat makes the stage of words or of sessions process every turn or session of the store, replacing its earlier
// work, as it starts over with nothing. It returns their number.
func (f *Feed) Repeat(ctx context.Context, s Stage) (many int, err error) {
	space := byte(kv.SpaceTurn)
	if s == StageSessions {
		space = kv.SpaceSession
	}
	err = f.writer.DeletePrefix(ctx, f.db, []byte{kv.SpaceChange, byte(s)})
	if err == nil {
		err = f.writer.Update(ctx, func(_ *commit.Group, w *commit.Op) error {
			st, done := f.of(s)
			defer done()
			st.cursor = f.log.last
			w.Add(Cursor(s, f.log.last))
			return nil
		})
	}
	if err == nil {
		many, err = f.putAsideAll(ctx, s, space)
	}
	if err = errors.Join(err, f.begin(s)); err != nil {
		return many, kv.AsStorageError(err, "the turns could not be listed; run mneme check")
	}
	return many, nil
}

// putAsideAll puts aside the exchanges or sessions of all records of a kind.
func (f *Feed) putAsideAll(ctx context.Context, s Stage, space byte) (many int, err error) {
	var changes []*Change
	flush := func() error {
		err := f.writer.Update(ctx, func(_ *commit.Group, w *commit.Op) error {
			f.log.PutAside(w, s, changes, make(map[uint64]int))
			return nil
		})
		many += len(changes)
		changes = changes[:0]
		return err
	}
	err = f.db.View(func(tx *badger.Txn) error {
		return kv.EachItem(ctx, tx, []byte{space}, func(item *badger.Item) error {
			account, id, ok := kv.SplitExchangeKey(item.Key())
			if !ok {
				return nil // a check finds it
			}
			if changes = append(changes, NewChange(account, id, kv.SessionID(id))); len(changes) < changesTogether {
				return nil
			}
			return flush()
		})
	})
	if len(changes) > 0 {
		err = errors.Join(err, flush())
	}
	return many, err
}
