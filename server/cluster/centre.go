package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/mnemeproxy/mneme/store/ship"
	"github.com/mnemeproxy/mneme/store/shipped"
)

// Archive stores what edges ship.
type Archive interface {
	Mark(log ship.LogID) (ship.Mark, error) // how far the log was taken, and the time that erasures go by
	Take(ctx context.Context, f *ship.Frame, aside func([]shipped.Refused) error) (taken bool, err error)
	ID(ctx context.Context) (string, error) // of the archive; never changes
}

// Arriving counts what a centre has taken and refused since it started.
type Arriving struct {
	Connected bool             `json:"connected"`        // to a broker
	Exchanges int64            `json:"exchanges"`        // entries in frames that were taken
	Tries     int64            `json:"-"`                // transactions begun to take frames
	Refused   map[string]int64 `json:"refused"`          // by reason: version, signature, malformed, account, content, incomplete
	Aside     int              `json:"aside"`            // entries currently kept aside
	Stream    *Stream          `json:"stream,omitempty"` // when it was last asked for; nil: not yet
	Problem   string           `json:"problem,omitempty"`
}

// Stream is how full the brokers' stream is.
type Stream struct {
	Bytes    uint64 `json:"bytes"`
	Most     int64  `json:"most"`     // that it may have; not positive: there is no bound
	Replicas int    `json:"replicas"` // that the brokers keep
	Brokers  int    `json:"brokers"`  // that are known
}

// Reasons for a refusal, as used in counters.
const (
	refusedVersion    = "version"
	refusedSignature  = "signature"
	refusedMalformed  = "malformed"
	refusedAccount    = "account"
	refusedContent    = "content"
	refusedIncomplete = "incomplete"
)

// refusalReasons returns all of them.
func refusalReasons() []string {
	return []string{refusedVersion, refusedSignature, refusedMalformed, refusedAccount, refusedContent, refusedIncomplete}
}

func reasonOf(err error) string {
	switch {
	case errors.Is(err, ship.ErrVersion):
		return refusedVersion
	case errors.Is(err, ship.ErrForged):
		return refusedSignature
	case errors.Is(err, shipped.ErrForeign):
		return refusedAccount
	case errors.Is(err, shipped.ErrUnusable):
		return refusedContent
	case errors.Is(err, shipped.ErrIncomplete):
		return refusedIncomplete
	}
	return refusedMalformed
}

const (
	retryEach = 15 * time.Second // for entries kept aside

	purgeMessages = 256             // taken messages that the brokers still hold
	purgeRest     = 2 * time.Second // between purges of fewer messages: each purge involves all brokers
)

// Centre takes what edges ship. [Gather] or [Work] starts it, and Close ends it.
type Centre struct {
	options Options
	worker  bool // another centre keeps the accounts and answers for the cluster
	archive Archive
	id      string // of the archive
	broker  *broker
	stop    context.CancelFunc
	running sync.WaitGroup
	edges   *edges // nil: edges erase for themselves

	settled atomic.Int64 // the term whose lender has what is on record

	stuck    bool          // the waiting frames could not be taken; owned by run
	position atomic.Uint64 // in the stream: all messages up to it were handled

	mu     sync.Mutex
	status Arriving
	stream jetstream.Stream // nil: not open yet

	opened   chan struct{} // closed when the stream is open
	partials partials      // owned by run
	waiting  together      // owned by run
	order    byte          // determines the order in which logs are taken
}

// Close stops taking. The next centre takes what the brokers hold.
func (c *Centre) Close() {
	c.stop()
	c.broker.Close()
	c.running.Wait()
}

// Status returns the current counters.
func (c *Centre) Status() Arriving {
	c.mu.Lock()
	defer c.mu.Unlock()
	status := c.status
	status.Refused = make(map[string]int64)
	for _, reason := range refusalReasons() {
		status.Refused[reason] = c.status.Refused[reason]
	}
	if status.Connected = c.broker.IsConnected(); !status.Connected {
		status.Problem = c.options.unreachable()
	}
	return status
}

