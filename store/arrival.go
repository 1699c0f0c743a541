package store

import (
	"errors"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/store/internal/blob"
	"github.com/mnemeproxy/mneme/store/internal/buffer"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/ship"
)

// Refused is an entry that cannot be kept, with the reason.
type Refused struct {
	Entry  ship.Entry
	Reason error
}

// Why entries are refused.
var (
	ErrForeign  = errors.New("it is of an account that this store does not have or that was deleted, or of another one than its record says")
	ErrUnusable = errors.New("what it holds is not what it says")

	// ErrIncomplete is also the error of a frame that lacks blocks or nodes that are not in the store: the shipping
	// node has to send it again with all of them.
	ErrIncomplete = errors.New("it names blocks or nodes that are not there")
)

// read reads everything of an entry except its objects.
func (x *Shipped) read() (err error) {
	if _, ok := kv.ParseExchangeID(x.Exchange); !ok {
		return ErrUnusable
	}
	info := new(record.ExchangeInfo)
	if err := record.Decode(x.Record, info); err != nil || info.ID != x.Exchange || info.Outcome == record.OutcomeOpen || info.Outcome == record.OutcomeDamaged {
		return ErrUnusable
	}
	if info.Account != x.Account {
		return ErrForeign
	}
	x.arrival.info = info
	if err := x.readSession(); err != nil {
		return err
	}
	if !blob.IsSkeleton(x.Skeleton) || !x.hasAnswer() {
		return ErrUnusable
	}
	return nil
}

func (x *Shipped) readSession() error {
	if x.Session == nil {
		return nil
	}
	session := new(record.StoredSession)
	if err := record.Decode(x.Session, session); err != nil {
		return ErrUnusable
	}
	if _, ok := kv.ParseSessionID(session.ID); !ok || checkImported(&session.Session) != nil || len(session.Links) > record.MaxSessionLinks {
		return ErrUnusable
	}
	if session.Account != x.Account {
		return ErrForeign
	}
	x.arrival.session = session
	return nil
}

// hasAnswer reports whether the parts are the answer in the record.
func (x *Shipped) hasAnswer() bool {
	var (
		size int64
		part = buffer.Get(0)
		err  error
	)
	defer func() { buffer.Put(part) }()
	for _, encoded := range x.Parts {
		if !blob.IsPlain(encoded) { // such a part would stay in the centre's packs, which older programs read too
			return false
		}
		if part, err = blob.AppendDecoded(part[:0], encoded); err != nil {
			return false
		}
		size += int64(len(part))
	}
	return size == x.arrival.info.ResponseSize || !ended(x.arrival.info.Outcome)
}

// addObjects adds the objects of the entry to those of its frame, if every block matches its hash. kept returns stored
// objects, or [badger.ErrKeyNotFound].
func (x *Shipped) addObjects(kept func(kv.ObjectRef) ([]byte, error)) error {
	own := make(map[kv.ObjectRef][]byte, len(x.Objects))
	for i := range x.Objects {
		o := &x.Objects[i]
		ref := kv.Block(x.arrival.account, o.Hash)
		if o.Node {
			ref.Space = kv.SpaceNode
		}
		own[ref] = o.Value
	}
	look := func(ref kv.ObjectRef) ([]byte, error) {
		if value, ok := own[ref]; ok {
			return value, nil
		}
		if value, ok := x.objects[ref]; ok {
			return value, nil
		}
		return kept(ref)
	}
	for ref, value := range own {
		if ref.Space == kv.SpaceNode {
			if !blob.IsSkeleton(value) {
				return ErrUnusable
			}
			continue
		}
		err := blob.CheckBlock(ref, value, look)
		if err != nil && !errors.Is(err, badger.ErrKeyNotFound) { // an object it names is missing; keeping the frame reports that as incomplete
			return ErrUnusable
		}
	}
	for ref, value := range own {
		x.objects[ref] = value
	}
	return nil
}
