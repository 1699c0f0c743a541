package store

import (
	"cmp"

	"github.com/mnemeproxy/mneme/store/conversation"
	"github.com/mnemeproxy/mneme/store/internal/blob"
	"github.com/mnemeproxy/mneme/store/internal/buffer"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/record"
)

// change is an operation of the writer that looks up records in the commit group and replaces them.
type change func(g *commitGroup, w *operation) error

// operation is one operation for the writer: either the next step of a capture, or a change.
type operation struct {
	capture *recorded
	info    []byte               // the exchange's record, from the buffer pool; nil for a part
	body    *blob.Plan           // request bytes, with the opening
	part    []byte               // of the answer, encoded
	number  uint32               // of part
	ended   *record.ExchangeInfo // with the closing: the whole exchange
	noted   bool                 // the note of open exchanges no longer counts it

	evidence *conversation.Evidence // of the session, with the opening

	skeleton   []byte           // of body, once the writer has built it
	records    []entry          // put with the exchange's record, or by change
	captured   *record.Exchange // with the closing, until the feed has it; may be nil
	digest     change           // with the closing: the digest of its exchange; nil: the digester makes one
	undigested *Change          // with the closing: the change for the digester to work on; may be nil
	event      record.Event     // published after the commit, if it has a kind
	digested   record.Event     // as above
	from, to   int              // the operation's range of the batch's objects

	change change
	frees  bool // change frees space, and may use the reserve for that

	weight int64         // in the byte budget of the queue
	done   chan struct{} // closed when the operation is committed or has failed
	err    error         // valid once done is closed
}

// abandoned reports whether the operation belongs to an exchange whose opening could not be committed, so that there is
// nothing to add it to.
func (w *operation) abandoned() bool {
	return w.capture != nil && w.capture.failed != nil && !w.capture.begun
}

// runWriter commits queued operations, group by group, until the queue is closed and empty.
func (s *core) runWriter() {
	defer close(s.queue.drained)
	together := newGathering(&s.queue)
	g := newCommitGroup(s)
	for group := together.next(); group != nil; group = together.next() {
		s.commit(g, group)
		g.reset()
	}
	s.commit(g, []*operation{{change: s.storeAllSessions, frees: true}}) // if it fails, they are counted again at the next start
	g.reset()
}

// commit writes a group and acknowledges it.
func (s *core) commit(g *commitGroup, group []*operation) {
	var err error
	if group = s.affordable(group); len(group) > 0 {
		if err = s.write(g, group); err != nil {
			g.uncertain = true
			Feed{s}.announce(nil, false)
			s.log.Error("commit to the store failed", "error", err)
			err = kv.StorageError(err, "the exchange could not be put on record; see the log of the proxy")
		}
	}
	for _, w := range group {
		if err != nil {
			w.err = err
			w.stayOpen()
		}
		s.acknowledge(w)
	}
}

// affordable fails the operations of a group that the volume has no room for, and returns the others.
func (s *core) affordable(group []*operation) []*operation {
	err := s.disk.allows()
	if err == nil {
		return group
	}
	room := s.disk.allowsFreeing() == nil
	var afforded []*operation
	for _, w := range group {
		if room && w.frees {
			afforded = append(afforded, w)
			continue
		}
		w.err = err
		w.stayOpen()
		s.acknowledge(w)
	}
	return afforded
}