// read handles the messages of the stream in order, until it fails or the connection is made again.
func (c *Centre) read(ctx context.Context, again <-chan struct{}) error {
	select {
	case <-again: // from an earlier connection
	default:
	}
	stream, err := c.openStream(ctx)
	if err != nil {
		return err
	}
	consumer, err := stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverAllPolicy, InactiveThreshold: time.Minute, // then the brokers delete it
		MaxResetAttempts: 1, // without it the client would retry forever, even if the stream is gone or this centre closed
	})
	if err != nil {
		return fmt.Errorf("read the stream: %w", err)
	}
	messages, err := consumer.Messages(jetstream.PullMaxBytes(16 << 20))
	if err != nil {
		return fmt.Errorf("read the stream: %w", err)
	}
	defer messages.Stop()
	reading, cancel := context.WithCancel(ctx)
	defer cancel()
	watching := make(chan struct{})
	defer func() { cancel(); <-watching }()
	go func() {
		defer close(watching)
		select {
		case <-reading.Done():
		case <-again:
			cancel()
		}
	}()
	r := reader{centre: c, stream: stream}
	for {
		waiting, waited := r.waiting(reading)
		m, err := messages.Next(jetstream.NextContext(waiting))
		waited()
		switch {
		case reading.Err() != nil:
			return nil
		case errors.Is(err, context.DeadlineExceeded):
			err = r.idle(ctx)
		case err != nil:
			err = fmt.Errorf("read the stream: %w", err)
		default:
			err = r.message(ctx, m)
		}
		if err != nil {
			return err
		}
	}
}

// openStream opens the stream, to be read from its beginning.
func (c *Centre) openStream(ctx context.Context) (jetstream.Stream, error) {
	stream, err := c.broker.openStream(ctx, &c.options, c.id, !c.worker)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	if c.stream == nil {
		close(c.opened)
	}
	c.stream = stream
	if !c.stuck {
		c.status.Problem = ""
	}
	c.mu.Unlock()
	clear(c.partials.logs)
	c.waiting = together{}
	c.position.Store(0)
	return stream, nil
}

// reader is how far a reading of the stream is.
type reader struct {
	centre  *Centre
	stream  jetstream.Stream
	last    uint64    // last handled message
	kept    time.Time // when waiting frames were taken last
	due     time.Time // when they are taken next, though fewer wait than are taken together
	handled int       // since the last purge
	purged  time.Time
	freed   uint64 // the brokers were told to free the messages up to this one
}

// waiting returns the context of a wait for the next message: it ends when something is due without one.
func (r *reader) waiting(ctx context.Context) (context.Context, context.CancelFunc) {
	switch c := r.centre; {
	case len(c.waiting.frames) > 0:
		return context.WithTimeout(ctx, r.due.Sub(c.options.now()))
	case r.handled > 0 || r.freed < c.position.Load():
		return context.WithTimeout(ctx, purgeRest)
	}
	return ctx, func() {}
}

// idle does what is due while no message arrives: it takes frames that have waited long enough, or purges, so that brokers do not hold
// taken messages until the next one arrives.
func (r *reader) idle(ctx context.Context) error {
	if len(r.centre.waiting.frames) > 0 {
		return r.keep(ctx)
	}
	return r.purge(ctx)
}

