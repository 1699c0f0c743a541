package blob

import (
	"bytes"
	"errors"
	"runtime"
	"sync"

	"github.com/dgraph-io/badger/v4"
	"github.com/zeebo/blake3"

	"github.com/mnemeproxy/mneme/store/internal/buffer"
	"github.com/mnemeproxy/mneme/store/internal/kv"
)

const (
	splitFrom    = 2 << 10  // blocks of this size are searched for long strings
	longString   = 1 << 10  // a string of this size becomes a separate block
	parallelFrom = 64 << 10 // bytes to encode from which more than one core is used
)

// markPieces is the user meta byte of blocks encoded as pieces.
const markPieces = 1

// Object is a block, a node or a part of an answer to be stored.
type Object struct {
	Key   []byte
	Value []byte // set once it is encoded
	Mark  byte   // stored as the key's user meta byte, so that a sweep finds blocks of pieces without reading values

	raw []byte // to be encoded; nil if Value is set
}

// Batch is what a group of operations adds to the store. The writer owns and reuses it.
type Batch struct {
	known   *Known
	read    func() *badger.Txn
	objects []Object
	fresh   map[kv.ObjectRef]byte     // blocks and nodes among objects, and their marks
	freed   map[kv.ObjectRef]struct{} // deleted by the group
	sweep   *sweepWatch               // of the running sweep, nil if there is none
	sought  []byte                    // room for a key to be looked up
	err     error
}

// NewBatch returns a batch that looks up stored objects in known, and in the transaction of read: the store as it was
// before the group.
func NewBatch(known *Known, read func() *badger.Txn) *Batch {
	return &Batch{known: known, read: read, fresh: make(map[kv.ObjectRef]byte), freed: make(map[kv.ObjectRef]struct{})}
}

// Reset empties the batch for the next group. A watched sweep continues.
func (b *Batch) Reset() {
	clear(b.objects)
	b.objects = b.objects[:0]
	clear(b.fresh)
	clear(b.freed)
	b.err = nil
}

// Err returns the first lookup error. Whatever was added since may be wrong.
func (b *Batch) Err() error { return b.err }

// Len returns how many objects were added.
func (b *Batch) Len() int { return len(b.objects) }

// Objects returns those added from one [Batch.Len] to another; they are encoded after [Batch.Encode].
func (b *Batch) Objects(from, to int) []Object { return b.objects[from:to] }

// Committed notes that the group is committed.
func (b *Batch) Committed() {
	for ref := range b.fresh {
		b.known.Put(ref, struct{}{})
	}
}

// Stored reports whether a block or node is in the store already, or will be with this group.
func (b *Batch) Stored(ref kv.ObjectRef) bool {
	if _, ok := b.fresh[ref]; ok {
		return true
	}
	if _, ok := b.freed[ref]; ok {
		return false
	}
	if b.known.Has(ref) {
		b.touch(ref)
		return true
	}
	_, err := b.get(ref)
	if err == nil {
		b.known.Put(ref, struct{}{})
		b.touch(ref)
		return true
	}
	if !errors.Is(err, badger.ErrKeyNotFound) {
		b.fail(err)
	}
	return false
}

// get looks up a stored object. The item is valid until the next call.
func (b *Batch) get(ref kv.ObjectRef) (*badger.Item, error) {
	b.sought = ref.AppendKey(b.sought[:0])
	return b.read().Get(b.sought)
}

func (b *Batch) fail(err error) {
	if b.err == nil {
		b.err = err
	}
}

// AddBody adds what is not stored yet of a plan's body, and returns its skeleton.
func (b *Batch) AddBody(account kv.AccountNumber, p *Plan) (skeleton []byte) {
	skeleton = append(buffer.Get(512), Version)
	for i := range p.parts {
		part := &p.parts[i]
		if part.known > 0 {
			b.touch(kv.Node(account, part.node))
		} else if !part.between {
			b.findNode(account, &part.run)
		}
		for j := range part.items {
			switch it := &part.items[j]; {
			case it.data != nil:
				b.addBlock(account, it.hash, it.data)
			case it.block:
				b.touch(kv.Block(account, it.hash))
			}
		}
		tail := part.items
		if !part.between {
			tail = b.addNode(account, &part.run)
		}
		if part.known > 0 {
			skeleton = append(append(skeleton, pieceNode), part.node[:]...)
		}
		for j := range tail {
			skeleton = tail[j].append(skeleton)
		}
	}
	if value := encodeShort(skeleton[1:]); value != nil {
		buffer.Put(skeleton)
		return value
	}
	return skeleton
}

// AddEncoded adds an object that is already encoded, from another store.
func (b *Batch) AddEncoded(ref kv.ObjectRef, value []byte) { b.add(ref, nil, value) }

// AddPart adds a part of an answer as [EncodeAnswer] returns it.
func (b *Batch) AddPart(account kv.AccountNumber, id kv.ExchangeID, number uint32, value []byte) {
	b.objects = append(b.objects, Object{Key: kv.PartKey(kv.SpaceResponse, account, id, number), Value: value})
}

