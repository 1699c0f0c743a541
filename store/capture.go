package store

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/chatkey"
	"github.com/mnemeproxy/mneme/codec/template"
	"github.com/mnemeproxy/mneme/store/conversation"
	"github.com/mnemeproxy/mneme/store/internal/blob"
	"github.com/mnemeproxy/mneme/store/internal/buffer"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/record"
)

// responsePart is how many bytes of an answer are held in memory before they go to the store.
const responsePart = 256 << 10

// Recording is the record of one exchange in progress, as a server sees it. Its methods are called one at a time,
// except ID, Shed and Recorded.
type Recording interface {
	ID() string                           // of the exchange
	SessionID() string                    // once the opening is on record; "" before
	Shed() bool                           // passes without a record under pressure
	Recorded(ctx context.Context) error   // waits until the request is on record
	Write(p []byte) (int, error)          // adds bytes of the answer; p may be reused at once
	Omit(n int64)                         // counts bytes of the answer that are not recorded; none are added behind them
	Finish(closing *record.Closing) error // waits until the whole exchange is on record
}

// Capture is the record of one exchange in progress. The goroutine that pumps the answer calls its methods, one at a
// time; ID, Shed and Recorded may be called from others.
type Capture struct {
	recorded
	store   *core // nil: passes without a record
	shed    bool
	info    *record.ExchangeInfo // until the end of the exchange is handed to the writer
	opening *opening
	buffer  []byte               // answer bytes not yet handed to the writer, from the buffer pool
	part    uint32               // number of the next part
	size    int64                // answer bytes recorded so far
	beyond  int64                // answer bytes not recorded, because the answer is too long
	request []byte               // kept for the digester, from the buffer pool; nil: it reads the exchange back
	items   *record.RequestItems // of request, may be nil
	derived *chatkey.Keys        // of request; nil: unknown
	answer  *answerRedactor      // nil: nothing is masked
}

// recorded is a capture as the writer sees it. The goroutine that pumps the answer changes none of it, because that may
// finish the exchange before the writer is at its opening. Each write brings what it says about the exchange.
type recorded struct {
	id      kv.ExchangeID
	name    string // id as text
	account kv.AccountNumber
	key     string // id of the service key

	session     kv.SessionID // set before the opening is acknowledged, like its text
	sessionName string
	begun       bool      // the opening is on record
	noted       *openNote // its note of open exchanges
	failed      error     // the first write error
}

// abandoned reports whether the opening could not be committed, so that there is nothing to add to.
func (c *recorded) abandoned() bool { return c.failed != nil && !c.begun }

// settle notes the first error.
func (c *recorded) settle(err error) {
	if c.failed == nil {
		c.failed = err
	}
}

// counters add up to the requests that the store was asked to record.
type counters struct {
	captured, shed, off, refused, failed atomic.Int64
}

// Stats are counts since the store was opened: every admitted exchange is one of Captured, Shed and Off.
type Stats struct {
	Captured int64 // openings on record
	Shed     int64 // passed without a record under pressure
	Off      int64 // passed without a record because capture is off
	Refused  int64 // refused for lack of disk space or queue room
	Failed   int64 // refused because the opening could not be committed

	Queued     int64 // operations in the writer's queue
	Undigested int64 // exchanges waiting to be digested
}

// Stats returns the counts so far and the lengths of the queues.
func (s *Store) Stats() Stats {
	undigested, _ := s.Feed().Lag(StageDigest)
	return Stats{
		Captured: s.count.captured.Load(), Shed: s.count.shed.Load(), Off: s.count.off.Load(),
		Refused: s.count.refused.Load(), Failed: s.count.failed.Load(),
		Queued: int64(s.writer.Queued()), Undigested: int64(undigested),
	}
}

// Off returns a capture that records nothing, for exchanges that are not to be captured, and counts it.
func (s *Store) Off() *Capture {
	s.count.off.Add(1)
	c := new(Capture)
	c.begin(nil, kv.ExchangeID(s.ids.Next(time.Now())))
	return c
}

func (c *Capture) begin(s *core, id kv.ExchangeID) { c.store, c.id, c.name = s, id, id.String() }

