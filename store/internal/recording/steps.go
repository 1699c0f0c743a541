package recording

import (
	"github.com/mnemeproxy/mneme/store/conversation"
	"github.com/mnemeproxy/mneme/store/internal/blob"
	"github.com/mnemeproxy/mneme/store/internal/buffer"
	"github.com/mnemeproxy/mneme/store/internal/commit"
	"github.com/mnemeproxy/mneme/store/internal/feed"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/internal/writing"
	"github.com/mnemeproxy/mneme/store/record"
)

// A capture is three kinds of steps for the writer: the opening of the exchange, parts of its answer, and its closing.
// Each step frees its buffers when it settles, because the capture lives until the stream ends.

// opening puts an exchange that begins on record.
type opening struct {
	commit.Op
	of       *Recorder
	capture  *recorded
	info     []byte     // the exchange's record, from the buffer pool
	body     *blob.Plan // of the request
	skeleton []byte     // of body, once it is built
	evidence *conversation.Evidence
}

// Build implements [commit.Step].
func (w *opening) Build() error {
	g, c := w.of.Writer.Group, w.capture
	w.skeleton = g.Blobs.AddBody(c.account, w.body)
	c.session, c.sessionName = g.Sessions.Open(&w.Op, c.at(), w.evidence)
	c.noted = g.NoteOpen(c.account, c.id)
	g.Announce(&w.Op, c.event(record.ExchangeCreated, record.OutcomeOpen))
	return nil
}

// Write implements [commit.Step].
func (w *opening) Write(b *commit.Batch) {
	g, c := w.of.Writer.Group, w.capture
	b.SetObjects(&w.Op)
	b.Together(int64(3 + len(w.Records())))
	b.Set(kv.AppendExchangeKey(g.Room(), kv.SpaceExchange, c.account, c.id), w.info)
	b.Apply(w.Records())
	b.Set(kv.AppendExchangeKey(g.Room(), kv.SpaceRequest, c.account, c.id), w.skeleton)
	c.noted.Begin(b, c.id)
}

// Settle implements [commit.Step].
func (w *opening) Settle(bool) {
	w.capture.settle(w.Err)
	if w.Err == nil {
		w.capture.begun = true
		w.of.captured.Add(1)
	} else {
		w.of.failed.Add(1)
	}
	w.body.Release()
	buffer.Put(w.info)
	w.body, w.info, w.skeleton, w.evidence = nil, nil, nil, nil
}

// answerPart puts a part of an answer on record.
type answerPart struct {
	commit.Op
	of      *Recorder
	capture *recorded
	part    []byte // encoded, from the buffer pool; may be nil
	number  uint32 // of part
}

// Build implements [commit.Step].
func (w *answerPart) Build() error {
	if w.capture.failed == nil && w.part != nil {
		w.of.Writer.Group.Blobs.AddPart(w.capture.account, w.capture.id, w.number, w.part)
	}
	return w.capture.failed
}

// Settle implements [commit.Step].
func (w *answerPart) Settle(bool) {
	w.capture.settle(w.Err)
	buffer.Put(w.part)
	w.part = nil
}

// closing puts the end of an exchange on record, with the last part of its answer.
type closing struct {
	answerPart
	info  []byte               // the exchange's record, from the buffer pool
	ended *record.ExchangeInfo // the whole exchange

	captured   *record.Exchange // until the feed has it; may be nil
	digest     writing.Change   // of the exchange; nil: the digester makes one
	undigested *feed.Change     // for the digester to work on; may be nil
	noted      bool             // the note of open exchanges no longer counts it
}

// Build implements [commit.Step]. An exchange of which a part could not be written is on record as interrupted.
func (w *closing) Build() error {
	g, c := w.of.Writer.Group, w.capture
	if c.abandoned() {
		return c.failed
	}
	if c.failed != nil {
		w.of.Digester.Release(w.captured)
		w.captured, w.digest = nil, nil
		w.ended.Outcome = record.OutcomeInterrupted
		w.info = record.Append(w.info[:0], w.ended)
	}
	g.Announce(&w.Op, c.event(record.ExchangeCompleted, w.ended.Outcome))
	w.undigested = g.CloseExchange(&w.Op, c.at(), w.ended, w.digest)
	_ = w.answerPart.Build() // Write returns its error, once the end is written
	return nil
}

// Write implements [commit.Step].
func (w *closing) Write(b *commit.Batch) {
	c := w.capture
	if c.abandoned() {
		return
	}
	b.SetObjects(&w.Op)
	b.Together(int64(3 + len(w.Records())))
	b.Set(kv.AppendExchangeKey(w.of.Writer.Group.Room(), kv.SpaceExchange, c.account, c.id), w.info)
	b.Apply(w.Records())
	w.Err, w.noted = c.failed, true
	c.noted.End(b)
}

// HandOver implements [writing.Closing].
func (w *closing) HandOver() {
	if w.undigested != nil && w.Err == nil {
		w.undigested.Captured, w.captured = w.captured, nil
	}
}

// Settle implements [commit.Step]. The note of an end that could not be committed stays until the store is reopened.
func (w *closing) Settle(committed bool) {
	if w.noted && !committed {
		w.capture.noted.Reopen()
	}
	w.of.Digester.Release(w.captured)
	buffer.Put(w.info)
	w.captured, w.undigested, w.digest, w.info = nil, nil, nil, nil
	w.answerPart.Settle(committed)
}
