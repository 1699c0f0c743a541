package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"sync"

	"github.com/dgraph-io/badger/v4"
	"github.com/klauspost/compress/zstd"
	"github.com/zeebo/blake3"
)

// The first byte of a block or of an answer's part says how the rest is encoded.
const (
	encodingRaw    = 0
	encodingZstd   = 1
	encodingPieces = 2 // blocks only: pieces, none of them a node
)

// markPieces is the user meta byte of blocks encoded as pieces.
const markPieces = 1

const (
	compressFrom = 128      // bytes; what is shorter does not get smaller
	splitFrom    = 2 << 10  // blocks of this size are searched for long strings
	longString   = 1 << 10  // a string of this size becomes a block of its own
	parallelFrom = 64 << 10 // bytes to compress from which more than one core is used
	maxDecoded   = 1 << 30  // bytes one value may decode to
)

var (
	compressor   = must(zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(1<<20), zstd.WithLowerEncoderMem(true)))
	decompressor = must(zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(maxDecoded)))
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err) // options that do not fit together: a mistake in this file
	}
	return v
}

func encodeBytes(raw []byte) []byte {
	if len(raw) >= compressFrom {
		packed := compressor.EncodeAll(raw, append(make([]byte, 0, len(raw)/2+64), encodingZstd))
		if len(packed) < len(raw) {
			return packed
		}
	}
	return append(append(make([]byte, 0, 1+len(raw)), encodingRaw), raw...)
}

// appendDecoded appends what encodeBytes was given.
func appendDecoded(dst, value []byte) ([]byte, error) {
	if len(value) == 0 {
		return nil, errors.New("empty value")
	}
	switch value[0] {
	case encodingRaw:
		return append(dst, value[1:]...), nil
	case encodingZstd:
		return decompressor.DecodeAll(value[1:], dst)
	}
	return nil, fmt.Errorf("unknown encoding %d", value[0])
}

// object is a block, node or answer part on its way to the store.
type object struct {
	key   []byte
	raw   []byte // to be encoded; nil when value is set
	value []byte
	mark  byte // kept beside the key: markPieces, so that a sweep finds such blocks without reading values
}

// gathering is what a group of operations adds to the store. The writer owns it and uses it again.
type gathering struct {
	store   *Store
	tx      *badger.Txn // for looking up what is stored
	objects []object
	fresh   map[objectRef]struct{} // blocks and nodes among objects
	pending map[string][]byte      // records of the group's operations so far, by key; nil is a deletion
	sweep   *sweepWatch            // of the sweep that is under way, nil if none is
	err     error                  // first failure of a look-up
}

func newGathering(s *Store) *gathering {
	return &gathering{store: s, fresh: make(map[objectRef]struct{}), pending: make(map[string][]byte)}
}

func (g *gathering) reset() {
	if g.tx != nil {
		g.tx.Discard()
		g.tx = nil
	}
	clear(g.objects)
	g.objects = g.objects[:0]
	clear(g.fresh)
	clear(g.pending)
	g.err = nil
}

