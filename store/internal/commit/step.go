package commit

// Entry is a key and its value on their way to the store; a nil value deletes. Neither may be changed afterwards.
type Entry struct{ Key, Value []byte }

// Step is what an operation does on the writer's goroutine. A type becomes one by embedding [Op].
type Step interface {
	// Build looks up what the operation depends on and puts what it adds. An operation that fails puts nothing before.
	Build() error
	// Write adds what was put to the transaction, the records that make it visible last and together.
	Write(b *Batch)
	// Settle follows the commit of the group, or its failure, and precedes Done. Err is set.
	Settle(committed bool)
	// Records returns what was put; nil if the operation failed.
	Records() []Entry

	op() *Op
}

// Op is the part of an operation that the writer keeps. Its memory may be reused once it is settled, except Err.
type Op struct {
	Frees  bool          // it frees space, and may use the reserve for that
	Held   bool          // no caller waits for it yet; see [Writer.Hurry]
	Weight int64         // bytes that it holds in memory besides itself
	Done   chan struct{} // closed when the operation is committed or has failed; may be nil
	Err    error         // valid once Done is closed

	records  []Entry
	from, to int // its range of the group's objects
}

func (o *Op) op() *Op { return o }

// Records returns what the operation has put; nil if it failed.
func (o *Op) Records() []Entry {
	if o.Err != nil {
		return nil
	}
	return o.records
}

// Add adds records that no later operation looks up.
func (o *Op) Add(records ...Entry) { o.records = append(o.records, records...) }

// Write adds what the operation has put to the transaction.
func (o *Op) Write(b *Batch) {
	if o.Err != nil {
		return
	}
	b.SetObjects(o)
	b.Together(int64(len(o.records)))
	b.Apply(o.records)
}

// Settle does nothing.
func (o *Op) Settle(bool) {}
