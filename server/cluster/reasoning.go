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

// Reasoning state that a provider wants back with the next request is shared through a key-value bucket of the brokers. As in a
// store, an account has a fixed number of slots, and an entry goes when another one takes its slot, or when it is too old. One
// that is lost costs a model some of its thread, and not the conversation.
const (
	reasoningBucket = "mneme-reasoning"
	reasoningAge    = 7 * 24 * time.Hour
	reasoningValue  = 64 << 10 // bytes of the largest value that is shared
	reasoningQueue  = 256      // entries on their way to the brokers; more are let go

	recallTime  = 100 * time.Millisecond // that a request waits for an entry at most
	missesMost  = 1 << 12                // that are remembered
	missHolds   = time.Second            // that a name is not asked for again at least: its value may still be on the way
	recallPause = 5 * time.Second        // in which brokers are not asked again that did not answer in time
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
	paused time.Time          // until then nobody is asked
	missed map[string]miss    // by name: a conversation asks for all of its calls with each request
}

// miss is a name under which nothing was found.
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

// reasoningName is what an entry is bound to.
func reasoningName(account, name string) string { return account + "\x00" + name }

// slotOf is where an entry of that name is held: one of 2^14 places of its account.
func slotOf(account, name string) string {
	whose, which := blake3.Sum256([]byte(account)), blake3.Sum256([]byte(name))
	which[0] &= 1<<6 - 1
	return hex.EncodeToString(whose[:16]) + "." + hex.EncodeToString(which[:2])
}

// run puts what is kept into the bucket, and opens that when it is there.
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

// open gives the bucket, which the centre makes; nil: it is not to be used now.
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

// fail has nobody asked for a while, and the bucket opened again then.
func (r *reasoning) fail() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bucket, r.paused = nil, time.Now().Add(recallPause)
}

// miss notes that nothing was found under a name. The note holds for as long as the name has been missed, so that a value that
// was still on its way is found soon, and one that never comes is asked for ever less often.
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

// KeepReasoning shares a value with the other edges. It does not wait; what finds no room is let go.
func (e *Edge) KeepReasoning(account, name string, value []byte) {
	if len(value) == 0 || len(value) > reasoningValue {
		return
	}
	select {
	case e.reasoning.queue <- ship.NamedValue{Name: reasoningName(account, name), Value: value}:
	default:
	}
}

// RecallReasoning gives what an edge has shared under a name; nil where there is nothing, or brokers do not answer within a
// tenth of a second.
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

// openReasoning makes the bucket where it is not there.
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
