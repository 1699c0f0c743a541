package recording

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/conversation"
	"github.com/mnemeproxy/mneme/store/internal/blob"
	"github.com/mnemeproxy/mneme/store/internal/buffer"
	"github.com/mnemeproxy/mneme/store/internal/identity"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/internal/turns"
	"github.com/mnemeproxy/mneme/store/internal/writing"
	"github.com/mnemeproxy/mneme/store/record"
)

// Recorder puts exchanges on record.
type Recorder struct {
	Options
	counters
}

// Options are what a recorder needs of the store.
type Options struct {
	Writer      *writing.Writer
	Digester    *turns.Digester
	Accounts    *identity.AccountTable
	Credentials *identity.Credentials // are masked
	Planner     *blob.Planner
	IDs         *kv.IDSource
	Stream      func(surface string) record.StreamReader // of streamed answers; may be nil
	Sheds       bool                                     // what cannot be recorded now passes without a record, and is counted
	AnswerBytes int64                                    // recorded of one answer; the rest only passes
}

// counters add up to the requests that the store was asked to record.
type counters struct {
	captured, shed, off, refused, failed atomic.Int64
}

// Counts are counts since the store was opened: every admitted exchange is one of Captured, Shed and Off.
type Counts struct {
	Captured int64 // openings on record
	Shed     int64 // passed without a record under pressure
	Off      int64 // passed without a record because capture is off
	Refused  int64 // refused for lack of disk space or queue room
	Failed   int64 // refused because the opening could not be committed
}

// Counts returns the counts so far.
func (r *Recorder) Counts() Counts {
	return Counts{Captured: r.captured.Load(), Shed: r.shed.Load(), Off: r.off.Load(), Refused: r.refused.Load(), Failed: r.failed.Load()}
}

// Off returns a capture that records nothing, for exchanges that are not to be captured, and counts it.
func (r *Recorder) Off() *Capture {
	r.off.Add(1)
	c := new(Capture)
	c.begin(nil, kv.ExchangeID(r.IDs.Next(time.Now())))
	return c
}

func (c *Capture) begin(r *Recorder, id kv.ExchangeID) { c.recorder, c.id, c.name = r, id, id.String() }

// Begin hands the opening of an exchange to the writer, without waiting for the commit, which comes within a few
// milliseconds. If the queue is full it waits, or with [Options.Sheds] returns a capture that records nothing. Errors are
// [codec.Error]s of kind storage.
func (r *Recorder) Begin(ctx context.Context, o *record.Opening) (*Capture, error) {
	account, ok := r.Accounts.Find(o.Account)
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
	c.begin(r, kv.ExchangeID(r.IDs.Next(started)))
	c.account = account
	if err := r.Writer.Gate.Admits(); err != nil {
		return r.passOrRefuse(c, err)
	}
	redactor := o.Redactor
	if redactor == nil {
		redactor = r.Credentials.Redactor(o.Account)
	}
	own := *o
	own.Redact(redactor)
	own.Detach()
	o = &own
	c.info = record.InfoOf(c.name, o, started)
	c.key = c.info.KeyID
	c.answer = r.newMask(c.info.Surface, redactor)
	r.Writer.Planning.RLock()
	defer r.Writer.Planning.RUnlock()
	if now, ok := r.Accounts.Find(o.Account); !ok || now != account {
		return nil, codec.Errorf(codec.KindStorage, "account %q was deleted", o.Account)
	}
	w.of, w.capture, w.evidence = r, &c.recorded, conversation.EvidenceOf(o, c.info)
	w.info, w.body = record.Append(buffer.Get(1<<10), c.info), r.Planner.Plan(account, bodyOf(o))
	w.Held, w.Weight, w.Done = true, int64(len(w.info))+w.body.Held, make(chan struct{})
	c.opening = w
	last := w.body.Last // the plan belongs to the writer once it is sent
	if r.Sheds {
		if sent, err := r.Writer.TrySend(w); err != nil || !sent {
			return r.passOrRefuse(c, err)
		}
		c.kept = r.Digester.Keep(account, c.info.Surface, o, last)
		return c, nil
	}
	if err := r.Writer.Send(ctx, w); err != nil {
		if ctx.Err() == nil { // otherwise the client has left, and was not refused
			r.refused.Add(1)
		}
		return nil, kv.AsStorageError(err, "the store did not take the exchange in time; try again in a moment")
	}
	c.kept = r.Digester.Keep(account, c.info.Surface, o, last)
	return c, nil
}

// bodyOf returns the body of an opening with the places where it may be cut.
func bodyOf(o *record.Opening) *blob.Body {
	body := &blob.Body{Bytes: o.Body, Blocks: o.Spans, Prints: o.Prints}
	if len(o.Body) >= turns.PrefixesFrom {
		body.Conversation = o.Items
	}
	return body
}

// passOrRefuse ends Begin for an exchange that cannot be recorded.
func (r *Recorder) passOrRefuse(c *Capture, cause error) (*Capture, error) {
	if r.Sheds {
		r.shed.Add(1)
		return &Capture{recorded: recorded{id: c.id, name: c.name}, shed: true}, nil
	}
	r.refused.Add(1)
	return nil, cause
}