func (b *Batch) add(ref kv.ObjectRef, raw, value []byte) {
	o := Object{Key: ref.Key(), raw: raw, Value: value}
	if ref.Space == kv.SpaceBlock && isPieces(value) {
		o.Mark = markPieces
	}
	b.fresh[ref] = o.Mark
	delete(b.freed, ref)
	b.objects = append(b.objects, o)
}

// addBlock adds a block unless it is stored. Long strings inside it become separate blocks, so that a large text or
// image is stored once however the message around it changes.
func (b *Batch) addBlock(account kv.AccountNumber, h kv.Hash, raw []byte) {
	ref := kv.Block(account, h)
	if b.Stored(ref) {
		return
	}
	if len(raw) < splitFrom {
		b.add(ref, raw, nil)
		return
	}
	pieces := []byte{encodingPieces}
	rest, outside := raw, 0
	for {
		start, end := findLongString(rest, outside)
		if end == 0 {
			break
		}
		pieces = b.appendPiece(pieces, account, rest[:start])
		pieces = b.appendPiece(pieces, account, rest[start:end])
		rest, outside = rest[end:], 1 // after the closing quote
	}
	if len(rest) == len(raw) {
		b.add(ref, raw, nil)
		return
	}
	b.add(ref, nil, b.appendPiece(pieces, account, rest))
}

// appendPiece appends bytes as a literal or as a block that is not split any further.
func (b *Batch) appendPiece(dst []byte, account kv.AccountNumber, raw []byte) []byte {
	it := newItem(raw, 0)
	if it.block {
		it.hash = blake3.Sum256(raw)
	}
	switch ref := kv.Block(account, it.hash); {
	case !it.block:
	case !b.Stored(ref):
		b.add(ref, raw, nil)
	case b.mark(ref) == markPieces: // the same bytes were a block before, and were split then
		it = item{text: raw}
	}
	return it.append(dst)
}

// mark returns the mark of a stored object.
func (b *Batch) mark(ref kv.ObjectRef) byte {
	if mark, fresh := b.fresh[ref]; fresh {
		return mark
	}
	stored, err := b.get(ref)
	if err != nil {
		b.fail(err)
		return 0
	}
	return stored.UserMeta()
}

// findNode looks in the store for the longest node of a run without a known one. A skeleton without nodes has as few
// items as a tail.
func (b *Batch) findNode(account kv.AccountNumber, r *run) {
	if len(r.items) < tailItems {
		return
	}
	for k := len(r.items); k > 0 && r.known == 0; k-- { // none known: all items are here
		if node := r.items[k-1].chain; b.Stored(kv.Node(account, node)) {
			r.known, r.node, r.items = k, node, r.items[k:]
		}
	}
}

// addNode makes run.known and run.node cover the whole run except its tail, adding a node if needed, and returns the
// items for the skeleton.
func (b *Batch) addNode(account kv.AccountNumber, r *run) (tail []item) {
	fresh := len(r.items) - tailItems
	switch {
	case fresh < 0:
		return r.items
	case fresh == 0: // the same tail for the second time, or a short run such as system blocks, which will come again
		fresh = len(r.items)
	}
	var node []byte
	if r.known > 0 {
		node = append(append(node, pieceNode), r.node[:]...)
	}
	for i := range r.items[:fresh] {
		node = r.items[i].append(node)
	}
	r.known += fresh
	r.node = r.items[fresh-1].chain
	b.add(kv.Node(account, r.node), nil, append([]byte{Version}, node...))
	return r.items[fresh:]
}

// findLongString returns the first JSON string of text with at least longString bytes, without its quotes; end is 0 if
// there is none. from must be outside of any string.
func findLongString(text []byte, from int) (start, end int) {
	for at := from; ; {
		open := bytes.IndexByte(text[at:], '"')
		if open < 0 {
			return 0, 0
		}
		start = at + open + 1
		for end = start; ; end++ {
			n := bytes.IndexByte(text[end:], '"')
			if n < 0 {
				return 0, 0
			}
			if end += n; !escaped(text[start:end]) {
				break
			}
		}
		if end-start >= longString {
			return start, end
		}
		at = end + 1
	}
}

// escaped reports whether a quote that follows text is escaped: an odd number of backslashes precedes it.
func escaped(text []byte) bool {
	n := 0
	for n < len(text) && text[len(text)-1-n] == '\\' {
		n++
	}
	return n%2 == 1
}

// Encode encodes all objects, on every core if there is much to do.
func (b *Batch) Encode() {
	var todo []*Object
	size := 0
	for i := range b.objects {
		if o := &b.objects[i]; o.Value == nil {
			todo = append(todo, o)
			size += len(o.raw)
		}
	}
	workers := 1
	if size >= parallelFrom {
		workers = min(runtime.GOMAXPROCS(0), len(todo))
	}
	var done sync.WaitGroup
	for n := 1; n < workers; n++ {
		done.Go(func() { encodeEvery(todo, n, workers) })
	}
	encodeEvery(todo, 0, workers)
	done.Wait()
}

// encodeEvery encodes every step-th object from the first.
func encodeEvery(objects []*Object, first, step int) {
	for i := first; i < len(objects); i += step {
		objects[i].Value = Encode(objects[i].raw)
	}
}
