package store

import (
	"bytes"
	"errors"
	"runtime"
	"sync"

	"github.com/dgraph-io/badger/v4"
	"github.com/zeebo/blake3"

	"github.com/mnemeproxy/mneme/store/internal/kv"
)

const (
	splitFrom    = 2 << 10  // blocks of this size are searched for long strings
	longString   = 1 << 10  // a string of this size becomes a block of its own
	parallelFrom = 64 << 10 // bytes to encode from which more than one core is used
)

// markPieces is the user meta byte of blocks encoded as pieces.
const markPieces = 1

// object is a block, node or answer part on its way to the store.
type object struct {
	key   []byte
	raw   []byte // to be encoded; nil when value is set
	value []byte
	mark  byte // kept beside the key: markPieces, so that a sweep finds such blocks without reading values
}

// gathering is what a group of operations adds to the store. The writer owns it and uses it again.
type gathering struct {
	store   *core
	tx      *badger.Txn // for looking up what is stored
	objects []object
	fresh   map[kv.ObjectRef]byte // blocks and nodes among objects, and their marks
	recent  recentRecords         // put by the group's operations so far, and by groups before
	changes []*Change             // for the feed
	notes   []*openNote           // of the exchanges that begin, one for an account
	sweep   *sweepWatch           // of the sweep that is under way, nil if none is
	err     error                 // first failure of a look-up

	uncertain bool // recent holds what was not written
}

func newGathering(s *core) *gathering {
	return &gathering{store: s, fresh: make(map[kv.ObjectRef]byte)}
}

func (g *gathering) reset() {
	if g.tx != nil {
		g.tx.Discard()
		g.tx = nil
	}
	clear(g.objects)
	g.objects = g.objects[:0]
	clear(g.fresh)
	if g.recent.age(); g.uncertain {
		g.recent, g.uncertain = recentRecords{}, false
	}
	clear(g.changes)
	g.changes = g.changes[:0]
	for _, n := range g.notes {
		n.others = nil
	}
	clear(g.notes)
	g.notes = g.notes[:0]
	g.err = nil
}

// stored reports whether a block or node is in the store already, or will be with this group.
func (g *gathering) stored(ref kv.ObjectRef) bool {
	if _, ok := g.fresh[ref]; ok {
		return true
	}
	key := ref.Key()
	if _, swept := g.recent.get(key); swept {
		return false
	}
	if g.store.known.has(ref) {
		g.touch(ref)
		return true
	}
	_, err := g.read().Get(key)
	if err == nil {
		g.store.known.add(ref)
		g.touch(ref)
		return true
	}
	if !errors.Is(err, badger.ErrKeyNotFound) && g.err == nil {
		g.err = err
	}
	return false
}

// read is a view of the store as it was before the group.
func (g *gathering) read() *badger.Txn {
	if g.tx == nil {
		g.tx = g.store.db.NewTransaction(false)
	}
	return g.tx
}

func (g *gathering) add(ref kv.ObjectRef, raw, value []byte) {
	o := object{key: ref.Key(), raw: raw, value: value}
	if ref.Space == kv.SpaceBlock && value != nil {
		o.mark = markPieces
	}
	g.fresh[ref] = o.mark
	g.recent.remove(o.key) // if a sweep has freed it
	g.objects = append(g.objects, o)
}

// addBlock adds a block unless it is stored. Long strings inside it become blocks of their own, so that a large text
// or picture is kept once however the message around it changes.
func (g *gathering) addBlock(account kv.AccountNumber, h kv.Hash, raw []byte) {
	ref := kv.Block(account, h)
	if g.stored(ref) {
		return
	}
	if len(raw) < splitFrom {
		g.add(ref, raw, nil)
		return
	}
	pieces := []byte{encodingPieces}
	rest, outside := raw, 0
	for {
		start, end := findLongString(rest, outside)
		if end == 0 {
			break
		}
		pieces = g.appendPiece(pieces, account, rest[:start])
		pieces = g.appendPiece(pieces, account, rest[start:end])
		rest, outside = rest[end:], 1 // behind the closing quote
	}
	if len(rest) == len(raw) {
		g.add(ref, raw, nil)
		return
	}
	g.add(ref, nil, g.appendPiece(pieces, account, rest))
}