// stored tells whether a block or node is in the store already, or will be with this group.
func (g *gathering) stored(ref objectRef) bool {
	if _, ok := g.fresh[ref]; ok {
		return true
	}
	key := ref.key()
	if _, swept := g.pending[string(key)]; swept {
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

func (g *gathering) add(ref objectRef, raw, value []byte) {
	o := object{key: ref.key(), raw: raw, value: value}
	if ref.space == spaceBlock && value != nil {
		o.mark = markPieces
	}
	g.fresh[ref] = struct{}{}
	g.objects = append(g.objects, o)
}

// addBlock adds a block unless it is stored. Long strings inside it become blocks of their own, so that a large text
// or picture is kept once however the message around it changes.
func (g *gathering) addBlock(account accountNumber, h hash, raw []byte) {
	ref := objectRef{spaceBlock, account, h}
	if g.stored(ref) {
		return
	}
	if len(raw) < splitFrom {
		g.add(ref, raw, nil)
		return
	}
	pieces := []byte{encodingPieces}
	rest := raw
	for {
		start, end := findLongString(rest)
		if end == 0 {
			break
		}
		pieces = g.appendPiece(pieces, account, rest[:start])
		pieces = g.appendPiece(pieces, account, rest[start:end])
		rest = rest[end:]
	}
	if len(rest) == len(raw) {
		g.add(ref, raw, nil)
		return
	}
	g.add(ref, nil, g.appendPiece(pieces, account, rest))
}

// appendPiece appends bytes as a literal or as a block that is not taken apart any further.
func (g *gathering) appendPiece(dst []byte, account accountNumber, raw []byte) []byte {
	it := newItem(raw, 0)
	if ref := (objectRef{spaceBlock, account, it.hash}); it.block && !g.stored(ref) {
		g.add(ref, raw, nil)
	}
	return it.append(dst)
}

// findLongString gives the first JSON string of text that has at least longString bytes, without its quotes;
// end is 0 if there is none.
func findLongString(text []byte) (start, end int) {
	for at := 0; ; {
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

// escaped tells whether a quote that follows text is escaped: an odd number of backslashes stands before it.
func escaped(text []byte) bool {
	n := 0
	for n < len(text) && text[len(text)-1-n] == '\\' {
		n++
	}
	return n%2 == 1
}

// addBody adds what a plan's body has that is not stored yet, and gives its skeleton.
func (g *gathering) addBody(account accountNumber, p *bodyPlan) (skeleton []byte) {
	skeleton = append(make([]byte, 0, 512), recordVersion)
	for i := range p.parts {
		part := &p.parts[i]
		if part.known > 0 {
			g.touch(objectRef{spaceNode, account, part.node})
		} else if !part.between {
			g.findNode(account, &part.run)
		}
		for j := range part.items {
			switch it := &part.items[j]; {
			case it.data != nil:
				g.addBlock(account, it.hash, it.data)
			case it.block:
				g.touch(objectRef{spaceBlock, account, it.hash})
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

// findNode looks in the store for the longest node of a run of which none is known.
func (g *gathering) findNode(account accountNumber, r *run) {
	for k := len(r.items); k > 0 && r.known == 0; k-- { // none known: every item is there
		if node := r.items[k-1].chain; g.stored(objectRef{spaceNode, account, node}) {
			r.known, r.node, r.items = k, node, r.items[k:]
		}
	}
}

// addNode makes run.known and run.node cover all of the run but its tail, adding a node where needed, and gives the
// items that the skeleton has to name.
func (g *gathering) addNode(account accountNumber, r *run) (tail []item) {
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
	g.add(objectRef{spaceNode, account, r.node}, nil, append([]byte{recordVersion}, node...))
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

// reader gives back bodies.
type bodyReader struct {
	tx      *badger.Txn
	account accountNumber
	limit   int // bytes that the body may have
}

var errTooLong = errors.New("the pieces have more bytes than the record says")

// appendBody appends the body that a skeleton describes.
func (r *bodyReader) appendBody(dst, skeleton []byte) ([]byte, error) {
	if len(skeleton) == 0 || skeleton[0] != recordVersion {
		return nil, errors.New("skeleton of an unknown version")
	}
	return r.appendPieces(dst, skeleton[1:], inSkeleton)
}

// depth says where a list of pieces stands, and so what it may name.
type depth int

const (
	inBlock    depth = iota // blocks that are not lists themselves
	inNode                  // any block
	inSkeleton              // any block, and nodes
)

func (r *bodyReader) appendPieces(dst, list []byte, at depth) (_ []byte, err error) {
	for p := (pieces{rest: list}); p.next(); {
		switch {
		case p.err != nil:
			return nil, p.err
		case p.kind == pieceLiteral:
			dst = append(dst, p.literal...)
		case p.kind != pieceNode:
			if p.kind == pieceCommaBlock {
				dst = append(dst, ',')
			}
			dst, err = r.appendBlock(dst, p.hash, at)
		case at == inSkeleton:
			dst, err = r.appendNode(dst, p.hash)
		default:
			err = errors.New("a node where only blocks may stand")
		}
		if err != nil {
			return nil, err
		}
		if len(dst) > r.limit {
			return nil, errTooLong
		}
	}
	return dst, nil
}

// appendNode appends the whole sequence that a node ends: it walks to the front, then reads towards the end.
func (r *bodyReader) appendNode(dst []byte, h hash) ([]byte, error) {
	var lists [][]byte
	for more := true; more; {
		if len(lists) > r.limit { // each node stands for at least one byte
			return nil, errTooLong
		}
		list, err := r.node(h)
		if err != nil {
			return nil, err
		}
		p := pieces{rest: list}
		if more = p.next() && p.kind == pieceNode; more {
			h, list = p.hash, p.rest
		}
		lists = append(lists, list)
	}
	for i := len(lists) - 1; i >= 0; i-- {
		var err error
		if dst, err = r.appendPieces(dst, lists[i], inNode); err != nil {
			return nil, err
		}
	}
	return dst, nil
}

// node gives the pieces of a node, valid until the transaction ends.
func (r *bodyReader) node(h hash) (list []byte, err error) {
	value, err := getValue(r.tx, objectRef{spaceNode, r.account, h}.key())
	switch {
	case err != nil:
		return nil, fmt.Errorf("node %x: %w", h, err)
	case len(value) == 0 || value[0] != recordVersion:
		return nil, fmt.Errorf("node %x: unknown version", h)
	}
	return value[1:], nil
}

// appendBlock appends the bytes of a block and compares them with its hash.
func (r *bodyReader) appendBlock(dst []byte, h hash, at depth) ([]byte, error) {
	item, err := r.tx.Get(objectRef{spaceBlock, r.account, h}.key())
	if err != nil {
		return nil, fmt.Errorf("block %x: %w", h, err)
	}
	start := len(dst)
	err = item.Value(func(value []byte) (err error) {
		if at != inBlock && len(value) > 0 && value[0] == encodingPieces {
			dst, err = r.appendPieces(dst, value[1:], inBlock)
		} else {
			dst, err = appendDecoded(dst, value)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("block %x: %w", h, err)
	}
	if hash(blake3.Sum256(dst[start:])) != h {
		return nil, fmt.Errorf("block %x is damaged: its bytes have another hash", h)
	}
	return dst, nil
}

// pieces reads a list of pieces. Literal and rest point into the list.
type pieces struct {
	rest    []byte
	kind    byte
	literal []byte
	hash    hash
	err     error
}

var errPieces = errors.New("malformed list of pieces")

// next reads the next piece. A malformed list gives one last piece with err set.
func (p *pieces) next() bool {
	if p.err != nil || len(p.rest) == 0 {
		return false
	}
	p.kind = p.rest[0]
	p.rest = p.rest[1:]
	switch p.kind {
	case pieceLiteral:
		n, width := binary.Uvarint(p.rest)
		if width <= 0 || n > uint64(len(p.rest)-width) {
			p.err = errPieces
			return true
		}
		p.literal, p.rest = p.rest[width:width+int(n)], p.rest[width+int(n):]
	case pieceBlock, pieceCommaBlock, pieceNode:
		if len(p.rest) < len(p.hash) {
			p.err = errPieces
			return true
		}
		p.hash, p.rest = hash(p.rest[:len(p.hash)]), p.rest[len(p.hash):]
	default:
		p.err = errPieces
	}
	return true
}