// write builds what a group adds, encodes it, and commits it in the order of the operations.
func (s *core) write(g *commitGroup, group []*operation) error {
	defer func() {
		if g.erased { // or part of it, if the commit failed
			s.recollected.forget()
		}
	}()
	for _, w := range group {
		w.from, w.to = g.blobs.Len(), g.blobs.Len()
		if w.change != nil {
			w.err = w.change(g, w)
			g.uncertain = g.uncertain || w.err != nil && len(w.records) > 0
		}
		if w.abandoned() {
			w.err = w.capture.failed
			continue
		}
		if w.body != nil {
			w.skeleton = g.blobs.AddBody(w.capture.account, w.body)
			g.openSession(w)
			w.capture.noted = g.noteOpen(w.capture.account, w.capture.id)
			w.event = w.capture.event(record.ExchangeCreated, record.OutcomeOpen)
		}
		if w.ended != nil {
			if w.capture.failed != nil { // an earlier part could not be written
				s.digester.release(w.captured)
				w.captured, w.digest = nil, nil
				w.ended.Outcome = record.OutcomeInterrupted
				w.info = record.Append(w.info[:0], w.ended)
			}
			g.closeSession(w, w.capture.account, w.capture.id, w.ended)
			w.event = w.capture.event(record.ExchangeCompleted, w.ended.Outcome)
		}
		if c := w.capture; w.part != nil && c.failed == nil {
			g.blobs.AddPart(c.account, c.id, w.number, w.part)
		}
		w.to = g.blobs.Len()
	}
	if err := cmp.Or(g.err, g.blobs.Err()); err != nil {
		return err
	}
	g.blobs.Encode()
	s.feed.coming.Store(s.feed.last)
	b := g.batch()
	defer b.discard()
	b.apply(g.logRecords())
	for _, w := range group {
		if s.apply(g, &b, w); b.err != nil {
			return b.err
		}
	}
	if err := b.commit(); err != nil {
		return err
	}
	g.entries = b.entries.emptied()
	g.blobs.Committed()
	if !g.uncertain {
		s.ahead.committed(b.version)
	}
	for _, w := range group {
		if w.undigested != nil && w.err == nil {
			w.undigested.captured, w.captured = w.captured, nil
		}
	}
	Feed{s}.announce(g.changes, true)
	s.announce(g, group)
	return nil
}

// announce tells subscribers what was committed.
func (s *core) announce(g *commitGroup, group []*operation) {
	s.shipping.announce()
	for _, w := range group {
		if w.err != nil {
			continue
		}
		for _, r := range w.records {
			s.roster.Note(r.key)
		}
		for _, e := range [...]record.Event{w.event, w.digested} {
			if e.Kind != "" {
				g.events = append(g.events, e)
			}
		}
	}
	if len(g.events) > 0 {
		s.events.Publish(g.events)
	}
}

func (s *core) acknowledge(w *operation) {
	if c := w.capture; c != nil && w.err != nil && c.failed == nil {
		c.failed = w.err
	}
	if w.info != nil && w.ended == nil {
		if w.err == nil {
			w.capture.begun = true
			s.count.captured.Add(1)
		} else {
			s.count.failed.Add(1)
		}
	}
	s.digester.release(w.captured)
	w.body.Release()
	buffer.Put(w.info)
	buffer.Put(w.part)
	w.captured, w.undigested, w.digest, w.body, w.evidence, w.skeleton, w.records, w.info, w.part = nil, nil, nil, nil, nil, nil, nil, nil, nil // captures live as long as their streams
	s.queue.release(w)
	if w.done != nil {
		close(w.done)
	}
}

// apply adds one operation to the batch. The records that make its data visible come last and together.
func (s *core) apply(g *commitGroup, b *batch, w *operation) {
	objects := g.blobs.Objects(w.from, w.to)
	if w.abandoned() {
		return
	}
	if w.change != nil {
		if w.err != nil {
			return
		}
		b.setObjects(objects)
		b.together(int64(len(w.records)))
		b.apply(w.records)
		return
	}
	c := w.capture
	b.setObjects(objects)
	w.err = c.failed
	if w.info == nil {
		return
	}
	b.together(int64(3 + len(w.records)))
	b.set(kv.AppendExchangeKey(g.room(), kv.SpaceExchange, c.account, c.id), w.info)
	b.apply(w.records)
	if w.ended != nil {
		w.noted = true
		if c.noted.running--; c.noted.running == 0 {
			b.delete(c.noted.key())
		}
		return
	}
	b.set(kv.AppendExchangeKey(g.room(), kv.SpaceRequest, c.account, c.id), w.skeleton)
	if c.noted.first == c.id { // the first of a note to be committed, so that the note exists before any exchange it covers
		b.set(c.noted.key(), c.noted.others)
	}
}

// stayOpen undoes the end of an exchange that could not be committed: its note stays until the store is reopened.
func (w *operation) stayOpen() {
	if w.noted {
		w.capture.noted.running++
	}
}