// message handles the next message, and takes the waiting frames once they have waited long enough, or are many. That no more are
// announced says little: a reading that stood still has been sent each message when it was the last one.
func (r *reader) message(ctx context.Context, m jetstream.Msg) error {
	at, err := m.Metadata()
	if err != nil {
		return fmt.Errorf("read the stream: %w", err)
	}
	r.centre.handle(m.Data(), at.Sequence.Stream)
	r.last = at.Sequence.Stream
	r.handled++
	now := r.centre.options.now()
	if r.due = r.kept.Add(r.centre.options.Gather); at.NumPending > 0 && r.due.Before(now.Add(togetherWait)) {
		r.due = now.Add(togetherWait)
	}
	if now.Before(r.due) && !r.centre.waiting.full() {
		return nil
	}
	if err := r.keep(ctx); err != nil {
		return err
	}
	if r.handled >= purgeMessages || at.NumPending == 0 && time.Since(r.purged) > purgeRest {
		return r.purge(ctx)
	}
	return nil
}

// keep takes the waiting frames.
func (r *reader) keep(ctx context.Context) error {
	r.kept = r.centre.options.now()
	if err := r.centre.keep(ctx); err != nil {
		return err
	}
	r.centre.position.Store(r.last)
	return nil
}

// purge frees the handled messages at the brokers.
func (r *reader) purge(ctx context.Context) (err error) {
	if r.freed, err = r.centre.purge(ctx, r.stream, r.freed); err != nil {
		return err
	}
	r.purged, r.handled = time.Now(), 0
	return nil
}

// purge frees the handled messages at the brokers, except parts of incomplete frames, and returns the last free
// message. Those up to before are already free.
func (c *Centre) purge(ctx context.Context, stream jetstream.Stream, before uint64) (freed uint64, err error) {
	c.partials.giveUp()
	freed = c.partials.freed(c.position.Load())
	if freed <= before {
		return before, nil
	}
	ctx, cancel := context.WithTimeout(ctx, reach)
	defer cancel()
	if err := stream.Purge(ctx, jetstream.WithPurgeSequence(freed+1)); err != nil {
		return before, fmt.Errorf("free the stream: %w", err)
	}
	return freed, nil
}

// keep takes the waiting frames. As long as that fails, the status shows the problem.
func (c *Centre) keep(ctx context.Context) error {
	err := c.takeTogether(ctx)
	if c.stuck && err == nil {
		c.mu.Lock()
		c.status.Problem = ""
		c.mu.Unlock()
	}
	c.stuck = err != nil
	return err
}

// handle adds a message to the waiting frames.
func (c *Centre) handle(message []byte, at uint64) {
	p, err := ship.OpenPacket(c.options.Key, ship.KindPacket, message)
	if err != nil {
		c.refuseMessage(message, err)
		return
	}
	f, err := c.partials.add(&p, at)
	if err != nil {
		c.refuseMessage(message, err)
		return
	}
	if f != nil {
		c.waiting.add(f)
	}
}

// take stores a frame and confirms it to its edge.
func (c *Centre) take(ctx context.Context, f *ship.Frame) error {
	_, err := c.tryTake(ctx, f, 1)
	if errors.Is(err, shipped.ErrIncomplete) {
		c.count(refusedIncomplete)
		return nil // the edge notices that it has not arrived, and sends it complete
	}
	return err
}

// tryTake is like take, and reports whether the frame was stored: it may have been stored before, or an earlier one may
// be missing. The error is [shipped.ErrIncomplete] if the edge omitted something that is not in the archive. frames is how
// many shipped frames f was joined from.
func (c *Centre) tryTake(ctx context.Context, f *ship.Frame, frames int) (taken bool, err error) {
	began := time.Now()
	c.mu.Lock()
	c.status.Tries++
	c.mu.Unlock()
	if taken, err = c.archive.Take(ctx, f, c.refuse); err != nil {
		return false, fmt.Errorf("store what an edge has shipped: %w", err)
	}
	if !taken {
		return false, nil
	}
	if c.options.Took != nil {
		c.options.Took(frames, time.Since(began))
	}
	if err := c.edges.heard(ctx, f.Node, time.Time{}); err != nil {
		return false, err
	}
	c.mu.Lock()
	c.status.Exchanges += int64(len(f.Entries))
	c.mu.Unlock()
	m := ship.Mark{Log: f.Log, Mark: f.Last, Tail: f.Tail, Time: time.Now()}
	_ = c.broker.Publish(markSubjectOf(f.Node), m.Seal(c.options.Key)) // a lost mark is asked for
	return true, nil
}

