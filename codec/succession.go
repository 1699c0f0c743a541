package codec

import (
	"hash/maphash"
	"sync"
	"sync/atomic"

	"github.com/mnemeproxy/mneme/codec/scan"
)

// Succession remembers behind which piece of a request which other one came. Agents send the same pieces again in the same
// order, so the next one is mostly known: where it ends need not be looked for, and that it is JSON need not be found out
// again. The hash that shows that it is the same is the [Fingerprint] that others want of it as well. It remembers 16,384 in
// 1 MB and may be used from any goroutine.
type Succession struct {
	slots [16 << 10]atomic.Pointer[succeeding]
}

// succeeding is a piece that came behind another one.
type succeeding struct {
	before Fingerprint // of the piece in front, or what stands for the list that it is the first of
	print  Fingerprint
	size   int
}

func (s *Succession) after(before Fingerprint) (next succeeding, ok bool) {
	if known := s.slots[before%Fingerprint(len(s.slots))].Load(); known != nil && known.before == before {
		return *known, true
	}
	return succeeding{}, false
}

func (s *Succession) add(next succeeding) {
	s.slots[next.before%Fingerprint(len(s.slots))].Store(&next)
}

// pieceReader finds the pieces of one body while its envelope is read.
type pieceReader struct {
	body   []byte
	of     Fingerprint // of the account
	known  *Succession
	before Fingerprint // as in [succeeding], of the next piece
	prints []Fingerprint
	fresh  []succeeding // pieces that did not come before

	unread []byte // body up to at, with {} for each piece that came before
	at     int
}

var pieceReaders = sync.Pool{New: func() any { return new(pieceReader) }}

// mostUnread is the size in bytes up to which the memory of a reader is kept for the next one.
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

// list begins a list of pieces.
func (p *pieceReader) list(member []byte) {
	p.before = p.of ^ Fingerprint(maphash.Bytes(fingerprintSeed, member))
}

// end gives the offset after the piece that begins at start, and takes the piece in. It is start where no value begins.
func (p *pieceReader) end(start int) (end int) {
	if next, ok := p.known.after(p.before); ok && next.size <= len(p.body)-start && p.print(start, start+next.size) == next.print {
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

// whole takes in the piece of a list that is a string.
func (p *pieceReader) whole(start, end int) {
	if next, ok := p.known.after(p.before); ok && next.size == end-start && p.print(start, end) == next.print {
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

// takeFresh takes in a piece that did not come before, and has it remembered if there is room for it at all. Only of a value
// that ends with a bracket or a quote of its own is known where it ends, whatever stands behind it.
func (p *pieceReader) takeFresh(start, end int) {
	print := p.print(start, end)
	if c := p.body[start]; len(p.fresh) < len(p.known.slots) && (c == '{' || c == '[' || c == '"') {
		p.fresh = append(p.fresh, succeeding{p.before, print, end - start})
	}
	p.take(print, end-start)
}

func (p *pieceReader) take(print Fingerprint, size int) {
	p.before = print
	if size < fingerprintFrom {
		print = 0
	}
	p.prints = append(p.prints, print)
}

// wellFormed reports whether the body is, and remembers its pieces if so. Every piece that came before was part of a body
// that was well-formed, at the same depth; so the body is if what is left of it is.
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
