package turns

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"sync/atomic"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/store/internal/commit"
	"github.com/mnemeproxy/mneme/store/internal/feed"
	"github.com/mnemeproxy/mneme/store/internal/files"
	"github.com/mnemeproxy/mneme/store/internal/identity"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/internal/writing"
	"github.com/mnemeproxy/mneme/store/record"
)

// Digester makes turns.
type Digester struct {
	Feed        *feed.Feed            // set before [Digester.Start], as are the credentials
	Credentials *identity.Credentials // are masked in what is read

	contentOf func(*record.Exchange) (record.Digest, error) // nil: exchanges have no turns
	db        *files.Database
	writer    *writing.Writer
	log       *slog.Logger

	Held     atomic.Int64 // bytes of exchanges in memory, see kept.go
	prefixes prefixMemory // of the requests read last

	cancel context.CancelFunc
	done   chan struct{}
}

// New returns a digester. contentOf returns the content of an exchange.
func New(db *files.Database, writer *writing.Writer, contentOf func(*record.Exchange) (record.Digest, error), log *slog.Logger) *Digester {
	d := &Digester{contentOf: contentOf, db: db, writer: writer, log: log}
	d.prefixes.Most = prefixGeneration
	return d
}

// Start begins to digest in the background what [Digester.AtOnce] has left.
func (d *Digester) Start() {
	if d.contentOf == nil {
		return
	}
	var ctx context.Context
	ctx, d.cancel = context.WithCancel(context.Background())
	d.done = make(chan struct{})
	go func() {
		defer close(d.done)
		for d.digestWaiting(ctx) {
			select {
			case <-d.Feed.Undigested():
			case <-ctx.Done():
			}
		}
	}()
}

// Stop ends the goroutine after its current step: reading a part of an answer, or digesting what has been read. The
// rest is left for the next start.
func (d *Digester) Stop() {
	if d.cancel != nil {
		d.cancel()
		<-d.done
	}
}

// Digests are handed to the writer without waiting for each commit, so that they are committed together.
const (
	digestsAhead = 64
	bytesAhead   = 4 << 20 // of the requests and answers digested

	digestBatch = 1024 // changes examined together at most
)

// digestWaiting works until nothing is left; it returns false if the digester has been stopped.
func (d *Digester) digestWaiting(ctx context.Context) bool {
	err := d.Feed.FollowDigests(ctx)
	for more := true; more && err == nil && ctx.Err() == nil; {
		more, err = d.DigestNext(ctx)
	}
	if err != nil && ctx.Err() == nil {
		d.Feed.CountAgain()
		d.log.Error("exchanges could not be digested; they are tried again when the next one ends", "error", err)
	}
	return ctx.Err() == nil
}

// DigestNext digests the ended exchanges in the next batch, if there is one. What cannot be recorded is put aside.
func (d *Digester) DigestNext(ctx context.Context) (more bool, err error) {
	f, ahead := d.Feed, digestsUnderWay{}
	b, err := f.Next(feed.StageDigest, math.MaxUint64, digestBatch)
	if b == nil {
		return false, err
	}
	for _, c := range b.Changes {
		if err := d.handDigest(ctx, c, &ahead); err != nil {
			ahead.await(d.log)
			return false, err
		}
	}
	ahead.await(d.log)
	if b.Later = ahead.failed; len(b.Later) > 0 || b.WasAside() {
		if err := f.Confirm(ctx, feed.StageDigest, b); err != nil {
			return false, err
		}
	}
	f.Done(feed.StageDigest, b) // last, because other stages confirm what this one has done
	return true, nil
}

// digestsUnderWay are digests handed to the writer.
type digestsUnderWay struct {
	writes  []*commit.Change
	changes []*feed.Change
	bytes   int64
	failed  []*feed.Change
}

// handDigest hands the digest of an exchange to the writer, unless it has a turn.
func (d *Digester) handDigest(ctx context.Context, c *feed.Change, ahead *digestsUnderWay) error {
	began := time.Now()
	if c.Exchange == "" || !c.Undigested && d.hasTurn(c.Place) {
		return nil
	}
	captured := d.Feed.Take(c)
	digest, size := d.Digest(ctx, c.Place, captured)
	if err := ctx.Err(); err != nil {
		return err
	}
	turn := kv.ExchangeKey(kv.SpaceTurn, c.Place.Account, c.Place.ID)
	w := d.writer.Change(func(g *writing.Group, w *commit.Op) error {
		if g.Has(turn) {
			return nil // a duplicate
		}
		return digest(g, w)
	})
	if err := d.writer.Send(ctx, w); err != nil {
		return err
	}
	d.Feed.Handed(c)
	d.Feed.Worked(feed.StageDigest, 1, began)
	ahead.writes, ahead.changes = append(ahead.writes, w), append(ahead.changes, c)
	if ahead.bytes += size; len(ahead.writes) >= digestsAhead || ahead.bytes >= bytesAhead {
		ahead.await(d.log)
	}
	return nil
}

// hasTurn reports whether an exchange has been digested. If that cannot be read, the answer is no.
func (d *Digester) hasTurn(p kv.ExchangeRef) bool {
	return d.db.View(func(tx *badger.Txn) error {
		_, err := tx.Get(kv.ExchangeKey(kv.SpaceTurn, p.Account, p.ID))
		return err
	}) == nil
}

// await waits until all are committed.
func (u *digestsUnderWay) await(log *slog.Logger) {
	for i, w := range u.writes {
		if <-w.Done; w.Err != nil && !errors.Is(w.Err, commit.ErrClosed) {
			log.Error("an exchange could not be digested; it will be tried again at the next start", "exchange", u.changes[i].Exchange, "error", w.Err)
			u.failed = append(u.failed, u.changes[i])
		}
	}
	clear(u.writes)
	clear(u.changes)
	u.writes, u.changes, u.bytes = u.writes[:0], u.changes[:0], 0
}
