package store

import (
	"bytes"
	"encoding/binary"
	"unsafe"

	"github.com/zeebo/blake3"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/internal/buffer"
	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// Agents send their whole history again every turn. A request body is therefore cut along its own structure into
// items (messages, tools, system blocks), each kept once per account under its hash, and what remains of a request is
// a skeleton: a list of pieces whose bytes, joined, are the body.
//
// A list of messages grows with every turn, so a skeleton does not name them all: the front of a run of items is a
// node, kept under a hash that stands for the whole sequence up to there, which names the node before it and the items
// since. Only the last few items of a run stand in the skeleton itself, because clients change those again (a cache
// mark moves on to the newest message) and a node that held them would be of no use to the next turn.

const (
	literalMax = 256 // what is no longer than this is cheaper as it stands than as a block
	tailItems  = 3   // items at the end of a run that clients may still change
	gapMax     = 64  // what separates items of one run is a comma and at most this much white space
	maxItems   = 16 << 10
	minAverage = 32 // bytes; a body of more than manyItems smaller items is not worth cutting
	manyItems  = 64
	smallBody  = 2 << 10   // a request of so few bytes may hold what others keep as blocks
	coarsePart = 256 << 10 // how bodies are cut that cannot be cut along their structure
)

// item is one element of a run, or a stretch of the body between runs.
type item struct {
	text  []byte // stands before the block as it is; the whole item when it has no block
	comma bool   // in place of text: one comma stands before the block
	block bool
	hash  kv.Hash // of the block
	data  []byte  // the block's bytes; nil once they are known to be stored
	chain kv.Hash // of the run up to and with this item
}

// append appends the item as pieces.
func (it *item) append(dst []byte) []byte {
	if len(it.text) > 0 {
		dst = append(dst, pieceLiteral)
		dst = binary.AppendUvarint(dst, uint64(len(it.text)))
		dst = append(dst, it.text...)
	}
	switch {
	case !it.block:
		return dst
	case it.comma:
		dst = append(dst, pieceCommaBlock)
	default:
		dst = append(dst, pieceBlock)
	}
	return append(dst, it.hash[:]...)
}

// run is a sequence of items with nothing but commas between them.
type run struct {
	known int     // items that a node known to be stored stands for
	node  kv.Hash // that node, when known > 0
	items []item  // the items after those
}

// bodyPlan is a body taken apart: runs, and what stands between them as runs of one.
type bodyPlan struct {
	parts []planPart
	held  int64  // bytes of memory that the plan holds
	bytes []byte // what the items point into, from the buffer pool

	conversation []kv.Hash // of a large body's run of messages up to and with each, if it is cut along them
}

type planPart struct {
	run
	between bool // the part is no run of items: its items are never part of a node
}

// planned is a body that is to be taken apart, and what [Opening] says of it.
type planned struct {
	body         []byte
	spans        []codec.Span
	conversation []codec.Span
	prints       []codec.Fingerprint
}

// planBody takes a body apart, hashes its items, and copies what is not known to be stored, on the goroutine of the
// request. The plan keeps no reference to the body.
func (s *core) planBody(account kv.AccountNumber, of *planned) *bodyPlan {
	p, body := new(bodyPlan), of.body
	p.parts = make([]planPart, 0, 4) // of most: one run, and what stands around it
	spans := worthCutting(of.spans, len(body))
	prints := of.prints
	if len(prints) != len(spans) {
		prints = make([]codec.Fingerprint, len(spans))
	}
	at := 0
	for i := 0; i < len(spans); {
		j := i + 1
		for j < len(spans) && isSeparator(body[spans[j-1].End:spans[j].Start]) {
			j++
		}
		p.addBetween(body[at:spans[i].Start])
		items := s.chainedItems(body, spans[i:j], prints[i:j])
		if len(body) >= prefixesFrom && beginsWith(spans[i:j], of.conversation) {
			p.conversation = chainOf(items[:len(of.conversation)])
		}
		p.parts = append(p.parts, planPart{run: s.knownRun(account, items)})
		at = spans[j-1].End
		i = j
	}
	p.addBetween(body[at:])
	s.ownBytes(account, p)
	return p
}

// worthCutting drops spans that are malformed, too many, or too small to be worth their references.
func worthCutting(spans []codec.Span, size int) []codec.Span {
	if len(spans) > maxItems {
		return nil
	}
	end, total := 0, 0
	for _, span := range spans {
		if span.Start < end || span.End < span.Start || span.End > size {
			return nil
		}
		end = span.End
		total += span.End - span.Start
	}
	if len(spans) > manyItems && total < len(spans)*minAverage {
		return nil
	}
	return spans
}

// isSeparator reports whether gap is one comma and white space.
func isSeparator(gap []byte) bool {
	if len(gap) == 1 {
		return gap[0] == ','
	}
	return len(gap) <= gapMax && bytes.Equal(bytes.TrimSpace(gap), []byte{','})
}

func (p *bodyPlan) addBetween(text []byte) {
	for len(text) > 0 {
		n := min(len(text), coarsePart)
		it := newItem(text[:n], 0)
		if it.block {
			it.hash = blake3.Sum256(it.data)
		}
		p.parts = append(p.parts, planPart{run: run{items: []item{it}}, between: true})
		text = text[n:]
	}
}

// newItem makes an item of a separator and what follows it, text[:gap] and text[gap:]. If that is a block, it has no hash yet.
func newItem(text []byte, gap int) item {
	raw := text[gap:]
	if len(raw) <= literalMax {
		return item{text: text}
	}
	it := item{block: true, data: raw}
	if it.comma = gap == 1; !it.comma {
		it.text = text[:gap]
	}
	return it
}

// beginsWith reports whether a run begins with those spans.
func beginsWith(run, spans []codec.Span) bool {
	n := len(spans)
	return n > 0 && n <= len(run) && run[0] == spans[0] && run[n-1] == spans[n-1]
}

func chainOf(items []item) []kv.Hash {
	chain := make([]kv.Hash, len(items))
	for i := range items {
		chain[i] = items[i].chain
	}
	return chain
}

// chainedItems makes the items of a run.
func (s *core) chainedItems(body []byte, spans []codec.Span, prints []codec.Fingerprint) []item {
	var (
		items   = make([]item, len(spans))
		chain   kv.Hash
		scratch = make([]byte, 0, 512)
	)
	for i, span := range spans {
		start := span.Start
		if i > 0 {
			start = spans[i-1].End
		}
		it := &items[i]
		switch *it = newItem(body[start:span.End], span.Start-start); {
		case it.block && len(body) <= smallBody && len(spans) < tailItems && s.isFirst(it.data, prints[i]):
			*it = item{text: body[start:span.End]}
		case it.block:
			it.hash = s.blockHashes.of(it.data, prints[i])
		}
		chain = s.chainHashes.after(chain, it, scratch)
		it.chain = chain
	}
	return items
}

// isFirst reports whether a block that would not be compressed has not come before, as far as is remembered. In a small
// request such a one is kept where it stands: most are a question that nobody sends again, and a block of its own would
// cost as much again. What does come again, such as instructions, is a block from the second time on.
func (s *core) isFirst(raw []byte, print codec.Fingerprint) bool {
	if print == 0 || len(raw) >= compressFrom || s.blocksSeen.Has(print) {
		return false
	}
	s.blocksSeen.Add(print)
	return true
}

// knownRun makes a run of items, with as many of them behind a node as are known to be.
func (s *core) knownRun(account kv.AccountNumber, items []item) run {
	for k := len(items); k > 0; k-- {
		if node := items[k-1].chain; s.known.has(kv.Node(account, node)) {
			return run{known: k, node: node, items: items[k:]}
		}
	}
	return run{items: items}
}

// ownBytes replaces every reference into the body by a copy, and drops the bytes of blocks known to be stored.
func (s *core) ownBytes(account kv.AccountNumber, p *bodyPlan) {
	size := 0
	for it := range p.items {
		if it.block && s.known.has(kv.Block(account, it.hash)) {
			it.data = nil
		}
		size += len(it.text) + len(it.data)
		p.held += int64(unsafe.Sizeof(*it))
	}
	room := buffer.Get(size)
	own := func(b []byte) []byte {
		if b == nil {
			return nil
		}
		start := len(room)
		room = append(room, b...)
		return room[start:len(room):len(room)]
	}
	for it := range p.items {
		it.text, it.data = own(it.text), own(it.data)
	}
	p.bytes = room
	p.held += int64(cap(room))
}

// release gives up the plan's bytes; nobody may look at the plan afterwards.
func (p *bodyPlan) release() {
	if p != nil {
		buffer.Put(p.bytes)
		*p = bodyPlan{}
	}
}

// items visits every item of the plan.
func (p *bodyPlan) items(visit func(*item) bool) {
	for i := range p.parts {
		items := p.parts[i].run.items
		for j := range items {
			if !visit(&items[j]) {
				return
			}
		}
	}
}
