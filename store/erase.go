package store

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// Selection selects exchanges of an account. Exchanges and Sessions name them; the other members narrow the choice, or
// select among all exchanges if none is named. The zero Selection selects nothing; for everything, All must be set.
type Selection struct {
	Exchanges []string `json:"exchanges,omitempty"`
	Sessions  []string `json:"sessions,omitempty"`

	ChatKey         string    `json:"chat_key,omitempty"`
	ExternalSession string    `json:"external_session,omitempty"`
	Since           time.Time `json:"since,omitzero"` // begun at or after
	Until           time.Time `json:"until,omitzero"` // begun before
	All             bool      `json:"all,omitempty"`

	// ByAge compares Until with the time the store got an exchange, as retention does: see [ExchangeInfo.KeptSince].
	ByAge bool `json:"by_age,omitempty"`

	inOrder bool // ids tell, within clockSlack, when exchanges began, so the walk can end after Until
}

// clockSlack is how far the clock may have been set back without an exchange escaping a walk that ends early. The next
// walk of retention finds the ones that escape.
const clockSlack = 24 * time.Hour

// errWalked ends a walk over exchanges.
var errWalked = errors.New("everything of interest has been seen")

func (sel *Selection) check() error {
	narrowed := sel.ChatKey != "" || sel.ExternalSession != "" || !sel.Since.IsZero() || !sel.Until.IsZero()
	if len(sel.Exchanges)+len(sel.Sessions) == 0 && !narrowed && !sel.All {
		return codec.Errorf(codec.KindInvalidRequest, "nothing is selected: name exchanges or sessions, give a filter, or say all")
	}
	for _, id := range sel.Exchanges {
		if _, ok := kv.ParseExchangeID(id); !ok {
			return codec.Invalid("exchanges", "%q is not an exchange id", id)
		}
	}
	for _, id := range sel.Sessions {
		if _, ok := kv.ParseSessionID(id); !ok {
			return codec.Invalid("sessions", "%q is not a session id", id)
		}
	}
	return nil
}

func (sel *Selection) matches(info *ExchangeInfo) bool {
	began := info.Started
	if sel.ByAge {
		began = info.KeptSince()
	}
	return (sel.ChatKey == "" || sel.ChatKey == info.ChatKey) &&
		(sel.ExternalSession == "" || sel.ExternalSession == info.ExternalSession) &&
		!info.Started.Before(sel.Since) && (sel.Until.IsZero() || began.Before(sel.Until))
}

// Follow returns the selection with the sessions into which its sessions were merged: their exchanges are there. merged
// returns the session that one was merged into; "" if it was not.
func (sel Selection) Follow(merged func(session string) string) Selection {
	named := slices.Clone(sel.Sessions)
	for _, id := range sel.Sessions {
		for range MaxMerges {
			if id = merged(id); id == "" || slices.Contains(named, id) {
				break
			}
			named = append(named, id)
		}
	}
	sel.Sessions = named
	return sel
}

// followMerges is [Selection.Follow] in a view.
func (s *core) followMerges(tx *badger.Txn, account kv.AccountNumber, sel Selection) Selection {
	return sel.Follow(func(session string) string {
		id, _ := kv.ParseSessionID(session)
		r, err := s.getSession(tx, sessionRef{account, id})
		if err != nil {
			return "" // it is gone, or unreadable
		}
		return r.Merged
	})
}

// followMerges is [Selection.Follow] in a commit: no session is merged before the commit has ended.
func (g *commitGroup) followMerges(account kv.AccountNumber, sel Selection) Selection {
	return sel.Follow(func(session string) string {
		id, _ := kv.ParseSessionID(session)
		if r := g.sessionAt(sessionRef{account, id}); r != nil {
			return r.Merged
		}
		return ""
	})
}

// selected is a selected exchange.
type selected struct {
	id      kv.ExchangeID
	info    *ExchangeInfo
	damaged error // the record is unreadable, and info holds only what the id says
}

// open reports whether the exchange is still running.
func (x *selected) open(tx *badger.Txn, account kv.AccountNumber) (bool, error) {
	if x.damaged == nil {
		return x.info.Outcome == OutcomeOpen, nil
	}
	return notedOpen(tx, account, x.id)
}

