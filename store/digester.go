package store

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// digestQueue is how many exchanges may wait in memory to be digested; what is more is found in the outbox.
const digestQueue = 64 << 10

// digester is the goroutine that works off the outbox, where the exchanges are that [Capture.digestAtOnce] has left. It
// hears of new entries from the writer, and reads the outbox itself at the start and when it could not keep up.
type digester struct {
	mu     sync.Mutex
	queue  []undigested
	behind bool               // the outbox holds entries that are not in queue
	ahead  map[sessionRef]int // entries that are yet to be handed to the writer, in queue and taken out of it, by session
	count  int                // of them

	work stageWork
	held atomic.Int64 // bytes of exchanges in memory, see handover.go

	prefixes prefixMemory // of the requests read last

	signal chan struct{} // holds one token when there may be something to do
	cancel context.CancelFunc
	done   chan struct{}
}

func (d *digester) start(s *core) {
	if s.opts.Digest == nil {
		return
	}
	var ctx context.Context
	ctx, d.cancel = context.WithCancel(context.Background())
	d.done = make(chan struct{})
	d.behind = true
	go func() {
		defer close(d.done)
		for s.digestWaiting(ctx) {
			select {
			case <-d.signal:
			case <-ctx.Done():
			}
		}
	}()
}

// add tells of entries that have been committed to the outbox.
func (d *digester) add(entries ...undigested) {
	if len(entries) == 0 {
		return
	}
	d.mu.Lock()
	if len(d.queue)+len(entries) <= digestQueue {
		d.queue = append(d.queue, entries...)
		for i := range entries {
			d.expect(entries[i].at(), 1)
		}
	} else {
		d.behind = true
		d.giveUp(entries)
	}
	d.mu.Unlock()
	select {
	case d.signal <- struct{}{}:
	default:
	}
}

// waiting is how many exchanges are known to wait.
func (d *digester) waiting() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return int64(d.count)
}

// upToDate tells that no exchange of the session that ended before is yet to be handed to the writer with its digest.
func (d *digester) upToDate(ref sessionRef) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return !d.behind && d.ahead[ref] == 0 && d.ahead[sessionRef{}] == 0
}

// expect counts entries of a session; with d.mu held.
func (d *digester) expect(ref sessionRef, entries int) {
	if d.ahead == nil {
		d.ahead = make(map[sessionRef]int)
	}
	d.count += entries
	if d.ahead[ref] += entries; d.ahead[ref] == 0 {
		delete(d.ahead, ref)
	}
}

// handedOn counts an entry that the writer has now.
func (d *digester) handedOn(u *undigested) {
	d.mu.Lock()
	d.expect(u.at(), -1)
	d.mu.Unlock()
}

// stop ends the goroutine after what it is at: reading a part of an answer, or digesting what has been read. What is left in the outbox stays there for the next start.
func (d *digester) stop() {
	if d.cancel != nil {
		d.cancel()
		<-d.done
	}
}

// giveUp releases what entries hold; they are found in the outbox again.
func (d *digester) giveUp(entries []undigested) {
	for _, e := range entries {
		d.release(e.captured)
	}
}

// takeWaiting gives what waits. Entries may come twice, from the queue and from the outbox.
func (s *core) takeWaiting() ([]undigested, error) {
	d := &s.digester
	d.mu.Lock()
	waiting, behind := d.queue, d.behind
	d.queue, d.behind = nil, false
	if behind {
		clear(d.ahead)
		d.count = 0
		d.expect(sessionRef{}, 1) // at least, until the outbox has been read
	}
	d.mu.Unlock()
	if !behind {
		return waiting, nil
	}
	d.giveUp(waiting)
	waiting, err := s.outbox()
	d.mu.Lock()
	d.expect(sessionRef{}, len(waiting)-1)
	d.behind = d.behind || err != nil // what was not read is looked for again when the next exchange ends
	d.mu.Unlock()
	return waiting, err
}

// Digests are handed to the writer without waiting for each to be committed, so that they are committed together.
const (
	digestsAhead = 64
	bytesAhead   = 4 << 20 // of requests and answers that the digests are of
)

// digestWaiting works until nothing waits; false means that the digester has been stopped.
func (s *core) digestWaiting(ctx context.Context) bool {
	var ahead digestsUnderWay
	for ctx.Err() == nil {
		waiting, err := s.takeWaiting()
		if err != nil {
			s.log.Error("the outbox cannot be read", "error", err)
		}
		if len(waiting) == 0 {
			break
		}
		for i := range waiting {
			if ctx.Err() != nil {
				s.digester.giveUp(waiting[i:])
				break
			}
			s.digestNext(ctx, &ahead, &waiting[i])
		}
	}
	ahead.await(s)
	return ctx.Err() == nil
}

// digestsUnderWay are digests that the writer has.
type digestsUnderWay struct {
	writes []*write
	places []place
	bytes  int64
}

func (s *core) digestNext(ctx context.Context, ahead *digestsUnderWay, u *undigested) {
	at, began := u.place, time.Now()
	digest, size := s.digestExchange(ctx, u)
	if ctx.Err() != nil {
		return // the entry stays in the outbox
	}
	entry := kv.ExchangeKey(kv.SpaceOutbox, at.account, at.id)
	w := &write{done: make(chan struct{}), change: func(g *gathering, w *write) error {
		if !g.has(entry) {
			return nil // it came twice, or the exchange was erased meanwhile
		}
		g.put(w, entry, nil)
		return digest(g, w)
	}}
	if err := s.send(ctx, w); err != nil {
		return // the store closes; the entry stays in the outbox
	}
	s.digester.handedOn(u)
	s.digester.work.add(1, began)
	ahead.writes, ahead.places = append(ahead.writes, w), append(ahead.places, at)
	if ahead.bytes += size; len(ahead.writes) >= digestsAhead || ahead.bytes >= bytesAhead {
		ahead.await(s)
	}
}

// await returns when all are committed.
func (d *digestsUnderWay) await(s *core) {
	for i, w := range d.writes {
		if <-w.done; w.err != nil {
			s.log.Error("an exchange could not be digested; it will be tried again at the next start", "exchange", d.places[i].id.String(), "error", w.err)
		}
	}
	clear(d.writes)
	*d = digestsUnderWay{writes: d.writes[:0], places: d.places[:0]}
}

// outbox gives the exchanges that wait to be digested, each account's in the order they began.
func (s *core) outbox() (waiting []undigested, err error) {
	err = s.view(func(tx *badger.Txn) error {
		it := tx.NewIterator(badger.IteratorOptions{Prefix: []byte{kv.SpaceOutbox}})
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			if account, id, ok := kv.SplitExchangeKey(it.Item().Key()); ok {
				waiting = append(waiting, undigested{place: place{account, id}})
			}
		}
		return nil
	})
	return waiting, err
}

// Undigested gives the exchanges of the account that have ended and wait to be digested.
func (s Upkeep) Undigested(account string) (waiting []string, err error) {
	number, err := s.numberOf(account)
	if err != nil {
		return nil, err
	}
	err = s.view(func(tx *badger.Txn) error {
		it := tx.NewIterator(badger.IteratorOptions{Prefix: kv.SpaceKeyOf(kv.SpaceOutbox, number)})
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			if _, id, ok := kv.SplitExchangeKey(it.Item().Key()); ok {
				waiting = append(waiting, id.String())
			}
		}
		return nil
	})
	return waiting, err
}
