package codec

import (
	"hash/maphash"
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/mnemeproxy/mneme/codec/scan"
)

// Succession remembers which block of a request followed which. Agents send the same blocks again in the same order, so
// the next one is mostly known, and neither its end nor its validity as JSON has to be determined again. The hash that
// proves that it is the same is its [Fingerprint], which others need as well. It remembers 16,384 blocks in 400 KB and
// may be used from any goroutine.
//
// The values of a slot may be from several blocks, if it changes while it is read. That does no harm: every fingerprint
// in a slot is of a whole block, and bytes are only taken for one if they have its fingerprint.
type Succession struct {
	slots [16 << 10]struct{ before, print, size atomic.Uint64 }
}

// succeeding is a block that followed others.
type succeeding struct {
	before Fingerprint // of the two blocks before: many sessions may contain the same short one
	print  Fingerprint
	size   int
}

// after returns the block that may follow; its size is 0 if none is known.
func (s *Succession) after(before Fingerprint) succeeding {
	slot := &s.slots[before%Fingerprint(len(s.slots))]
	if slot.before.Load() != uint64(before) {
		return succeeding{}
	}
	return succeeding{before, Fingerprint(slot.print.Load()), int(slot.size.Load())}
}

func (s *Succession) add(next succeeding) {
	slot := &s.slots[next.before%Fingerprint(len(s.slots))]
	slot.before.Store(uint64(next.before))
	slot.print.Store(uint64(next.print))
	slot.size.Store(uint64(next.size))
}

// pieceReader finds the blocks of one body while its envelope is read.
type pieceReader struct {
	body   []byte
	of     Fingerprint // of the account
	known  *Succession
	before Fingerprint // as in [succeeding], of the next block
	last   Fingerprint // of the newest block, or a value for its list
	prints []Fingerprint
	fresh  []succeeding // blocks that were not known

	unread []byte // body up to at, with {} for each known block
	at     int
}

var pieceReaders = sync.Pool{New: func() any { return new(pieceReader) }}

// mostUnread is the size in bytes up to which a reader's memory is kept for reuse.
const mostUnread = 1 << 20

func newPieceReader(body []byte, account string, known *Succession) *pieceReader {
	p := pieceReaders.Get().(*pieceReader)
	*p = pieceReader{body: body, of: fingerprintOf(account), known: known, fresh: p.fresh[:0], unread: p.unread[:0]}
	return p
}

func (p *pieceReader) release() {
	if cap(p.unread) > mostUnread {
		p.unread = nil
	}
	*p = pieceReader{fresh: p.fresh, unread: p.unread}
	pieceReaders.Put(p)
}

// list begins a list of blocks.
func (p *pieceReader) list(member []byte) {
	p.last = p.of ^ Fingerprint(maphash.Bytes(fingerprintSeed, member))
	p.before = p.last
}

// end returns the offset after the block that begins at start, and records the block. It returns start if no value
// begins there.
func (p *pieceReader) end(start int) (end int) {
	if next := p.known.after(p.before); next.size > 0 && p.closes(start+next.size) && p.print(start, start+next.size) == next.print {
		end = start + next.size
		p.skip(start, end)
		p.take(next.print, next.size)
		return end
	}
	if end = scan.Skip(p.body, start); end > start {
		p.takeFresh(start, end)
	}
	return end
}

// closes reports whether a value may end at end, where a known block would: most that differ from it are not hashed.
func (p *pieceReader) closes(end int) bool {
	if end > len(p.body) {
		return false
	}
	c := p.body[end-1]
	return c == '}' || c == ']' || c == '"'
}

// whole records the block of a list that is a string.
func (p *pieceReader) whole(start, end int) {
	if next := p.known.after(p.before); next.size == end-start && p.print(start, end) == next.print {
		p.skip(start, end)
		p.take(next.print, next.size)
		return
	}
	p.takeFresh(start, end)
}

func (p *pieceReader) print(start, end int) Fingerprint {
	return Fingerprint(maphash.Bytes(fingerprintSeed, p.body[start:end])) ^ p.of
}

func (p *pieceReader) skip(start, end int) {
	p.unread = append(append(p.unread, p.body[p.at:start]...), "{}"...)
	p.at = end
}

// takeFresh records an unknown block, and remembers it if there is room. Only a value that ends with its own bracket or
// quote has an end that does not depend on what follows.
func (p *pieceReader) takeFresh(start, end int) {
	print := p.print(start, end)
	if c := p.body[start]; len(p.fresh) < len(p.known.slots) && (c == '{' || c == '[' || c == '"') {
		p.fresh = append(p.fresh, succeeding{p.before, print, end - start})
	}
	p.take(print, end-start)
}

func (p *pieceReader) take(print Fingerprint, size int) {
	p.before = print ^ Fingerprint(bits.RotateLeft64(uint64(p.last), 1))
	p.last = print
	if size < fingerprintFrom {
		print = 0
	}
	p.prints = append(p.prints, print)
}

// wellFormed reports whether the body is well-formed, and remembers its blocks if so. Every known block was part of a
// well-formed body, at the same depth, so only the rest of the body has to be checked.
func (p *pieceReader) wellFormed() bool {
	unread := p.body
	if p.at > 0 {
		p.unread = append(p.unread, p.body[p.at:]...)
		unread = p.unread
	}
	if !scan.WellFormed(unread) {
		return false
	}
	for _, next := range p.fresh {
		p.known.add(next)
	}
	return true
}