// each visits the selected exchanges. An exchange named twice may be visited twice. If its record is unreadable, its id
// tells when it began, and it matches no key or other filter.
func (sel *Selection) each(ctx context.Context, tx *badger.Txn, account kv.AccountNumber, visit func(selected) error) error {
	one := func(id kv.ExchangeID) error {
		info, err := getInfo(tx, account, id)
		if errors.Is(err, badger.ErrKeyNotFound) {
			return nil
		}
		if err != nil {
			info = &ExchangeInfo{ID: id.String(), Started: id.Time()}
		}
		if !sel.matches(info) {
			return nil
		}
		return visit(selected{id, info, err})
	}
	last := func(item *badger.Item) error {
		return one(kv.ExchangeID(item.Key()[len(item.Key())-len(kv.ExchangeID{}):]))
	}
	for _, text := range sel.Exchanges {
		id, _ := kv.ParseExchangeID(text)
		if err := one(id); err != nil {
			return err
		}
	}
	for _, text := range sel.Sessions {
		id, _ := kv.ParseSessionID(text)
		if err := kv.EachItem(ctx, tx, kv.MemberPrefix(account, id), last); err != nil {
			return err
		}
	}
	if len(sel.Exchanges)+len(sel.Sessions) > 0 {
		return nil
	}
	end := sel.Until.Add(clockSlack)
	err := kv.EachItem(ctx, tx, kv.SpaceKeyOf(kv.SpaceExchange, account), func(item *badger.Item) error {
		if _, id, ok := kv.SplitExchangeKey(item.Key()); ok && sel.inOrder && !sel.Until.IsZero() && id.Time().After(end) {
			return errWalked
		}
		return last(item)
	})
	if errors.Is(err, errWalked) {
		return nil
	}
	return err
}

// Erasure is the receipt of an erasure.
type Erasure struct {
	ID        string       `json:"id"`
	State     ErasureState `json:"state"`
	Selection Selection    `json:"selection"`
	Reason    string       `json:"reason"` // request, retention, or on an edge, centre
	DryRun    bool         `json:"dry_run,omitempty"`
	Exchanges int64        `json:"exchanges"`       // erased, or with DryRun: would be erased
	Sessions  int64        `json:"sessions"`        // gone with their last exchange
	Open      int64        `json:"open"`            // selected, but left alone because they are still running
	Late      int64        `json:"late,omitempty"`  // at a centre: began before the erasure at an edge, arrived after it, and were not kept
	Objects   int64        `json:"objects"`         // blocks and nodes that are no longer referenced
	Bytes     int64        `json:"bytes"`           // freed in the database; the volume gets them back at the next compaction
	Packs     int64        `json:"packs,omitempty"` // deleted in a centre's bucket, after the other contents were rewritten
	Created   time.Time    `json:"created"`
	Completed time.Time    `json:"completed,omitzero"`

	Places []ErasurePlace `json:"places,omitempty"` // at a centre: all places that had it, as far as known; not recorded
}

// ErasureState is the progress of an erasure.
type ErasureState string

// States of an erasure. Erased data is unreadable as soon as its exchange is gone, while the erasure still runs; done
// means that its blocks are freed too.
const (
	ErasureQueued  ErasureState = "queued"
	ErasureRunning ErasureState = "running"
	ErasureDone    ErasureState = "done"
)

const (
	erasurePrefix = "eras_"
	eraseBatch    = 50 // exchanges erased in one operation
	byRequest     = "request"
	byRetention   = "retention"
	byCentre      = "centre"
)

func erasureKey(account kv.AccountNumber, id kv.TimeID) []byte {
	return append(kv.SpaceKeyOf(kv.SpaceErasure, account), id[:]...)
}

// Erase erases the selected exchanges of an account in the background, and returns a receipt for following it. With
// dryRun it counts at once and erases nothing. A running exchange is left alone and counted. A session that was merged
// into another one stands for that one, which the receipt names too.
//
// The content of an exchange may also be in the requests of later exchanges, which repeat the history; to erase a
// conversation, erase its session.
func (s Archive) Erase(ctx context.Context, account string, sel Selection, dryRun bool) (*Erasure, error) {
	number, err := s.accounts.Number(account)
	if err != nil {
		return nil, err
	}
	if err := sel.check(); err != nil {
		return nil, err
	}
	if dryRun {
		return s.eraseDryRun(ctx, number, sel)
	}
	e, id, err := s.newErasure(ctx, number, sel, byRequest)
	if err != nil {
		return nil, err
	}
	s.keeper.add(erasureRef{number, id})
	return e, nil
}

func (s *core) newErasure(ctx context.Context, account kv.AccountNumber, sel Selection, reason string) (*Erasure, kv.TimeID, error) {
	now := time.Now().UTC()
	id := s.ids.Next(now)
	e := &Erasure{
		ID: id.Text(erasurePrefix), State: ErasureQueued,
		Selection: sel, Reason: reason, Created: now,
	}
	err := s.runOf(ctx, account, &operation{
		frees: true, done: make(chan struct{}),
		change: func(g *commitGroup, w *operation) error {
			e.Selection = g.followMerges(account, sel)
			return g.putErasure(w, erasureRef{account, id}, e)
		},
	})
	if err != nil {
		return nil, id, kv.AsStorageError(err, "the erasure could not be put on record")
	}
	return e, id, nil
}

