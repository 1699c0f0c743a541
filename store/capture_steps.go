package store

import (
	"github.com/mnemeproxy/mneme/store/conversation"
	"github.com/mnemeproxy/mneme/store/internal/blob"
	"github.com/mnemeproxy/mneme/store/internal/buffer"
	"github.com/mnemeproxy/mneme/store/internal/commit"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/record"
)

// A capture is three kinds of steps for the writer: the opening of the exchange, parts of its answer, and its closing.
// Each step frees its buffers when it settles, because the capture lives until the stream ends.

// opening puts an exchange that begins on record.
type opening struct {
	commit.Op
	store    *core
	capture  *recorded
	info     []byte     // the exchange's record, from the buffer pool
	body     *blob.Plan // of the request
	skeleton []byte     // of body, once it is built
	evidence *conversation.Evidence
}

// Build implements [commit.Step].
func (w *opening) Build() error {
	g, c := w.store.writing, w.capture
	w.skeleton = g.Blobs.AddBody(c.account, w.body)
	c.session, c.sessionName = g.Open(&w.Op, kv.ExchangeRef{Account: c.account, ID: c.id}, w.evidence)
	c.noted = g.noteOpen(c.account, c.id)
	g.announce(&w.Op, c.event(record.ExchangeCreated, record.OutcomeOpen))
	return nil
}

// Write implements [commit.Step].
func (w *opening) Write(b *commit.Batch) {
	g, c := w.store.writing, w.capture
	b.SetObjects(&w.Op)
	b.Together(int64(3 + len(w.Records())))
	b.Set(kv.AppendExchangeKey(g.Room(), kv.SpaceExchange, c.account, c.id), w.info)
	b.Apply(w.Records())
	b.Set(kv.AppendExchangeKey(g.Room(), kv.SpaceRequest, c.account, c.id), w.skeleton)
	if c.noted.first == c.id { // the first of a note to be committed, so that the note exists before any exchange it covers
		b.Set(c.noted.key(), c.noted.others)
	}
}

// Settle implements [commit.Step].
func (w *opening) Settle(bool) {
	w.capture.settle(w.Err)
	if w.Err == nil {
		w.capture.begun = true
		w.store.count.captured.Add(1)
	} else {
		w.store.count.failed.Add(1)
	}
	w.body.Release()
	buffer.Put(w.info)
	w.body, w.info, w.skeleton, w.evidence = nil, nil, nil, nil
}

// answerPart puts a part of an answer on record.
type answerPart struct {
	commit.Op
	store   *core
	capture *recorded
	part    []byte // encoded, from the buffer pool; may be nil
	number  uint32 // of part
}

// Build implements [commit.Step].
func (w *answerPart) Build() error {
	if w.capture.failed == nil && w.part != nil {
		w.store.writing.Blobs.AddPart(w.capture.account, w.capture.id, w.number, w.part)
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
	digest     change           // of the exchange; nil: the digester makes one
	undigested *Change          // for the digester to work on; may be nil
	noted      bool             // the note of open exchanges no longer counts it
}

// Build implements [commit.Step]. An exchange of which a part could not be written is on record as interrupted.
func (w *closing) Build() error {
	g, c := w.store.writing, w.capture
	if c.abandoned() {
		return c.failed
	}
	if c.failed != nil {
		w.store.digester.release(w.captured)
		w.captured, w.digest = nil, nil
		w.ended.Outcome = record.OutcomeInterrupted
		w.info = record.Append(w.info[:0], w.ended)
	}
	g.announce(&w.Op, c.event(record.ExchangeCompleted, w.ended.Outcome))
	w.undigested = g.closeExchange(&w.Op, kv.ExchangeRef{Account: c.account, ID: c.id}, w.ended, w.digest)
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
	b.Set(kv.AppendExchangeKey(w.store.writing.Room(), kv.SpaceExchange, c.account, c.id), w.info)
	b.Apply(w.Records())
	w.Err, w.noted = c.failed, true
	if c.noted.running--; c.noted.running == 0 {
		b.Delete(c.noted.key())
	}
}

// Settle implements [commit.Step]. The note of an end that could not be committed stays until the store is reopened.
func (w *closing) Settle(committed bool) {
	if w.noted && !committed {
		w.capture.noted.running++
	}
	w.store.digester.release(w.captured)
	buffer.Put(w.info)
	w.captured, w.undigested, w.digest, w.info = nil, nil, nil, nil
	w.answerPart.Settle(committed)
}