// appendPiece appends bytes as a literal or as a block that is not taken apart any further.
func (g *gathering) appendPiece(dst []byte, account kv.AccountNumber, raw []byte) []byte {
	it := newItem(raw, 0)
	if it.block {
		it.hash = blake3.Sum256(raw)
	}
	switch ref := kv.Block(account, it.hash); {
	case !it.block:
	case !g.stored(ref):
		g.add(ref, raw, nil)
	case g.mark(ref) == markPieces: // the same bytes came as a block before, and were taken apart then
		it = item{text: raw}
	}
	return it.append(dst)
}

// mark gives the mark of an object that is stored.
func (g *gathering) mark(ref kv.ObjectRef) byte {
	if mark, fresh := g.fresh[ref]; fresh {
		return mark
	}
	stored, err := g.read().Get(ref.Key())
	if err != nil {
		if g.err == nil {
			g.err = err
		}
		return 0
	}
	return stored.UserMeta()
}

// findLongString gives the first JSON string of text that has at least longString bytes, without its quotes; end is 0
// if there is none. It looks from a place on that is outside of any string.
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

// escaped reports whether a quote that follows text is escaped: an odd number of backslashes stands before it.
func escaped(text []byte) bool {
	n := 0
	for n < len(text) && text[len(text)-1-n] == '\\' {
		n++
	}
	return n%2 == 1
}

// addBody adds what a plan's body has that is not stored yet, and gives its skeleton.
func (g *gathering) addBody(account kv.AccountNumber, p *bodyPlan) (skeleton []byte) {
	skeleton = append(make([]byte, 0, 512), piecesVersion)
	for i := range p.parts {
		part := &p.parts[i]
		if part.known > 0 {
			g.touch(kv.Node(account, part.node))
		} else if !part.between {
			g.findNode(account, &part.run)
		}
		for j := range part.items {
			switch it := &part.items[j]; {
			case it.data != nil:
				g.addBlock(account, it.hash, it.data)
			case it.block:
				g.touch(kv.Block(account, it.hash))
			}
		}
		tail := part.items
		if !part.between {
			tail = g.addNode(account, &part.run)
		}
		if part.known > 0 {
			skeleton = append(append(skeleton, pieceNode), part.node[:]...)
		}
		for j := range tail {
			skeleton = tail[j].append(skeleton)
		}
	}
	return skeleton
}

// findNode looks in the store for the longest node of a run of which none is known. A skeleton names as few items as a
// tail has as well without one.
func (g *gathering) findNode(account kv.AccountNumber, r *run) {
	if len(r.items) < tailItems {
		return
	}
	for k := len(r.items); k > 0 && r.known == 0; k-- { // none known: every item is there
		if node := r.items[k-1].chain; g.stored(kv.Node(account, node)) {
			r.known, r.node, r.items = k, node, r.items[k:]
		}
	}
}

// addNode makes run.known and run.node cover all of the run but its tail, adding a node where needed, and gives the
// items that the skeleton has to name.
func (g *gathering) addNode(account kv.AccountNumber, r *run) (tail []item) {
	fresh := len(r.items) - tailItems
	switch {
	case fresh < 0:
		return r.items
	case fresh == 0: // the same tail for the second time, or a short run such as system blocks: it will come again
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
	g.add(kv.Node(account, r.node), nil, append([]byte{piecesVersion}, node...))
	return r.items[fresh:]
}

// encode encodes all objects, on every core when there is much to do.
func (g *gathering) encode() {
	var todo []*object
	size := 0
	for i := range g.objects {
		if o := &g.objects[i]; o.value == nil {
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
func encodeEvery(objects []*object, first, step int) {
	for i := first; i < len(objects); i += step {
		objects[i].value = encodeBytes(objects[i].raw)
	}
}
