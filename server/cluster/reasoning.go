package cluster

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/zeebo/blake3"

	"github.com/mnemeproxy/mneme/store/ship"
)

// Reasoning state that a provider wants back with the next request is shared through a key-value bucket of the brokers.
// As in a store, an account has a fixed number of slots, and an entry is dropped when another one takes its slot or
// when it is too old. Losing an entry costs a model some of its train of thought, but not the conversation.
const (
	reasoningBucket = "mneme-reasoning"
	reasoningAge    = 7 * 24 * time.Hour
	reasoningValue  = 64 << 10 // bytes of the largest value that is shared
	reasoningQueue  = 256      // entries on their way to the brokers; more are dropped

	recallTime  = 100 * time.Millisecond // that a request waits for an entry at most
	missesMost  = 1 << 12                // that are remembered
	missHolds   = time.Second            // minimum time before a name is asked for again: its value may still be on the way
	recallPause = 5 * time.Second        // after a timeout of the brokers
)

// reasoning shares reasoning state with the other edges.
type reasoning struct {
	options *Options
	broker  *broker
	queue   chan ship.NamedValue
	stop    context.CancelFunc
	done    chan struct{}

	mu     sync.Mutex
	bucket jetstream.KeyValue // nil: not open
	paused time.Time          // the brokers are not asked before this time
	missed map[string]miss    // by name: each request of a conversation asks for all of its calls
}

// miss is a name without a value.
type miss struct{ first, until time.Time }

func shareReasoning(ctx context.Context, b *broker, o *Options) *reasoning {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	r := &reasoning{options: o, broker: b, queue: make(chan ship.NamedValue, reasoningQueue), stop: stop, done: make(chan struct{})}
	go r.run(ctx)
	return r
}

func (r *reasoning) close() {
	r.stop()
	<-r.done
}

// reasoningName returns the name that an entry is signed with.
func reasoningName(account, name string) string { return account + "\x00" + name }

// slotOf returns the bucket key for a name: one of 2^14 slots of its account.
func slotOf(account, name string) string {
	whose, which := blake3.Sum256([]byte(account)), blake3.Sum256([]byte(name))
	which[0] &= 1<<6 - 1
	return hex.EncodeToString(whose[:16]) + "." + hex.EncodeToString(which[:2])
}

// run opens the bucket once it exists, and writes queued values to it.
func (r *reasoning) run(ctx context.Context) {
	defer close(r.done)
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		bucket := r.open(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case e := <-r.queue:
			if bucket == nil {
				continue
			}
			account, name, _ := strings.Cut(e.Name, "\x00")
			putting, cancel := context.WithTimeout(ctx, pause)
			_, err := bucket.Put(putting, slotOf(account, name), e.Seal(r.options.Key, ship.KindReasoning))
			cancel()
			if err != nil {
				r.fail()
			}
		}
	}
}

// open returns the bucket, which the centre creates; nil: it is not available.
func (r *reasoning) open(ctx context.Context) jetstream.KeyValue {
	r.mu.Lock()
	bucket, paused := r.bucket, time.Now().Before(r.paused)
	r.mu.Unlock()
	if bucket != nil || paused || !r.broker.IsConnected() {
		return bucket
	}
	ctx, cancel := context.WithTimeout(ctx, pause)
	defer cancel()
	bucket, err := r.broker.stream.KeyValue(ctx, reasoningBucket)
	if err != nil {
		r.fail()
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bucket = bucket
	return bucket
}

// fail closes the bucket and pauses its use.
func (r *reasoning) fail() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bucket, r.paused = nil, time.Now().Add(recallPause)
}

// miss notes that a name has no value. The note stays valid for as long as the name has been missed: a value that was
// still on its way is found soon, and one that never arrives is asked for less and less often.
func (r *reasoning) miss(name string) {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	m, again := r.missed[name]
	if !again {
		m.first = now
		if r.missed == nil || len(r.missed) >= missesMost {
			r.missed = make(map[string]miss)
		}
	}
	m.until = now.Add(max(missHolds, now.Sub(m.first)))
	r.missed[name] = m
}

// KeepReasoning shares a value with the other edges. It does not wait; when the queue is full, the value is dropped.
func (e *Edge) KeepReasoning(account, name string, value []byte) {
	if len(value) == 0 || len(value) > reasoningValue {
		return
	}
	select {
	case e.reasoning.queue <- ship.NamedValue{Name: reasoningName(account, name), Value: value}:
	default:
	}
}

// RecallReasoning returns the value that an edge has shared under a name; nil if there is none, or if the brokers do
// not answer within a tenth of a second.
func (e *Edge) RecallReasoning(account, name string) (value []byte) {
	r := e.reasoning
	whole := reasoningName(account, name)
	r.mu.Lock()
	bucket := r.bucket
	missed := time.Now().Before(r.missed[whole].until)
	r.mu.Unlock()
	if bucket == nil || missed || !r.broker.IsConnected() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), recallTime)
	defer cancel()
	held, err := bucket.Get(ctx, slotOf(account, name))
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		r.miss(whole)
		return nil
	}
	if err != nil {
		r.fail()
		return nil
	}
	v, err := ship.OpenNamedValue(r.options.Key, ship.KindReasoning, held.Value())
	if err != nil || v.Name != whole {
		r.miss(whole)
		return nil
	}
	return v.Value
}

// openReasoning creates the bucket if it does not exist.
func (g *giver) openReasoning(ctx context.Context) error {
	_, err := g.broker.stream.KeyValue(ctx, reasoningBucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		_, err = g.broker.stream.CreateKeyValue(ctx, jetstream.KeyValueConfig{
			Bucket: reasoningBucket, History: 1, TTL: reasoningAge, Storage: jetstream.FileStorage, Replicas: max(1, g.options.Replicas),
		})
	}
	if err != nil {
		return fmt.Errorf("open the bucket %s: %w", reasoningBucket, err)
	}
	return nil
}
