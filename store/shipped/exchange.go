package shipped

import (
	"errors"
	"fmt"
	"math"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/store/conversation"
	"github.com/mnemeproxy/mneme/store/internal/blob"
	"github.com/mnemeproxy/mneme/store/internal/buffer"
	"github.com/mnemeproxy/mneme/store/internal/identity"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/ship"
)

// IsNamed reports whether an entry has an account and an exchange whose names can be looked up.
func IsNamed(e *ship.Entry) bool {
	_, ok := kv.ParseExchangeID(e.Exchange)
	return ok && identity.IsAccountName(e.Account)
}

// Exchange is a sound entry.
type Exchange struct {
	conversation.Arrival
	Entry   *ship.Entry
	objects Objects // of its frame
}

// Read reads an entry of an account. frame holds the objects of earlier entries in the same frame, and gets this
// one's; kept holds what these refer to besides, as far as it is stored. The error is [ErrForeign] or [ErrUnusable].
func Read(account record.AccountNumber, e *ship.Entry, frame, kept Objects) (*Exchange, error) {
	x := &Exchange{Entry: e, Arrival: conversation.Arrival{Account: account, Ahead: e.Ahead}, objects: frame}
	if err := x.addObjects(kept.get); err != nil {
		return nil, err
	}
	if err := x.read(); err != nil {
		return nil, err
	}
	return x, nil
}

// Assemble rebuilds an exchange from the parts of an entry: its record, the skeleton of its request and the parts of
// its answer. from has everything that the skeleton reaches.
func Assemble(account record.AccountNumber, info *record.ExchangeInfo, skeleton []byte, parts [][]byte, from Objects) (*record.Exchange, error) {
	x := &record.Exchange{ExchangeInfo: *info}
	r := blob.Reader{From: from, Account: account, Limit: int(min(info.RequestSize, math.MaxInt32))}
	var err error
	if x.RawRequest, err = r.AppendBody(make([]byte, 0, max(r.Limit, 0)), skeleton); err != nil {
		return nil, fmt.Errorf("request: %w", err)
	}
	if int64(len(x.RawRequest)) != info.RequestSize {
		return nil, fmt.Errorf("request has %d bytes, its record says %d", len(x.RawRequest), info.RequestSize)
	}
	for _, part := range parts {
		if x.RawResponse, err = blob.AppendDecoded(x.RawResponse, part); err != nil {
			return nil, fmt.Errorf("answer: %w", err)
		}
	}
	return x, nil
}

// Refused is an entry that cannot be kept, with the reason.
type Refused struct {
	Entry  ship.Entry
	Reason error
}

// Why entries are refused.
var (
	ErrForeign  = errors.New("unknown or deleted account, or the account does not match the record")
	ErrUnusable = errors.New("the content does not match its record")

	// ErrIncomplete is also the error of a frame that lacks blocks or nodes that are not in the store: the shipping
	// node has to send it again with all of them.
	ErrIncomplete = errors.New("referenced blocks or nodes are missing")
)

// read reads everything of an entry except its objects.
func (x *Exchange) read() (err error) {
	if _, ok := kv.ParseExchangeID(x.Entry.Exchange); !ok {
		return ErrUnusable
	}
	info := new(record.ExchangeInfo)
	if err := record.Decode(x.Entry.Record, info); err != nil || info.ID != x.Entry.Exchange || info.Outcome == record.OutcomeOpen || info.Outcome == record.OutcomeDamaged {
		return ErrUnusable
	}
	if info.Account != x.Entry.Account {
		return ErrForeign
	}
	x.Info = info
	if err := x.readSession(); err != nil {
		return err
	}
	if !blob.IsSkeleton(x.Entry.Skeleton) || !x.hasAnswer() {
		return ErrUnusable
	}
	return nil
}

func (x *Exchange) readSession() error {
	if x.Entry.Session == nil {
		return nil
	}
	session := new(record.StoredSession)
	if err := record.Decode(x.Entry.Session, session); err != nil {
		return ErrUnusable
	}
	if _, ok := kv.ParseSessionID(session.ID); !ok || record.CheckSession(&session.Session) != nil || len(session.Links) > record.MaxSessionLinks {
		return ErrUnusable
	}
	if session.Account != x.Entry.Account {
		return ErrForeign
	}
	x.Session = session
	return nil
}

// hasAnswer reports whether the parts are the answer in the record.
func (x *Exchange) hasAnswer() bool {
	var (
		size int64
		part = buffer.Get(0)
		err  error
	)
	defer func() { buffer.Put(part) }()
	for _, encoded := range x.Entry.Parts {
		if !blob.IsPlain(encoded) { // such a part would stay in the centre's packs, which older programs read too
			return false
		}
		if part, err = blob.AppendDecoded(part[:0], encoded); err != nil {
			return false
		}
		size += int64(len(part))
	}
	return size == x.Info.ResponseSize || !x.Info.Outcome.Ended()
}

// addObjects adds the objects of the entry to those of its frame, if every block matches its hash. kept returns stored
// objects, or [badger.ErrKeyNotFound].
func (x *Exchange) addObjects(kept func(kv.ObjectRef) ([]byte, error)) error {
	own := make(map[kv.ObjectRef][]byte, len(x.Entry.Objects))
	for i := range x.Entry.Objects {
		o := &x.Entry.Objects[i]
		ref := kv.Block(x.Account, o.Hash)
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
