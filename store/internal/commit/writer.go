package commit

import (
	"context"
	"log/slog"

	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// Rooms keep something of their own with each commit. The writer calls them.
type Rooms interface {
	// Before returns what is committed before a group's operations, which are all built.
	Before() []Entry
	// Written follows a commit, of that version of the database, and precedes the acknowledgment of its operations.
	// uncertain means that some were built and have failed.
	Written(version uint64, group []Step, uncertain bool)
	// Failed follows a commit of which none, some or all may be in the store.
	Failed()
	// Settled follows the acknowledgment of a group. forgotten means that records that were put may not be stored.
	Settled(forgotten bool)
}

// Writer commits operations, group by group.
type Writer struct {
	Group *Group
	Gate  *Gate

	rooms Rooms
	log   *slog.Logger
	queue queue
}

// NewWriter returns a writer with a queue of so many bytes. Its Group and Gate are set before [Writer.Run].
func NewWriter(queueBytes int64, log *slog.Logger) *Writer {
	return &Writer{log: log, queue: newQueue(queueBytes)}
}

// Run commits queued operations until [Writer.Close], and last when nothing is left.
func (w *Writer) Run(rooms Rooms, last Step) {
	defer close(w.queue.drained)
	w.rooms = rooms
	together := newGathering(&w.queue)
	for group := together.next(); group != nil; group = together.next() {
		w.commit(group)
	}
	w.commit([]Step{last})
}

// Send puts an operation into the writer's queue, waiting for room.
func (w *Writer) Send(ctx context.Context, s Step) error { return w.queue.send(ctx, s) }

// TrySend is Send without waiting.
func (w *Writer) TrySend(s Step) (sent bool, err error) { return w.queue.trySend(s) }

// Do sends an operation with a Done and waits until it is committed.
func (w *Writer) Do(ctx context.Context, s Step) error {
	if err := w.queue.send(ctx, s); err != nil {
		return err
	}
	<-s.op().Done
	return s.op().Err
}

// Hurry reports that a caller waits for an operation that may be held.
func (w *Writer) Hurry() { w.queue.hurry.Notify() }

// Queued returns the number of operations in the queue.
func (w *Writer) Queued() int { return len(w.queue.writes) }

// Close admits no more operations and waits until Run has ended. It reports whether the writer was open.
func (w *Writer) Close() bool {
	open := w.queue.close()
	<-w.queue.drained
	return open
}

// commit writes a group and acknowledges it.
func (w *Writer) commit(group []Step) {
	var err error
	if group = w.affordable(group); len(group) > 0 {
		if err = w.write(group); err != nil {
			w.Group.uncertain = true
			w.rooms.Failed()
			w.log.Error("commit to the store failed", "error", err)
			err = kv.StorageError(err, "the exchange could not be put on record; see the log of the proxy")
		}
	}
	for _, s := range group {
		if err != nil {
			s.op().Err = err
		}
		w.acknowledge(s, err == nil)
	}
	w.rooms.Settled(w.Group.Reset())
}

// affordable fails the operations of a group that the volume has no room for, and returns the others.
func (w *Writer) affordable(group []Step) []Step {
	err := w.Gate.Allows()
	if err == nil {
		return group
	}
	room := w.Gate.AllowsFreeing() == nil
	var afforded []Step
	for _, s := range group {
		if room && s.op().Frees {
			afforded = append(afforded, s)
			continue
		}
		s.op().Err = err
		w.acknowledge(s, false)
	}
	return afforded
}

// write builds what a group adds, encodes it, and commits it in the order of the operations.
func (w *Writer) write(group []Step) error {
	g := w.Group
	for _, s := range group {
		o := s.op()
		o.from = g.Blobs.Len()
		o.Err = s.Build()
		o.to = g.Blobs.Len()
		g.uncertain = g.uncertain || o.Err != nil && len(o.records) > 0
	}
	if err := g.Err(); err != nil {
		return err
	}
	g.Blobs.Encode()
	b := Batch{db: g.db, blobs: g.Blobs}
	defer b.Discard()
	b.Apply(w.rooms.Before())
	for _, s := range group {
		if s.Write(&b); b.err != nil {
			return b.err
		}
	}
	if err := b.Commit(); err != nil {
		return err
	}
	g.Blobs.Committed()
	w.rooms.Written(b.version, group, g.uncertain)
	return nil
}

func (w *Writer) acknowledge(s Step, committed bool) {
	s.Settle(committed)
	o := s.op()
	o.records = nil // an operation may live as long as its stream
	w.queue.release(o)
	if o.Done != nil {
		close(o.Done)
	}
}