func (s *core) eraseDryRun(ctx context.Context, account kv.AccountNumber, sel Selection) (*Erasure, error) {
	e := &Erasure{State: ErasureDone, Selection: sel, Reason: byRequest, DryRun: true, Created: time.Now().UTC()}
	seen, perSession := make(map[kv.ExchangeID]struct{}), make(map[string]int64)
	err := s.view(func(tx *badger.Txn) error {
		e.Selection = s.followMerges(tx, account, sel)
		return e.Selection.each(ctx, tx, account, func(x selected) error {
			if _, twice := seen[x.id]; twice {
				return nil
			}
			seen[x.id] = struct{}{}
			open, err := x.open(tx, account)
			switch {
			case err != nil:
				return err
			case open:
				e.Open++
			default:
				e.Exchanges++
				perSession[x.info.Session]++
			}
			return nil
		})
	})
	if err == nil {
		err = s.view(func(tx *badger.Txn) error {
			for text, n := range perSession {
				if id, ok := kv.ParseSessionID(text); ok {
					if r, err := s.getSession(tx, sessionRef{account, id}); err == nil && r.Exchanges <= n {
						e.Sessions++
					}
				}
			}
			return nil
		})
	}
	if err != nil {
		return nil, kv.AsStorageError(err, "the exchanges could not be counted; run mneme check")
	}
	e.Completed = time.Now().UTC()
	return e, nil
}

// Erasure returns the receipt of an erasure of the account.
func (s Archive) Erasure(account, id string) (*Erasure, error) {
	key, ok := kv.ParseID(erasurePrefix, id)
	number, known := s.accounts.Find(account)
	if !ok || !known {
		return nil, codec.Errorf(codec.KindNotFound, "no erasure %q", id)
	}
	e := new(Erasure)
	err := s.view(func(tx *badger.Txn) error {
		value, err := kv.Get(tx, erasureKey(number, key))
		if err != nil {
			return err
		}
		return decodeRecord(value, e)
	})
	if errors.Is(err, badger.ErrKeyNotFound) {
		return nil, codec.Errorf(codec.KindNotFound, "no erasure %q", id)
	}
	if err != nil {
		return nil, kv.StorageError(err, "erasure %s cannot be read; run mneme check", id)
	}
	return e, nil
}

// erasureRef identifies an erasure of an account.
type erasureRef struct {
	account kv.AccountNumber
	id      kv.TimeID
}

func (g *commitGroup) putErasure(w *operation, ref erasureRef, e *Erasure) error {
	value, err := kv.EncodeRecord(e)
	if err == nil {
		g.put(w, erasureKey(ref.account, ref.id), value)
	}
	return err
}

// runErasure carries out a receipt, resuming where it stopped. The receipt is written with each batch, so that it
// counts what was erased even if the process ends in between.
func (s *core) runErasure(ctx context.Context, ref erasureRef) error {
	e := new(Erasure)
	err := s.view(func(tx *badger.Txn) error {
		value, err := kv.Get(tx, erasureKey(ref.account, ref.id))
		if err != nil {
			return err
		}
		return decodeRecord(value, e)
	})
	if err != nil || e.State == ErasureDone {
		return err
	}
	s.finishMoves(ctx) // what was merged into a session is erased with it
	e.State, e.Open = ErasureRunning, 0
	e.Selection.inOrder = e.Reason == byRetention
	if err := s.makeRoom(ctx, func(g *commitGroup, w *operation) error { return g.putErasure(w, ref, e) }); err != nil {
		return err
	}
	err = s.eraseSelection(ctx, ref.account, &e.Selection, e, func(g *commitGroup, w *operation) error { return g.putErasure(w, ref, e) })
	if err != nil {
		return err
	}
	freed, err := s.sweep(ctx, ref.account)
	e.Objects += freed.objects
	e.Bytes += freed.bytes
	if err != nil {
		return err
	}
	e.State, e.Completed = ErasureDone, time.Now().UTC()
	if e.Reason == byRetention && e.Exchanges > 0 {
		s.log.Info("retention has erased exchanges", "account", s.accounts.Name(ref.account), "exchanges", e.Exchanges,
			"sessions", e.Sessions, "because", e.Selection.rule(), "until", e.Selection.Until, "erasure", e.ID)
	}
	return s.makeRoom(ctx, func(g *commitGroup, w *operation) error {
		w.event = Event{Kind: ErasureCompleted, Erasure: e.ID, Time: e.Completed, Account: ref.account}
		return g.putErasure(w, ref, e)
	})
}

