package blob

import (
	"bytes"
	"encoding/binary"
	"unsafe"

	"github.com/zeebo/blake3"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/internal/buffer"
	"github.com/mnemeproxy/mneme/store/internal/kv"
)

const (
	literalMax = 256 // shorter items are cheaper inline than as a block
	tailItems  = 3   // items at the end of a run that clients may still change
	gapMax     = 64  // items of one run are separated by a comma and at most this much white space
	maxItems   = 16 << 10
	minAverage = 32 // bytes; a body of more than manyItems smaller items is not worth cutting
	manyItems  = 64
	smallBody  = 2 << 10   // a request of so few bytes may contain what others store as blocks
	coarsePart = 256 << 10 // part size for bodies that cannot be cut along their structure
)

// item is one element of a run, or a part of the body between runs.
type item struct {
	text  []byte // literal text before the block; the whole item if it has no block
	comma bool   // instead of text: one comma before the block
	block bool
	hash  kv.Hash // of the block
	data  []byte  // the block's bytes; nil once they are known to be stored
	chain kv.Hash // of the run up to and including this item
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

// run is a sequence of items separated only by commas.
type run struct {
	known int     // items covered by a node that is known to be stored
	node  kv.Hash // that node, if known > 0
	items []item  // the items after those
}

// Plan is a split body: runs, and what is between them as runs of one.
type Plan struct {
	Held int64      // bytes of memory held by the plan
	Last []ItemHash // of the last items of the body's conversation, at most [LastItems]; nil: the body is not cut along them

	parts []planPart
	alone []item // of parts that are no runs
	bytes []byte // the items point into it; from the buffer pool

	room struct { // usually for one run, and what is around it
		parts [3]planPart
		alone [2]item
	}
}

// ItemHash is the hashes of an item of a conversation.
type ItemHash struct {
	Chain kv.Hash // of the items up to and including this one
	Block kv.Hash // of its bytes, if they are stored as a block; else zero
}

// LastItems is for how many items at the end of a conversation a plan has the hashes.
const LastItems = 64

type planPart struct {
	run
	between bool // the part is not a run of items: its items are never part of a node
}

// Body is a body to split, with what is known about it.
type Body struct {
	Bytes        []byte
	Blocks       []codec.Span        // to be stored separately, ascending
	Prints       []codec.Fingerprint // of Blocks; nil: unknown
	Conversation []codec.Span        // of Blocks, those whose hashes the plan needs; may be none
}

// Planner splits bodies. Its caches make that cheap for bodies that begin like earlier ones. Its methods may be called
// from any goroutine.
type Planner struct {
	Known Known // what is stored

	hashes blockHashes
	chains chainHashes
	seen   codec.FingerprintSet // blocks of small bodies
}

// Plan splits a body, hashes its items, and copies what is not known to be stored, on the goroutine of the request. The
// plan keeps no reference to the body.
func (m *Planner) Plan(account kv.AccountNumber, of *Body) *Plan {
	p, body := new(Plan), of.Bytes
	p.parts, p.alone = p.room.parts[:0], p.room.alone[:0]
	spans := worthCutting(of.Blocks, len(body))
	prints := of.Prints
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
		items := m.chainedItems(body, spans[i:j], prints[i:j])
		if beginsWith(spans[i:j], of.Conversation) {
			p.Last = lastOf(items[:len(of.Conversation)])
		}
		p.parts = append(p.parts, planPart{run: m.knownRun(account, items)})
		at = spans[j-1].End
		i = j
	}
	p.addBetween(body[at:])
	m.ownBytes(account, p)
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

func (p *Plan) addBetween(text []byte) {
	for len(text) > 0 {
		n := min(len(text), coarsePart)
		it := newItem(text[:n], 0)
		if it.block {
			it.hash = blake3.Sum256(it.data)
		}
		p.alone = append(p.alone, it)
		p.parts = append(p.parts, planPart{run: run{items: p.alone[len(p.alone)-1:]}, between: true})
		text = text[n:]
	}
}

// newItem makes an item of a separator, text[:gap], and what follows it, text[gap:]. If that is a block, it has no hash
// yet.
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

func lastOf(items []item) []ItemHash {
	items = items[max(len(items)-LastItems, 0):]
	last := make([]ItemHash, len(items))
	for i := range items {
		last[i] = ItemHash{Chain: items[i].chain, Block: items[i].hash}
	}
	return last
}

// chainedItems makes the items of a run.
func (m *Planner) chainedItems(body []byte, spans []codec.Span, prints []codec.Fingerprint) []item {
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
		case it.block && len(body) <= smallBody && len(spans) < tailItems && m.isFirst(it.data, prints[i]):
			*it = item{text: body[start:span.End]}
		case it.block:
			it.hash = m.hashes.of(it.data, prints[i])
		}
		chain = m.chains.after(chain, it, scratch)
		it.chain = chain
	}
	return items
}

// isFirst reports whether an incompressible block has not been seen before, as far as remembered. In a small request it
// is stored inline: most are a question that is not sent again, and a separate block would cost as much again. What
// comes again, such as instructions, becomes a block the second time.
func (m *Planner) isFirst(raw []byte, print codec.Fingerprint) bool {
	if print == 0 || len(raw) >= compressFrom || m.seen.Has(print) {
		return false
	}
	m.seen.Add(print)
	return true
}

// knownRun makes a run of items, with as many of them as possible covered by a known node.
func (m *Planner) knownRun(account kv.AccountNumber, items []item) run {
	for k := len(items); k > 0; k-- {
		if node := items[k-1].chain; m.Known.Has(kv.Node(account, node)) {
			return run{known: k, node: node, items: items[k:]}
		}
	}
	return run{items: items}
}

// ownBytes replaces every reference into the body with a copy, and drops the bytes of blocks known to be stored.
func (m *Planner) ownBytes(account kv.AccountNumber, p *Plan) {
	size := 0
	for it := range p.items {
		if it.block && m.Known.Has(kv.Block(account, it.hash)) {
			it.data = nil
		}
		size += len(it.text) + len(it.data)
		p.Held += int64(unsafe.Sizeof(*it))
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
	p.Held += int64(cap(room))
}

// Release releases the plan's bytes; the plan must not be used afterwards.
func (p *Plan) Release() {
	if p != nil {
		buffer.Put(p.bytes)
		*p = Plan{}
	}
}

// items visits every item of the plan.
func (p *Plan) items(visit func(*item) bool) {
	for i := range p.parts {
		items := p.parts[i].run.items
		for j := range items {
			if !visit(&items[j]) {
				return
			}
		}
	}
}
