package cluster

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/ship"
)

// A centre publishes its roster (accounts, keys and credentials) through a key-value bucket of the brokers, one signed
// value per entry. The key of a value is the entry's name in hexadecimal.
const (
	rosterBucket = "mneme-roster"
	beatSubject  = "mneme.beat"

	beatEach   = 2 * time.Second
	verifyEach = 15 // beats between checks that the bucket has not been changed by others
)

// Roster is what a centre publishes.
type Roster interface {
	Entries() ([]store.RosterEntry, error)
	Changed() <-chan struct{}
}

func bucketKey(entry string) string { return hex.EncodeToString([]byte(entry)) }

// giver publishes a roster to edges.
type giver struct {
	options *Options
	broker  *broker
	roster  Roster

	bucket   jetstream.KeyValue
	given    map[string][]byte // content of the bucket, by its key
	revision uint64            // of the bucket's last change
}

// run publishes the roster and its changes until ctx is done. It starts over after a failure of the bucket, and after
// each reconnection.
func (g *giver) run(ctx context.Context) {
	again, said := g.broker.reconnects(), ""
	for ctx.Err() == nil {
		err := g.give(ctx, again)
		text := ""
		if err != nil && ctx.Err() == nil {
			text = err.Error()
		}
		if text != said && text != "" {
			g.options.Log.Warn("accounts and keys cannot be published; edges keep those that they have", "cause", err)
		}
		said = text
		if err != nil {
			sleep(ctx, pause)
		}
	}
}

func (g *giver) give(ctx context.Context, again <-chan struct{}) error {
	if err := g.open(ctx); err != nil {
		return err
	}
	tick := time.NewTicker(beatEach)
	defer tick.Stop()
	changed := true
	for beats := 1; ; beats++ {
		if changed {
			if err := g.giveChanges(ctx); err != nil {
				return err
			}
		}
		if beats%verifyEach == 0 {
			if last, err := g.last(ctx); err != nil || last != g.revision {
				return err // the bucket was replaced: read its content
			}
		}
		beat := ship.Beat{Revision: g.revision, Time: time.Now()}
		if err := g.broker.Publish(beatSubject, beat.Seal(g.options.Key)); err != nil {
			return fmt.Errorf("send a beat to the edges: %w", err)
		}
		changed = false
		select {
		case <-ctx.Done():
			return nil
		case <-again:
			return nil
		case <-g.roster.Changed():
			changed = true
		case <-tick.C:
		}
	}
}

// open finds or creates the bucket, and reads its content.
func (g *giver) open(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, reach)
	defer cancel()
	g.bucket, err = g.broker.stream.KeyValue(ctx, rosterBucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		g.bucket, err = g.broker.stream.CreateKeyValue(ctx, jetstream.KeyValueConfig{
			Bucket: rosterBucket, History: 1, Storage: jetstream.FileStorage, Replicas: max(1, g.options.Replicas),
		})
	}
	if err != nil {
		return fmt.Errorf("open the bucket %s: %w", rosterBucket, err)
	}
	if err := g.openReasoning(ctx); err != nil {
		return err
	}
	watcher, err := g.bucket.WatchAll(ctx, jetstream.IgnoreDeletes())
	if err != nil {
		return fmt.Errorf("read the bucket %s: %w", rosterBucket, err)
	}
	defer func() { _ = watcher.Stop() }()
	g.given = make(map[string][]byte)
	for {
		select {
		case <-ctx.Done():
			return fmt.Errorf("read the bucket %s: %w", rosterBucket, ctx.Err())
		case entry := <-watcher.Updates():
			if entry == nil {
				// The last entry is written in any case, so that another centre cannot write what it read earlier.
				delete(g.given, bucketKey(store.LastOfRoster))
				g.revision, err = g.last(ctx)
				return err
			}
			g.given[entry.Key()] = entry.Value()
		}
	}
}

// last returns the revision of the bucket's last change.
func (g *giver) last(ctx context.Context) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, reach)
	defer cancel()
	status, err := g.bucket.Status(ctx)
	if err != nil {
		return 0, fmt.Errorf("look at the bucket %s: %w", rosterBucket, err)
	}
	if of, ok := status.(*jetstream.KeyValueBucketStatus); ok {
		return of.StreamInfo().State.LastSeq, nil
	}
	return 0, errors.New("the brokers' client does not report the revision of a bucket")
}

// giveChanges writes to the bucket what differs from the roster.
func (g *giver) giveChanges(ctx context.Context) error {
	entries, err := g.roster.Entries()
	if err != nil {
		return err
	}
	there := make(map[string]bool, len(entries))
	for i := range entries {
		e := ship.NamedValue(entries[i])
		key, sealed := bucketKey(e.Name), e.Seal(g.options.Key, ship.KindRoster)
		if there[key] = true; bytes.Equal(g.given[key], sealed) {
			continue
		}
		if err := g.write(ctx, key, sealed); err != nil {
			return err
		}
		g.given[key] = sealed
	}
	for key := range g.given {
		if there[key] {
			continue
		}
		if err := g.write(ctx, key, nil); err != nil {
			return err
		}
		delete(g.given, key)
	}
	return nil
}

// write sets a value of the bucket; nil deletes it. It fails if anybody else has written to the bucket since: a centre that was
// stopped for a while, and replaced, does not know that when it goes on.
func (g *giver) write(ctx context.Context, key string, value []byte) error {
	ctx, cancel := context.WithTimeout(ctx, reach)
	defer cancel()
	m := nats.NewMsg("$KV." + rosterBucket + "." + key)
	if m.Data = value; value == nil {
		m.Header.Set("KV-Operation", "DEL")
	}
	done, err := g.broker.stream.PublishMsg(ctx, m, jetstream.WithExpectLastSequence(g.revision))
	if err != nil {
		return fmt.Errorf("write to the bucket %s: %w", rosterBucket, err)
	}
	g.revision = done.Sequence
	return nil
}
