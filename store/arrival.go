package store

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"slices"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/store/internal/blob"
	"github.com/mnemeproxy/mneme/store/internal/buffer"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/ship"
)

// Arrivals applies what other stores ship, each frame of a log once and in order. One goroutine applies frames; Mark
// may be called by any.
type Arrivals struct{ *core }

// Arrivals returns the part that other stores ship to.
func (s *Store) Arrivals() Arrivals { return Arrivals{s.core} }

var centreKey = kv.NameKey(kv.SpaceMeta, "centre")

// ID identifies the store as a receiver. It is generated on first use and never changes.
func (a Arrivals) ID(ctx context.Context) (id string, err error) {
	err = a.update(ctx, func(g *commitGroup, w *operation) error {
		value := g.get(centreKey)
		if value == nil {
			value = make([]byte, 16)
			_, _ = rand.Read(value) // never fails: crypto/rand ends the program instead
			g.put(w, centreKey, value)
		}
		id = hex.EncodeToString(value)
		return nil
	})
	if err != nil {
		return "", kv.AsStorageError(err, "the id of the centre could not be stored")
	}
	return id, nil
}

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

var arrivedPrefix = kv.NameKey(kv.SpaceMeta, "arrived-")

func arrivedKey(log ship.LogID) []byte { return append(bytes.Clone(arrivedPrefix), log[:]...) }

// openArrivals finds out whether anything has ever arrived.
func (s *core) openArrivals() error {
	return s.view(func(tx *badger.Txn) error {
		it := tx.NewIterator(badger.IteratorOptions{Prefix: arrivedPrefix})
		defer it.Close()
		it.Rewind()
		s.arriving.Store(it.Valid())
		return nil
	})
}

// Mark returns the number up to which the entries of a log have arrived, 0 if none has, and the last entry's exchange.
func (a Arrivals) Mark(log ship.LogID) (mark uint64, tail ship.Tail, err error) {
	err = a.view(func(tx *badger.Txn) error {
		value, err := kv.Get(tx, arrivedKey(log))
		if errors.Is(err, badger.ErrKeyNotFound) {
			return nil
		}
		if err == nil && len(value) != 8+len(tail) && len(value) != 8 { // written before there were tails
			err = kv.ErrRecord
		}
		if err == nil {
			mark = binary.BigEndian.Uint64(value)
			copy(tail[:], value[8:])
		}
		return err
	})
	if err != nil {
		return 0, tail, kv.StorageError(err, "how far a log has arrived cannot be read; run mneme check")
	}
	return mark, tail, nil
}

// Take applies a frame that directly follows what has arrived of its log, and moves the log's mark, in one commit;
// taken is false for any other frame. Existing entries stay unchanged, and erased ones do not come back. Entries that
// cannot be kept are passed to aside before the commit; an error from it prevents the commit.
func (a Arrivals) Take(ctx context.Context, f *ship.Frame, aside func([]Refused) error) (taken bool, err error) {
	mark, _, err := a.Mark(f.Log)
	if err != nil || mark != f.After {
		return false, err
	}
	a.arriving.Store(true)
	arrivals, refused := a.readArrivals(f.Entries)
	moved := record{arrivedKey(f.Log), append(binary.BigEndian.AppendUint64(nil, f.Last), f.Tail[:]...)}
	for {
		if len(refused) > 0 {
			if err := aside(refused); err != nil {
				return false, err
			}
		}
		err := a.keepArrivals(ctx, arrivals, moved)
		if !errors.Is(err, ErrIncomplete) || !f.Whole {
			return err == nil, err
		}
		// Sending it again would change nothing.
		if arrivals, refused, err = a.keepable(arrivals); err != nil || len(refused) == 0 {
			return false, err
		}
	}
}

// Retry applies an entry that was refused before. The error is nil, [ErrIncomplete], or the reason for another refusal.
func (a Arrivals) Retry(ctx context.Context, e *ship.Entry) error {
	arrivals, refused := a.readArrivals([]ship.Entry{*e})
	if len(refused) > 0 {
		return refused[0].Reason
	}
	return a.keepArrivals(ctx, arrivals)
}

// keepable separates the complete entries from the others.
func (s *core) keepable(arrivals []*arrival) (complete []*arrival, refused []Refused, err error) {
	err = s.update(context.Background(), func(g *commitGroup, _ *operation) error {
		for _, x := range arrivals {
			if g.knows(x) || g.askedFor(x) != nil || g.reach(x, func(kv.ObjectRef, []byte) {}) {
				complete = append(complete, x)
			} else {
				refused = append(refused, Refused{*x.Entry, ErrIncomplete})
			}
		}
		return nil
	})
	return complete, refused, err
}

