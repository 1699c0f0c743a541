package recording

import (
	"context"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/template"
	"github.com/mnemeproxy/mneme/store/internal/blob"
	"github.com/mnemeproxy/mneme/store/internal/buffer"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/internal/turns"
	"github.com/mnemeproxy/mneme/store/internal/writing"
	"github.com/mnemeproxy/mneme/store/record"
)

// PartSize is how many bytes of an answer are held in memory before they go to the store.
const PartSize = 256 << 10

// shortAnswer is the size up to which an encoded answer is kept in the record of its exchange: the database has one value
// fewer, and lists, which read whole records, do not read much more.
const shortAnswer = 768

// Capture is the record of one exchange in progress. The goroutine that pumps the answer calls its methods, one at a
// time; ID, Shed and Recorded may be called from others.
type Capture struct {
	recorded
	recorder *Recorder // nil: passes without a record
	shed     bool
	info     *record.ExchangeInfo // until the end of the exchange is handed to the writer
	opening  *opening
	buffer   []byte     // answer bytes not yet handed to the writer, from the buffer pool
	part     uint32     // number of the next part
	size     int64      // answer bytes recorded so far
	beyond   int64      // answer bytes not recorded, because the answer is too long
	kept     turns.Kept // of the request, for the digester
	answer   *mask      // nil: nothing is masked
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
	begun       bool              // the opening is on record
	noted       *writing.OpenNote // its note of open exchanges
	failed      error             // the first write error
}

// abandoned reports whether the opening could not be committed, so that there is nothing to add to.
func (c *recorded) abandoned() bool { return c.failed != nil && !c.begun }

// settle notes the first error.
func (c *recorded) settle(err error) {
	if c.failed == nil {
		c.failed = err
	}
}

// ID returns the exchange's id. Ids ascend with the time the exchange began.
func (c *Capture) ID() string { return c.name }

// SessionID returns the id of the exchange's session once [Capture.Recorded] has returned without an error; "" before
// that, and for an exchange that is not recorded.
func (c *Capture) SessionID() string {
	if c.recorder == nil {
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
	if c.recorder == nil {
		return nil
	}
	select {
	case <-c.opening.Done:
		return c.opening.Err
	default:
		c.recorder.Writer.Hurry()
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
	if c.recorder == nil {
		return len(p), nil
	}
	written := len(p)
	if room := c.recorder.AnswerBytes - c.size; int64(written) > room {
		c.beyond += int64(written) - room
		p = p[:room]
	}
	c.size += int64(len(p))
	for len(p) > 0 {
		if len(c.buffer)+len(p) > cap(c.buffer) && cap(c.buffer) < PartSize {
			grown := buffer.Get(min(len(c.buffer)+len(p), PartSize))
			grown = append(grown, c.buffer...)
			if c.buffer != nil {
				buffer.Put(c.buffer)
			}
			c.buffer = grown
		}
		n := min(len(p), cap(c.buffer)-len(c.buffer))
		c.buffer = append(c.buffer, p[:n]...)
		p = p[n:]
		if len(c.buffer) >= PartSize {
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
	w := &answerPart{of: c.recorder, capture: &c.recorded, part: blob.EncodeAnswer(part, frames), number: c.part}
	w.Held, w.Weight = true, int64(len(w.part))
	frames.Release()
	buffer.Put(part)
	c.buffer = rest
	c.part++
	return c.recorder.Writer.Send(context.Background(), w)
}

// Finish commits the end of the exchange and returns after the commit. It must be called exactly once. It takes no
// context, because an end is recorded also when the client is gone. An error means that the end is not on record; the
// exchange then is, or becomes when the store is next opened, [record.OutcomeInterrupted].
func (c *Capture) Finish(end *record.Closing) error {
	if c.recorder == nil {
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
	w := &closing{answerPart: answerPart{of: c.recorder, capture: &c.recorded, number: c.part}, ended: c.info}
	w.Done = make(chan struct{})
	var steps []byte
	if len(c.buffer) > 0 {
		w.part, steps = blob.EncodeAnswerSteps(c.buffer, frames)
	}
	if c.part == 0 && len(w.part) <= shortAnswer {
		c.info.Part = w.part
	}
	if w.info = record.Append(buffer.Get(1<<10+len(c.info.Part)), c.info); c.info.Part != nil {
		buffer.Put(w.part)
		c.info.Part, w.part = nil, nil
	}
	frames.Release()
	w.captured = c.handOver(steps, end.Answer)
	var done bool
	if w.digest, done = c.recorder.Digester.AtOnce(c.at(), w.captured, c.inOrder); done {
		w.captured = nil
	}
	c.info = nil
	w.Weight = int64(len(w.info) + len(w.part))
	if err := c.recorder.Writer.Send(context.Background(), w); err != nil {
		c.recorder.Digester.Release(w.captured)
		return err
	}
	<-w.Done
	return w.Err
}

// event describes the exchange's present state.
func (c *recorded) event(kind record.EventKind, outcome record.Outcome) record.Event {
	return record.Event{Kind: kind, Exchange: c.name, Session: c.sessionName, KeyID: c.key, Time: time.Now().UTC(), Account: c.account, Outcome: outcome}
}

// handOver hands what is in memory of the ended exchange to the digester. steps are those of the answer's last part, if it
// is stored as steps; read is what the answer says, if that was read before.
func (c *Capture) handOver(steps []byte, read *codec.Answer) *record.Exchange {
	if c.beyond > 0 || c.answer.masked() {
		read = nil
	}
	x := record.Exchange{ExchangeInfo: *c.info, RawResponse: c.buffer, Reader: c.answer.reader(), Answer: read, Stored: steps}
	kept := c.kept
	c.kept, c.buffer, c.answer = turns.Kept{}, nil, nil
	return c.recorder.Digester.HandOver(kept, x, c.part == 0)
}

// inOrder reports whether all that ended before in the session is digested; also while the session is not known.
func (c *Capture) inOrder() bool {
	select {
	case <-c.opening.Done:
		return c.session != (kv.SessionID{}) && c.recorder.Digester.Feed.Digested(kv.SessionRef{Account: c.account, ID: c.session})
	default:
		return true
	}
}

// at identifies the exchange.
func (c *recorded) at() kv.ExchangeRef { return kv.ExchangeRef{Account: c.account, ID: c.id} }
