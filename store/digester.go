package store

import (
	"context"
	"sync"

	"github.com/dgraph-io/badger/v4"
)

// digestQueue is how many exchanges may wait in memory to be digested; what is more is found in the outbox.
const digestQueue = 64 << 10

// digester is the goroutine that works off the outbox. It hears of new entries from the writer, and reads the outbox
// itself at the start and when it could not keep up.
type digester struct {
	mu     sync.Mutex
	queue  []place
	behind bool // the outbox holds entries that are not in queue

	signal chan struct{} // holds one token when there may be something to do
	cancel context.CancelFunc
	done   chan struct{}
}

func (d *digester) start(s *Store) {
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
func (d *digester) add(entries ...place) {
	if len(entries) == 0 {
		return
	}
	d.mu.Lock()
	if len(d.queue)+len(entries) <= digestQueue {
		d.queue = append(d.queue, entries...)
	} else {
		d.behind = true
	}
	d.mu.Unlock()
	select {
	case d.signal <- struct{}{}:
	default:
	}
}

// stop ends the goroutine after the exchange it is at. What is left in the outbox stays there for the next start.
func (d *digester) stop() {
	if d.cancel != nil {
		d.cancel()
		<-d.done
	}
}

// take gives what waits. Entries may come twice, from the queue and from the outbox; digesting twice is harmless.
func (s *Store) takeWaiting() ([]place, error) {
	d := &s.digester
	d.mu.Lock()
	waiting, behind := d.queue, d.behind
	d.queue, d.behind = nil, false
	d.mu.Unlock()
	if !behind {
		return waiting, nil
	}
	return s.outbox()
}

// digestWaiting works until nothing waits; false means that the digester has been stopped.
func (s *Store) digestWaiting(ctx context.Context) bool {
	for ctx.Err() == nil {
		waiting, err := s.takeWaiting()
		if err != nil {
			s.log.Error("the outbox cannot be read", "error", err)
		}
		if len(waiting) == 0 {
			break
		}
		for _, p := range waiting {
			if ctx.Err() != nil {
				return false
			}
			if err := s.update(ctx, s.digestExchange(p.account, p.id)); err != nil && ctx.Err() == nil {
				s.log.Error("an exchange could not be digested; it will be tried again at the next start", "exchange", p.id.String(), "error", err)
			}
		}
	}
	return ctx.Err() == nil
}

// outbox gives the exchanges that wait to be digested, each account's in the order they began.
func (s *Store) outbox() (waiting []place, err error) {
	err = s.view(func(tx *badger.Txn) error {
		it := tx.NewIterator(badger.IteratorOptions{Prefix: []byte{spaceOutbox}})
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			if account, id, ok := splitExchangeKey(it.Item().Key()); ok {
				waiting = append(waiting, place{account, id})
			}
		}
		return nil
	})
	return waiting, err
}