// arrival is an entry that can be kept.
type arrival struct {
	*ship.Entry
	account kv.AccountNumber
	id      kv.ExchangeID
	info    ExchangeInfo
	session *sessionRecord // nil: it belongs to none
	objects map[kv.ObjectRef][]byte
	rest    kv.SessionID // see settle; zero: none
}

// readArrivals separates the entries that can be kept from the others.
func (s *core) readArrivals(entries []ship.Entry) (arrivals []*arrival, refused []Refused) {
	objects := make(map[kv.ObjectRef][]byte) // of the frame so far: later entries omit what earlier ones have
	for i := range entries {
		x := &arrival{Entry: &entries[i], objects: objects}
		if err := s.readArrival(x); err != nil {
			refused = append(refused, Refused{entries[i], err})
			continue
		}
		arrivals = append(arrivals, x)
	}
	return arrivals, refused
}

func (s *core) readArrival(x *arrival) (err error) {
	var ok bool
	if x.account, ok = s.accounts.Find(x.Account); !ok {
		return ErrForeign
	}
	var deleted time.Time
	err = s.view(func(tx *badger.Txn) (err error) {
		if deleted, err = deletedAt(tx, x.Account); err != nil {
			return err
		}
		return x.addObjects(func(ref kv.ObjectRef) ([]byte, error) { return kv.Get(tx, ref.Key()) })
	})
	if err != nil {
		return err
	}
	if err := x.read(); err != nil {
		return err
	}
	if x.info.KeptSince().Before(deleted) {
		return ErrForeign // entries name their account, and this one has only the name of the deleted one
	}
	return nil
}

// read reads everything of an entry except its objects.
func (x *arrival) read() (err error) {
	var ok bool
	if x.id, ok = kv.ParseExchangeID(x.Exchange); !ok {
		return ErrUnusable
	}
	if err := decodeRecord(x.Record, &x.info); err != nil || x.info.ID != x.Exchange || x.info.Outcome == OutcomeOpen || x.info.Outcome == OutcomeDamaged {
		return ErrUnusable
	}
	if x.info.Account != x.Account {
		return ErrForeign
	}
	if err := x.readSession(); err != nil {
		return err
	}
	if !blob.IsSkeleton(x.Skeleton) || !x.hasAnswer() {
		return ErrUnusable
	}
	return nil
}

func (x *arrival) readSession() error {
	if x.Session == nil {
		return nil
	}
	x.session = new(sessionRecord)
	if err := decodeRecord(x.Session, x.session); err != nil {
		return ErrUnusable
	}
	if _, ok := kv.ParseSessionID(x.session.ID); !ok || checkImported(&x.session.Session) != nil || len(x.session.Links) > maxSessionLinks {
		return ErrUnusable
	}
	if x.session.Account != x.Account {
		return ErrForeign
	}
	return nil
}

// hasAnswer reports whether the parts are the answer in the record.
func (x *arrival) hasAnswer() bool {
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
	return size == x.info.ResponseSize || !ended(x.info.Outcome)
}