// Begin hands the opening of an exchange to the writer, without waiting for the commit, which comes within a few
// milliseconds. If the queue is full it waits, or with [Shed] returns a capture that records nothing. Errors are
// [codec.Error]s of kind storage.
func (s *Store) Begin(ctx context.Context, o *record.Opening) (*Capture, error) {
	account, ok := s.accounts.Find(o.Account)
	if !ok {
		return nil, codec.Errorf(codec.KindStorage, "account %q does not exist", o.Account)
	}
	started := o.Started
	if started.IsZero() {
		started = time.Now()
	}
	begun := new(struct {
		Capture
		opening opening
	})
	c, w := &begun.Capture, &begun.opening
	c.begin(s.core, kv.ExchangeID(s.ids.Next(started)))
	c.account = account
	if err := s.writer.Gate.Admits(); err != nil {
		return s.passOrRefuse(c, err)
	}
	redactor := o.Redactor
	if redactor == nil {
		redactor = s.credentials.Redactor(o.Account)
	}
	own := *o
	own.Redact(redactor)
	own.Detach()
	o = &own
	c.info = record.InfoOf(c.name, o, started)
	c.key = c.info.KeyID
	c.answer = s.newAnswerRedactor(c.info.Surface, redactor)
	s.planning.RLock()
	defer s.planning.RUnlock()
	if now, ok := s.accounts.Find(o.Account); !ok || now != account {
		return nil, codec.Errorf(codec.KindStorage, "account %q was deleted", o.Account)
	}
	w.store, w.capture, w.evidence = s.core, &c.recorded, conversation.EvidenceOf(o, c.info)
	w.info, w.body = record.Append(buffer.Get(1<<10), c.info), s.planner.Plan(account, bodyOf(o))
	w.Held, w.Weight, w.Done = true, int64(len(w.info))+w.body.Held, make(chan struct{})
	c.opening = w
	last := w.body.Last // the plan belongs to the writer once it is sent
	if s.opts.OnPressure == Shed {
		if sent, err := s.writer.TrySend(w); err != nil || !sent {
			return s.passOrRefuse(c, err)
		}
		c.keepRequest(o, last)
		return c, nil
	}
	if err := s.writer.Send(ctx, w); err != nil {
		if ctx.Err() == nil { // otherwise the client has left, and nobody was refused
			s.count.refused.Add(1)
		}
		return nil, kv.AsStorageError(err, "the store did not take the exchange in time; try again in a moment")
	}
	c.keepRequest(o, last)
	return c, nil
}

// bodyOf returns the body of an opening with the places where it may be cut.
func bodyOf(o *record.Opening) *blob.Body {
	body := &blob.Body{Bytes: o.Body, Blocks: o.Spans, Prints: o.Prints}
	if len(o.Body) >= prefixesFrom {
		body.Conversation = o.Items
	}
	return body
}

// passOrRefuse ends Begin for an exchange that cannot be recorded.
func (s *core) passOrRefuse(c *Capture, cause error) (*Capture, error) {
	if s.opts.OnPressure == Shed {
		s.count.shed.Add(1)
		return &Capture{recorded: recorded{id: c.id, name: c.name}, shed: true}, nil
	}
	s.count.refused.Add(1)
	return nil, cause
}

// ID returns the exchange's id. Ids ascend with the time the exchange began.
func (c *Capture) ID() string { return c.name }

// SessionID returns the id of the exchange's session once [Capture.Recorded] has returned without an error; "" before
// that, and for an exchange that is not recorded.
func (c *Capture) SessionID() string {
	if c.store == nil {
		return ""
	}
	select {
	case <-c.opening.Done:
	default:
		return ""
	}
	if c.opening.Err != nil {
		return ""
	}
	return c.sessionName
}

// Shed reports whether the exchange passes without a record because the store could not take it.
func (c *Capture) Shed() bool { return c.shed }

