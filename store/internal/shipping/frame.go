package shipping

import (
	"context"
	"encoding/binary"
	"errors"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/store/internal/blob"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/ship"
)

// Limits on one frame: brokers and the centre work by frames, and one exchange alone may be larger.
const (
	frameEntries = 256
	frameBytes   = 512 << 10
)

// Next returns the entries after a number, as many as make a frame; Last is 0 if there are none. Blocks and nodes that
// were shipped before are left out, see [Log.Forget]. Exchanges that were erased or are unreadable have no entry;
// numbers continue.
func (p *Log) Next(ctx context.Context, after uint64) (f ship.Frame, err error) {
	f = ship.Frame{Log: p.log, After: after, Whole: p.sent.Empty()}
	err = p.read(func(tx *badger.Txn) error {
		options := badger.DefaultIteratorOptions
		options.Prefix = []byte{kv.SpaceShip}
		size := 0
		for item := range kv.Scan(tx, options, key(after+1)) {
			if len(f.Entries) >= frameEntries || size >= frameBytes {
				break
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			value, err := item.ValueCopy(nil)
			if err != nil {
				return err
			}
			f.Last = binary.BigEndian.Uint64(item.Key()[1:])
			at, ok := readEntry(value)
			if !ok {
				return errMalformed
			}
			f.Tail = ship.Tail(at.ID)
			e, err := p.entry(tx, at)
			switch {
			case errors.Is(err, badger.ErrKeyNotFound) && e == nil: // erased
			case err != nil:
				p.o.Logger.Error("an exchange cannot be read, and is not shipped; run mneme check", "exchange", at.ID.String(), "error", err)
			default:
				size += e.Size()
				f.Entries = append(f.Entries, *e)
			}
		}
		return nil
	})
	return f, err
}

// Forget makes blocks and nodes be shipped again, since the receiver may not have them.
func (p *Log) Forget() { p.sent.Clear() }

// entry reads an exchange. For one that is gone it returns nil and [badger.ErrKeyNotFound].
func (p *Log) entry(tx *badger.Txn, at kv.ExchangeRef) (*ship.Entry, error) {
	stored, err := kv.Get(tx, kv.ExchangeKey(kv.SpaceExchange, at.Account, at.ID))
	if err != nil {
		return nil, err
	}
	var info record.ExchangeInfo
	e := &ship.Entry{Exchange: at.ID.String(), Record: stored}
	if err := record.Decode(stored, &info); err != nil {
		return e, err
	}
	e.Account = info.Account
	skeleton, err := kv.Get(tx, kv.ExchangeKey(kv.SpaceRequest, at.Account, at.ID))
	if err != nil {
		return e, err
	}
	if e.Skeleton, err = blob.PlainSkeleton(skeleton); err != nil {
		return e, err
	}
	if info.Part != nil {
		part, err := blob.PlainPart(info.Part)
		if err != nil {
			return e, err
		}
		info.Part = nil
		e.Parts, e.Record = append(e.Parts, part), record.Encode(&info)
	}
	for number := uint32(len(e.Parts)); ; number++ { // an iterator costs more than the few lookups
		part, err := kv.Get(tx, kv.PartKey(kv.SpaceResponse, at.Account, at.ID, number))
		if errors.Is(err, badger.ErrKeyNotFound) {
			break
		}
		if err == nil {
			part, err = blob.PlainPart(part)
		}
		if err != nil {
			return e, err
		}
		e.Parts = append(e.Parts, part)
	}
	if e.Session, err = p.sessionOf(tx, at); err != nil {
		return e, err
	}
	return e, p.addObjects(tx, at.Account, e)
}

// sessionOf returns the record of an exchange's session, or of the one it was merged into; nil: it has none.
func (p *Log) sessionOf(tx *badger.Txn, at kv.ExchangeRef) (stored []byte, err error) {
	id, err := kv.Get(tx, kv.ExchangeKey(kv.SpaceBelongs, at.Account, at.ID))
	for range record.MaxMerges {
		if errors.Is(err, badger.ErrKeyNotFound) || err == nil && len(id) != len(kv.SessionID{}) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		var r *record.StoredSession
		if r, err = p.o.Session(tx, kv.SessionRef{Account: at.Account, ID: kv.SessionID(id)}); err != nil {
			continue // needed to follow it
		}
		next, merged := kv.ParseSessionID(r.Merged)
		if !merged {
			return record.Encode(r), nil
		}
		id = next[:]
	}
	return nil, nil
}

// addObjects adds the blocks and nodes that a skeleton reaches and that were not sent before. Everything that a sent
// one reaches was sent too.
func (p *Log) addObjects(tx *badger.Txn, account kv.AccountNumber, e *ship.Entry) error {
	todo, err := blob.References(nil, account, e.Skeleton)
	if err != nil {
		return err
	}
	fresh := make(map[kv.ObjectRef]struct{})
	for len(todo) > 0 {
		ref := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if _, here := fresh[ref]; here || p.sent.Has(ref) {
			continue
		}
		fresh[ref] = struct{}{}
		value, err := kv.Get(tx, ref.Key())
		if err != nil {
			return err
		}
		e.Objects = append(e.Objects, ship.Object{Node: ref.Space == kv.SpaceNode, Hash: ref.Hash, Value: value})
		if todo, err = blob.ReferencesOf(todo, ref, value); err != nil {
			return err
		}
	}
	for ref := range fresh {
		p.sent.Put(ref, struct{}{})
	}
	return nil
}
