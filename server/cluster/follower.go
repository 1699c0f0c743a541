package cluster

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/ship"
)

// Followed is a store that follows the roster of a centre.
type Followed interface {
	Begin()
	Follow(ctx context.Context, entries []store.RosterEntry, whole bool) error
	Expire(at time.Time)
	Heard() (time.Time, error)
	Hear(ctx context.Context, at time.Time) error
}

const (
	stalled   = 3 * time.Second  // that a change may take to reach a watch
	tryAgain  = 15 * time.Second // to apply skipped entries
	noteHeard = time.Minute      // interval at which the time of the centre's last beat is written to disk
)

// follower keeps a store's roster equal to the centre's.
type follower struct {
	options *Options
	broker  *broker
	roster  Followed
	maxAge  time.Duration // how long the roster stays valid; 0: forever
	stop    context.CancelFunc
	done    chan struct{}

	whole  chan struct{} // closed when the store has the complete roster
	opened sync.Once     // closes whole once

	mu     sync.Mutex
	status Identity
	given  uint64    // revision that the centre has published, by its last beat
	beaten time.Time // of the last beat, by the centre's clock

	noted time.Time // owned by run: status.Heard on disk
}

func startFollower(ctx context.Context, b *broker, roster Followed, maxAge time.Duration, o *Options) (*follower, error) {
	heard, err := roster.Heard()
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	f := &follower{options: o, broker: b, roster: roster, maxAge: maxAge, stop: stop, done: make(chan struct{}), whole: make(chan struct{}), status: Identity{Heard: heard}, noted: heard}
	if _, err := b.Subscribe(beatSubject, f.hear); err != nil {
		stop()
		return nil, fmt.Errorf("listen to the centre: %w", err)
	}
	roster.Begin()
	f.expire(heard)
	go f.run(ctx)
	return f, nil
}

func (f *follower) close() {
	f.stop()
	<-f.done
}

// expire sets when the roster becomes invalid.
func (f *follower) expire(heard time.Time) {
	if f.maxAge > 0 {
		f.roster.Expire(heard.Add(f.maxAge))
	}
}

// mostAhead is by how much a centre's clock may be ahead of this one: beyond that, beats do not count as newer than those
// that follow once the clock has been set right.
const mostAhead = time.Minute

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// hear handles a beat of the centre. A beat that is not newer than the last one may have been replayed by a broker that
// withholds changes, and does not keep the roster valid.
func (f *follower) hear(m *nats.Msg) {
	beat, err := ship.OpenBeat(f.options.Key, m.Data)
	if err != nil {
		return
	}
	now := time.Now()
	f.mu.Lock()
	fresh := beat.Time.After(f.beaten)
	if fresh {
		f.beaten = earlier(beat.Time, now.Add(mostAhead))
		f.status.Heard, f.given = now, beat.Revision
	}
	f.mu.Unlock()
	if fresh {
		f.expire(now)
	}
}

func (f *follower) identity() Identity {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.status
}

func (f *follower) run(ctx context.Context) {
	defer close(f.done)
	again := f.broker.reconnects()
	for ctx.Err() == nil {
		err := f.follow(ctx, again)
		if ctx.Err() != nil {
			break
		}
		f.say(err)
		if err != nil {
			sleep(ctx, pause)
		}
	}
}

// say notes an error, and logs it if it differs from the one before.
func (f *follower) say(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	f.mu.Lock()
	before := f.status.Problem
	f.status.Problem = text
	f.mu.Unlock()
	if text != before && text != "" {
		f.options.Log.Warn("this edge does not have all accounts and keys of the centre", "cause", err)
	}
}

// errStalled is returned by a watch that misses changes the centre has published.
var errStalled = errors.New("the brokers do not deliver changes that the centre has published; watching again")