// Recorded waits until the opening is committed. An error means that it is not on record.
func (c *Capture) Recorded(ctx context.Context) error {
	if c.store == nil {
		return nil
	}
	select {
	case <-c.opening.Done:
		return c.opening.Err
	default:
		c.store.writer.Hurry()
	}
	select {
	case <-c.opening.Done:
		return c.opening.Err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Write records bytes of the answer, and counts those beyond [Options.AnswerBytes]. It copies p; a full part goes to
// the writer. The error is of kind storage and means that the answer can no longer be recorded; [Capture.Finish]
// returns it again.
func (c *Capture) Write(p []byte) (int, error) {
	if c.store == nil {
		return len(p), nil
	}
	written := len(p)
	if room := c.store.opts.AnswerBytes - c.size; int64(written) > room {
		c.beyond += int64(written) - room
		p = p[:room]
	}
	c.size += int64(len(p))
	for len(p) > 0 {
		if len(c.buffer)+len(p) > cap(c.buffer) && cap(c.buffer) < responsePart {
			grown := buffer.Get(min(len(c.buffer)+len(p), responsePart))
			grown = append(grown, c.buffer...)
			if c.buffer != nil {
				buffer.Put(c.buffer)
			}
			c.buffer = grown
		}
		n := min(len(p), cap(c.buffer)-len(c.buffer))
		c.buffer = append(c.buffer, p[:n]...)
		p = p[n:]
		if len(c.buffer) >= responsePart {
			if err := c.spill(); err != nil {
				return written - len(p), err
			}
		}
	}
	return written, nil
}

// Omit counts n bytes of the answer that are not to be recorded.
func (c *Capture) Omit(n int64) { c.beyond += n }

// spill hands a full part to the writer. Parts are encoded here, in parallel, not by the one writer.
func (c *Capture) spill() error {
	part, frames, rest := c.buffer, (*template.Frames)(nil), []byte(nil)
	if c.answer != nil {
		var n int
		if n, frames = c.answer.settle(part, false); n < len(part) {
			part, rest = part[:n], append(buffer.Get(len(part)-n), part[n:]...)
		}
	}
	w := &answerPart{store: c.store, capture: &c.recorded, part: blob.EncodeAnswer(part, frames), number: c.part}
	w.Held, w.Weight = true, int64(len(w.part))
	frames.Release()
	buffer.Put(part)
	c.buffer = rest
	c.part++
	return c.store.writer.Send(context.Background(), w)
}

// Finish commits the end of the exchange and returns after the commit. It must be called exactly once. It takes no
// context, because an end is recorded also when the client is gone. An error means that the end is not on record; the
// exchange then is, or becomes when the store is next opened, [record.OutcomeInterrupted].
func (c *Capture) Finish(end *record.Closing) error {
	if c.store == nil {
		return nil
	}
	var frames *template.Frames
	if c.answer != nil {
		own := *end
		_, frames = c.answer.settle(c.buffer, true)
		c.answer.redactClosing(&own)
		end = &own
		c.info.Redactions = c.answer.redactions(c.info.Redactions)
	}
	record.Close(c.info, end)
	c.info.ResponseSize, c.info.ResponseUnrecorded = c.size, c.beyond
	w := &closing{answerPart: answerPart{store: c.store, capture: &c.recorded, number: c.part}, info: record.Append(buffer.Get(1<<10), c.info), ended: c.info}
	w.Done = make(chan struct{})
	var steps []byte
	if len(c.buffer) > 0 {
		w.part, steps = blob.EncodeAnswerSteps(c.buffer, frames)
	}
	frames.Release()
	w.captured = c.handOver(steps, end.Answer)
	c.info = nil
	c.digestAtOnce(w)
	w.Weight = int64(len(w.info) + len(w.part))
	if err := c.store.writer.Send(context.Background(), w); err != nil {
		c.store.digester.release(w.captured)
		return err
	}
	<-w.Done
	return w.Err
}

// event describes the exchange's present state.
func (c *recorded) event(kind record.EventKind, outcome record.Outcome) record.Event {
	return record.Event{Kind: kind, Exchange: c.name, Session: c.sessionName, KeyID: c.key, Time: time.Now().UTC(), Account: c.account, Outcome: outcome}
}