// refuse reports entries of a frame that the archive keeps aside, because they cannot be taken.
func (c *Centre) refuse(refused []shipped.Refused) error {
	for i := range refused {
		r := &refused[i]
		c.options.Log.Warn("refused an exchange; it is kept aside", "exchange", r.Entry.Exchange, "account", r.Entry.Account, "cause", r.Reason)
		c.count(reasonOf(r.Reason))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.status.Aside += len(refused) // until the next count
	return nil
}

// refuseMessage drops a message that no node with the cluster's key and this version has sent.
func (c *Centre) refuseMessage(message []byte, cause error) {
	c.options.Log.Warn("refused a message", "bytes", len(message), "cause", cause)
	c.count(reasonOf(cause))
}

func (c *Centre) count(reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.status.Refused[reason]++
}

// answer tells an edge how far its log has been taken.
func (c *Centre) answer(ctx context.Context, m *nats.Msg) error {
	q, err := ship.OpenQuestion(c.options.Key, m.Data)
	if err != nil {
		c.count(reasonOf(err))
		return m.Respond([]byte(refusalPrefix + err.Error()))
	}
	asking, cancel := context.WithTimeout(ctx, reach/2)
	defer cancel()
	handled, newest, unknown := c.progress(asking)
	answer, err := c.archive.Mark(q.Log) // after progress: entries missing here had not been taken by then
	if err != nil {
		return err
	}
	answer.Nonce = q.Nonce
	if unknown == nil {
		answer.Handled, answer.Newest, answer.Idle = handled, newest, handled == newest
	}
	return m.Respond(answer.Seal(c.options.Key))
}

// errNotOpen is the error of a centre that has not seen the stream since it started.
var errNotOpen = errors.New("the stream of the brokers is not open yet")

// Behind asks the brokers how many messages of their stream this centre has not handled. It begins at the front again
// after each reconnection, when others may have freed messages in between.
func (c *Centre) Behind(ctx context.Context) (messages uint64, err error) {
	handled, newest, err := c.progress(ctx)
	return newest - handled, err
}

// progress asks the brokers for the newest message of their stream; all messages up to handled have been handled.
func (c *Centre) progress(ctx context.Context) (handled, newest uint64, err error) {
	c.mu.Lock()
	stream := c.stream
	c.mu.Unlock()
	if stream == nil {
		return 0, 0, errNotOpen
	}
	info, err := stream.Info(ctx)
	if err != nil {
		return 0, 0, fmt.Errorf("ask the brokers about their stream: %w", err)
	}
	c.mu.Lock()
	c.status.Stream = &Stream{info.State.Bytes, info.Config.MaxBytes, info.Config.Replicas, len(c.broker.Servers())}
	c.mu.Unlock()
	newest = info.State.LastSeq
	if info.State.Msgs == 0 {
		return newest, newest, nil
	}
	return min(max(c.position.Load(), info.State.FirstSeq-1), newest), newest, nil
}

// countAside updates the number of entries that the archive keeps aside.
func (c *Centre) countAside(ctx context.Context, kept Aside) error {
	n, err := kept.Count(ctx)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.status.Aside = n
	return nil
}

// retry retries entries kept aside: their account may exist by now, or this may be a later version of mneme.
func (c *Centre) retry(ctx context.Context) {
	kept := c.options.Aside
	for ctx.Err() == nil && kept != nil {
		err := errors.Join(kept.Retry(ctx), c.countAside(ctx, kept))
		if err != nil && ctx.Err() == nil {
			c.options.Log.Warn("entries kept aside could not be retried", "cause", err)
		}
		sleep(ctx, retryEach)
	}
}