// addObjects adds the objects of the entry to those of its frame, if every block matches its hash. kept returns stored
// objects, or [badger.ErrKeyNotFound].
func (x *arrival) addObjects(kept func(kv.ObjectRef) ([]byte, error)) error {
	own := make(map[kv.ObjectRef][]byte, len(x.Objects))
	for i := range x.Objects {
		o := &x.Objects[i]
		ref := kv.Block(x.account, o.Hash)
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

// keepArrivals writes entries, and further records in the same commit, and moves the exchanges of the sessions that it
// has merged.
func (s *core) keepArrivals(ctx context.Context, arrivals []*arrival, more ...record) error {
	if err := s.commitArrivals(ctx, arrivals, more); err != nil {
		return err
	}
	for _, x := range arrivals {
		if x.rest == (kv.SessionID{}) {
			continue
		}
		if err := s.finishMove(context.WithoutCancel(ctx), sessionRef{x.account, x.rest}); err != nil { // its record is committed
			s.log.Error("two sessions of one conversation could not be merged; it goes on at the next start", "session", x.rest.String(), "error", err)
		}
	}
	return nil
}

func (s *core) commitArrivals(ctx context.Context, arrivals []*arrival, more []record) error {
	if err := s.disk.admits(); err != nil {
		return err
	}
	s.planning.RLock() // prevents deletion of accounts and sweeps of objects between this check and the commit
	defer s.planning.RUnlock()
	for _, x := range arrivals {
		if now, ok := s.accounts.Find(x.Account); !ok || now != x.account {
			return kv.StorageError(ErrForeign, "an account was deleted while exchanges of it arrived; they come again")
		}
	}
	err := s.update(ctx, func(g *commitGroup, w *operation) error {
		late := make(map[*arrival]kv.TimeID)
		arrivals := slices.DeleteFunc(slices.Clone(arrivals), func(x *arrival) bool {
			if g.knows(x) {
				return true
			}
			asked := g.askedFor(x)
			if asked != nil {
				late[x] = *asked
			}
			return asked != nil
		})
		for _, x := range arrivals {
			if !g.reach(x, func(kv.ObjectRef, []byte) {}) {
				return ErrIncomplete
			}
		}
		for _, x := range arrivals {
			g.keepArrival(w, x)
		}
		for x, asked := range late {
			g.buryLate(w, x, asked)
		}
		for _, r := range more {
			g.put(w, r.key, r.value)
		}
		return nil
	})
	if errors.Is(err, ErrIncomplete) {
		return err
	}
	if err != nil {
		return kv.AsStorageError(err, "what has arrived could not be stored")
	}
	return nil
}

// knows reports whether an exchange exists, or existed and was erased.
func (g *commitGroup) knows(x *arrival) bool {
	return g.has(kv.ExchangeKey(kv.SpaceExchange, x.account, x.id)) || g.has(kv.ExchangeKey(kv.SpaceTomb, x.account, x.id))
}

// reach visits everything that an entry's skeleton reaches and that is not stored, and reports whether the frame has
// all of it. Everything that a stored object reaches is stored too.
func (g *commitGroup) reach(x *arrival, visit func(kv.ObjectRef, []byte)) bool {
	todo, _ := blob.References(nil, x.account, x.Skeleton) // already read without an error
	seen := make(map[kv.ObjectRef]struct{})
	for len(todo) > 0 {
		ref := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if _, done := seen[ref]; done || g.blobs.Stored(ref) {
			continue
		}
		seen[ref] = struct{}{}
		value, comes := x.objects[ref]
		if !comes {
			return false
		}
		todo, _ = blob.ReferencesOf(todo, ref, value) // as above
		visit(ref, value)
	}
	return true
}

// keepArrival records an exchange as it was where it was captured, and digests it as if it had ended here.
func (g *commitGroup) keepArrival(w *operation, x *arrival) {
	g.reach(x, g.blobs.AddEncoded)
	g.put(w, kv.ExchangeKey(kv.SpaceRequest, x.account, x.id), blob.ShortSkeleton(x.Skeleton))
	for part, value := range x.Parts {
		g.blobs.AddPart(x.account, x.id, uint32(part), blob.ShortPart(value))
	}
	told := Event{Kind: ExchangeCompleted, Account: x.account, Exchange: x.Exchange, KeyID: x.info.KeyID, Outcome: x.info.Outcome, Time: time.Now().UTC()}
	session, ok := x.join(storedSessions{g, w, x.account})
	if ok {
		g.put(w, kv.MemberKey(x.account, session, x.id), []byte{})
		g.put(w, kv.ExchangeKey(kv.SpaceBelongs, x.account, x.id), session[:])
		told.Session = session.String()
	}
	w.arrived = append(w.arrived, told)
	g.put(w, kv.ExchangeKey(kv.SpaceExchange, x.account, x.id), x.Record)
	g.closeSession(w, x.account, x.id, &x.info)
	if x.rest != (kv.SessionID{}) && !g.unite(w, x.account, x.rest, session) {
		x.rest = kv.SessionID{}
	}
}

// unite merges the session with the rest of a conversation into another one, and reports whether it has. It leaves them
// apart if one of them is being erased or split: what a person has asked for is carried out on the sessions as they were.
func (g *commitGroup) unite(w *operation, account kv.AccountNumber, rest, into kv.SessionID) bool {
	if g.refuseMove(sessionRef{account, rest}, into) != nil {
		return false
	}
	return keepDescription(storedSessions{g, w, account}, rest, into) && g.beginMerge(w, sessionRef{account, rest}, into) == nil
}