// follow watches the bucket until that fails or stalls, or the connection is made again: the client's watch would
// notice a lost broker only after two missed heartbeats, which is ten seconds.
func (f *follower) follow(ctx context.Context, again <-chan struct{}) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	opening, opened := context.WithTimeout(ctx, look)
	defer opened()
	bucket, err := f.broker.stream.KeyValue(opening, rosterBucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return errors.New("the brokers have no accounts and keys: no centre has published any yet")
	}
	if err != nil {
		return fmt.Errorf("open the bucket %s: %w", rosterBucket, err)
	}
	watcher, err := bucket.WatchAll(ctx)
	if err != nil {
		return fmt.Errorf("watch the bucket %s: %w", rosterBucket, err)
	}
	defer func() { _ = watcher.Stop() }()
	w := watch{follower: f, began: time.Now(), whole: true}
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-again:
			return nil
		case entry, open := <-watcher.Updates():
			if !open {
				return fmt.Errorf("watch the bucket %s: it ended", rosterBucket)
			}
			if err := w.take(ctx, entry); err != nil {
				return err
			}
		case <-tick.C:
			if err := w.check(ctx); err != nil {
				return err
			}
			if w.leftOut != nil && time.Since(w.began) > tryAgain {
				return w.leftOut // start a new watch
			}
		}
	}
}

// watch is one watch of the bucket.
type watch struct {
	*follower
	began    time.Time
	entries  []store.RosterEntry // of the initial values, until they are complete
	whole    bool                // the initial values are not complete yet
	complete bool                // the entry that a centre publishes last has arrived
	leftOut  error
	revision uint64    // of the last received entry
	behind   time.Time // since when the centre's revision differs; zero: it does not
}

// take applies an entry of the bucket; nil marks the end of the initial values.
func (w *watch) take(ctx context.Context, entry jetstream.KeyValueEntry) error {
	if entry == nil {
		if !w.complete {
			return errors.New("the centre has not published all of its accounts and keys yet")
		}
		entries := w.entries
		w.whole, w.entries = false, nil
		w.leftOut = w.roster.Follow(ctx, entries, true)
		w.say(w.leftOut)
		if w.leftOut == nil {
			w.opened.Do(func() { close(w.follower.whole) })
		}
		return nil
	}
	w.revision = entry.Revision()
	e, err := w.open(entry)
	if err != nil {
		w.leftOut = fmt.Errorf("an entry of the bucket %s cannot be verified: %w", rosterBucket, err)
		w.say(w.leftOut)
		return nil
	}
	if w.whole {
		if e.Value != nil {
			w.entries = append(w.entries, e)
			w.complete = w.complete || e.Name == store.LastOfRoster
		}
		return nil
	}
	if err := w.roster.Follow(ctx, []store.RosterEntry{e}, false); err != nil {
		w.leftOut = err
		w.say(err)
	}
	return nil
}

// open decodes an entry. The centre must have signed it, for this name.
func (w *watch) open(entry jetstream.KeyValueEntry) (store.RosterEntry, error) {
	if entry.Operation() != jetstream.KeyValuePut {
		name, err := hex.DecodeString(entry.Key())
		return store.RosterEntry{Name: string(name)}, err
	}
	e, err := ship.OpenNamedValue(w.options.Key, ship.KindRoster, entry.Value())
	if err == nil && bucketKey(e.Name) != entry.Key() {
		err = ship.ErrForged
	}
	return store.RosterEntry(e), err
}

// check makes sure that the watch is not behind the centre, and notes when the centre was heard.
func (w *watch) check(ctx context.Context) error {
	w.mu.Lock()
	given, heard := w.given, w.status.Heard
	w.mu.Unlock()
	switch {
	case given == w.revision: // the revision is lower in a bucket that was created again
		w.behind = time.Time{}
	case w.behind.IsZero():
		w.behind = time.Now()
	case time.Since(w.behind) > stalled:
		return errStalled
	}
	if heard.Sub(w.noted) > noteHeard {
		w.noted = heard
		return w.roster.Hear(ctx, heard)
	}
	return nil
}

// Identity is how current an edge's accounts and keys are.
type Identity struct {
	Heard   time.Time `json:"heard,omitzero"` // when the centre was last heard, before a restart included
	Problem string    `json:"problem,omitempty"`
}