// eraseSelection erases the selected exchanges and counts them in e, which note records with each batch.
func (s *core) eraseSelection(ctx context.Context, account kv.AccountNumber, sel *Selection, e *Erasure, note change) error {
	var batch []kv.ExchangeID
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		err := s.makeRoom(ctx, func(g *commitGroup, w *operation) error {
			for _, id := range batch {
				g.eraseExchange(w, account, id, e)
			}
			return note(g, w)
		})
		batch = batch[:0]
		return err
	}
	err := s.view(func(tx *badger.Txn) error {
		return sel.each(ctx, tx, account, func(x selected) error {
			if batch = append(batch, x.id); len(batch) < eraseBatch {
				return nil
			}
			return flush()
		})
	})
	return errors.Join(err, flush())
}

// eraseExchange removes an exchange and everything that belongs to it from the store, and counts it in e. Blocks are
// left to the sweep. An open or missing exchange is left alone. If the record is unreadable, the session keeps its
// counts.
func (g *commitGroup) eraseExchange(w *operation, account kv.AccountNumber, id kv.ExchangeID, e *Erasure) {
	info, readable := g.info(account, id)
	if info == nil {
		return
	}
	if readable && info.Outcome == OutcomeOpen || !readable && g.notedOpen(account, id) {
		e.Open++
		return
	}
	for _, space := range [...]byte{kv.SpaceExchange, kv.SpaceRequest} {
		g.put(w, kv.ExchangeKey(space, account, id), nil)
	}
	e.Bytes += g.eraseResponse(w, account, id)
	if key := answerLink(account, info); key != nil {
		g.put(w, key, nil)
	}
	g.eraseRecollections(w, account, id)
	e.Exchanges++
	if readable {
		g.rollUpErased(w, account, info)
	}
	if r, ref := g.belongs(account, id); r != nil {
		g.eraseTurn(w, ref, id)
		g.changed(ref, id)
		g.dropSummary(w, ref)
		g.put(w, kv.ExchangeKey(kv.SpaceBelongs, account, id), nil)
		g.put(w, kv.MemberKey(account, ref.id, id), nil)
		if g.leaveSession(w, ref, r, info) {
			e.Sessions++
		}
	}
}

// info returns an exchange's record, nil if it is gone. An unreadable record is empty.
func (g *commitGroup) info(account kv.AccountNumber, id kv.ExchangeID) (info *ExchangeInfo, readable bool) {
	value := g.get(kv.ExchangeKey(kv.SpaceExchange, account, id))
	if value == nil {
		return nil, false
	}
	info = new(ExchangeInfo)
	if decodeRecord(value, info) != nil {
		return new(ExchangeInfo), false
	}
	return info, true
}

func (g *commitGroup) eraseResponse(w *operation, account kv.AccountNumber, id kv.ExchangeID) (size int64) {
	for item := range kv.Items(g.read(), kv.ExchangeKey(kv.SpaceResponse, account, id), nil) {
		size += item.EstimatedSize()
		g.put(w, item.KeyCopy(nil), nil)
	}
	return size
}

// eraseTurn removes the turn of an exchange, with its vectors and the histories that lead to it.
func (g *commitGroup) eraseTurn(w *operation, ref sessionRef, id kv.ExchangeID) {
	if turn := g.turn(ref.account, id); turn != nil {
		for _, history := range turn.Histories {
			g.put(w, kv.HistoryKey(ref.account, ref.id, history), nil)
		}
	}
	g.eraseVectors(w, ref.account, id)
	g.put(w, kv.ExchangeKey(kv.SpaceTurn, ref.account, id), nil)
}

// leaveSession subtracts an exchange from its session's counts; gone reports that it was the last one, and that the
// session went with it.
func (g *commitGroup) leaveSession(w *operation, ref sessionRef, r *sessionRecord, info *ExchangeInfo) (gone bool) {
	r.Exchanges--
	r.count(info, -1)
	r.sketch(info, -1)
	if r.Exchanges > 0 {
		g.putSession(w, ref, r)
		return false
	}
	g.put(w, kv.SessionKey(ref.account, ref.id), nil)
	g.sessionChanged(ref)
	for _, link := range r.Links {
		if slices.Equal(g.get(link), ref.id[:]) {
			g.put(w, link, nil)
		}
	}
	return true
}
