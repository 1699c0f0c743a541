package lexical

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"sort"
	"sync/atomic"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/blevesearch/mmap-go"
)

// A segment is an immutable file; FORMAT.md describes it. Its directory is trusted: if it is damaged, reading panics,
// and [Contain] turns that into an error.
type segment struct {
	name     string // of the file
	path     string
	size     int64
	sum      uint32
	data     mmap.MMap
	accounts int // in the directory

	gone map[uint32]*goneSet // by account; guarded by the index's lock

	users    atomic.Int32 // including the index itself
	obsolete atomic.Bool  // the last user removes the file
}

// goneSet is the replaced and removed documents of a section. It is never changed, only replaced.
type goneSet struct {
	numbers *roaring.Bitmap
	totals  Totals // of these documents
}

const (
	segmentMagic = "mnemelx5"
	footerSize   = 8 + 4 + 4 // start of the directory, its records, checksum of everything before the checksum
	recordSize   = 4 + 4 + 4 + 4*8 + 8 + int(fieldCount)*(8+4)
	blockTerms   = 32 // terms that share a block, found by its first term
)

// openSegment maps a file of known size and checksum. The checksum is not verified.
func openSegment(path, name string, size int64, sum uint32) (*segment, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() != size || size < int64(len(segmentMagic)+footerSize) {
		return nil, &Damage{path, fmt.Sprintf("it has %d bytes, and was written with %d", info.Size(), size)}
	}
	s := &segment{name: name, path: path, size: size, sum: sum, gone: make(map[uint32]*goneSet)}
	if s.data, err = mmap.Map(file, mmap.RDONLY, 0); err != nil {
		return nil, err
	}
	s.users.Store(1)
	footer := s.data[len(s.data)-footerSize:]
	s.accounts = int(binary.BigEndian.Uint32(footer[8:]))
	if string(s.data[:len(segmentMagic)]) != segmentMagic || binary.BigEndian.Uint32(footer[12:]) != sum ||
		int64(binary.BigEndian.Uint64(footer))+int64(s.accounts*recordSize)+footerSize != size {
		return nil, errors.Join(&Damage{path, "it is not as it was written"}, s.data.Unmap())
	}
	return s, nil
}

// release ends a use. The last one unmaps the file, and removes it if it was replaced.
func (s *segment) release() {
	if s.users.Add(-1) > 0 {
		return
	}
	_ = s.data.Unmap()
	if s.obsolete.Load() {
		_ = os.Remove(s.path) // if it stays, the next opening removes it
	}
}

// diskSection is the documents of one account in a segment, in id order.
type diskSection struct {
	segment *segment
	data    []byte // of the segment
	account uint32
	many    uint32
	grouped uint32 // documents that are in a group
	totals  Totals

	ends, groups, sizes, order, ids uint64 // offsets of these columns

	fields [fieldCount]struct {
		index  uint64 // offsets of its blocks
		blocks uint32
	}
}

// record returns the i-th record of the directory.
func (s *segment) record(i int) []byte {
	from := len(s.data) - footerSize - (s.accounts-i)*recordSize
	return s.data[from : from+recordSize]
}

// section returns the documents of an account; nil if there are none.
func (s *segment) section(account uint32) *diskSection {
	i := sort.Search(s.accounts, func(i int) bool { return binary.BigEndian.Uint32(s.record(i)) >= account })
	if i == s.accounts || binary.BigEndian.Uint32(s.record(i)) != account {
		return nil
	}
	return s.sectionAt(i)
}

func (s *segment) sectionAt(i int) *diskSection {
	r := s.record(i)
	u32 := func() (n uint32) { n, r = binary.BigEndian.Uint32(r), r[4:]; return n }
	u64 := func() (n uint64) { n, r = binary.BigEndian.Uint64(r), r[8:]; return n }
	d := &diskSection{segment: s, data: s.data, account: u32(), many: u32(), grouped: u32()}
	d.totals = Totals{uint64(d.many), u64(), u64(), u64(), u64()}
	d.ends = u64()
	d.groups = d.ends + 4*uint64(d.many)
	d.sizes = d.groups + 8*uint64(d.many)
	d.order = d.sizes + 16*uint64(d.many)
	d.ids = d.order + 12*uint64(d.grouped)
	for f := range d.fields {
		d.fields[f].index, d.fields[f].blocks = u64(), u32()
	}
	return d
}

func (d *diskSection) u32(column uint64, i uint32) uint32 {
	return binary.BigEndian.Uint32(d.data[column+4*uint64(i):])
}

func (d *diskSection) id(number uint32) []byte {
	start := uint32(0)
	if number > 0 {
		start = d.u32(d.ends, number-1)
	}
	return d.data[d.ids+uint64(start) : d.ids+uint64(d.u32(d.ends, number))]
}

func (d *diskSection) group(number uint32) uint64 {
	return binary.BigEndian.Uint64(d.data[d.groups+8*uint64(number):])
}

func (d *diskSection) lengths(number uint32) lengths {
	return lengths{d.u32(d.sizes, 4*number), d.u32(d.sizes, 4*number+1), d.u32(d.sizes, 4*number+2), d.u32(d.sizes, 4*number+3)}
}

func (d *diskSection) count() uint32 { return d.many }

// number returns the document with an id.
func (d *diskSection) number(id string) (uint32, bool) {
	i := uint32(sort.Search(int(d.many), func(i int) bool { return string(d.id(uint32(i))) >= id }))
	return i, i < d.many && string(d.id(i)) == id
}

// members returns the documents of a group in id order.
func (d *diskSection) members(group uint64, into []uint32) []uint32 {
	at := func(i int) []byte { return d.data[d.order+12*uint64(i):] }
	i := sort.Search(int(d.grouped), func(i int) bool { return binary.BigEndian.Uint64(at(i)) >= group })
	for ; i < int(d.grouped) && binary.BigEndian.Uint64(at(i)) == group; i++ {
		into = append(into, binary.BigEndian.Uint32(at(i)[8:]))
	}
	return into
}

// A block is the length of its entries, the entries, and then the postings of each. An entry is the length of the
// prefix shared with the previous term, the length of the rest, the rest, and the length of its postings.
type block struct {
	entries  []byte // that are left
	postings []byte // those of the entry, and all following ones
	size     int    // of the entry's postings
	term     []byte
}

func (d *diskSection) block(f field, i uint32) block {
	from := binary.BigEndian.Uint64(d.data[d.fields[f].index+8*uint64(i):])
	size, n := uvarint(d.data[from:])
	entries := d.data[from+uint64(n):]
	return block{entries: entries[:size], postings: entries[size:]}
}

// next advances to the next entry; false if there is none.
func (b *block) next() bool {
	if len(b.entries) == 0 {
		return false
	}
	b.postings = b.postings[b.size:]
	shared, n := uvarint(b.entries)
	b.entries = b.entries[n:]
	rest, n := uvarint(b.entries)
	b.entries = b.entries[n:]
	b.term = append(b.term[:shared], b.entries[:rest]...)
	b.entries = b.entries[rest:]
	size, n := uvarint(b.entries)
	b.entries = b.entries[n:]
	b.size = int(size)
	return true
}

// uvarint reads a number. It panics if there is none.
func uvarint(b []byte) (uint64, int) {
	if len(b) > 0 && b[0] < 0x80 {
		return uint64(b[0]), 1
	}
	value, n := binary.Uvarint(b)
	if n <= 0 {
		panic("malformed number in a segment")
	}
	return value, n
}

// from returns the first block that may contain the term or a later one.
func (d *diskSection) from(f field, term string) uint32 {
	blocks := d.fields[f].blocks
	after := uint32(sort.Search(int(blocks), func(i int) bool {
		return string(d.firstTerm(f, uint32(i))) > term
	}))
	return max(after, 1) - 1
}

// firstTerm returns the first term of a block, which shares no prefix.
func (d *diskSection) firstTerm(f field, i uint32) []byte {
	entries := d.block(f, i).entries
	_, shared := uvarint(entries)
	size, n := uvarint(entries[shared:])
	return entries[shared+n:][:size]
}

func (d *diskSection) postings(f field, term string, into []posting) []posting {
	if d.fields[f].blocks == 0 {
		return into
	}
	for b := d.block(f, d.from(f, term)); b.next(); {
		switch {
		case string(b.term) < term:
		case string(b.term) == term:
			return d.decode(b.postings[:b.size], into)
		default:
			return into
		}
	}
	return into
}

func (d *diskSection) measure(f field, list []posting) {
	column := d.data[d.sizes+4*uint64(f):]
	for i := range list {
		list[i].length = binary.BigEndian.Uint32(column[16*uint64(list[i].number):])
	}
}

// decode reads postings without lengths: twice the distance to the previous number, plus one if the frequency is one;
// otherwise the frequency follows.
func (d *diskSection) decode(encoded []byte, into []posting) []posting {
	from := len(into)
	into = slices.Grow(into, len(encoded))[:from+len(encoded)] // a posting takes a byte at least
	list, count, number := into[from:], 0, uint32(0)
	for at := 0; at < len(encoded); count++ {
		step := uint64(encoded[at])
		if at++; step >= 0x80 {
			long, size := uvarint(encoded[at-1:])
			step, at = long, at-1+size
		}
		number += uint32(step >> 1)
		frequency := uint64(1)
		if step&1 == 0 {
			several, size := uvarint(encoded[at:])
			frequency, at = several, at+size
		}
		if number >= d.many {
			panic("a segment names a document that it does not have")
		}
		list[count] = posting{number: number, frequency: uint32(frequency)}
	}
	return into[:from+count]
}

func (d *diskSection) terms(f field, from, prefix string, limit int) (found []string) {
	for i := d.from(f, from); i < d.fields[f].blocks; i++ {
		for b := d.block(f, i); b.next(); {
			if string(b.term) < from {
				continue
			}
			if !bytes.HasPrefix(b.term, []byte(prefix)) {
				if string(b.term) > prefix {
					return found
				}
				continue
			}
			if len(found) == limit {
				return found
			}
			found = append(found, string(b.term))
		}
	}
	return found
}

// diskSource is a section being merged, without its removed documents.
type diskSource struct {
	*diskSection
	gone *roaring.Bitmap
}

func (s diskSource) isGone(number uint32) bool { return s.gone != nil && s.gone.Contains(number) }
func (s diskSource) cursor(f field) cursor     { return &diskCursor{of: s.diskSection, field: f} }

// diskCursor iterates over the terms of a field in order.
type diskCursor struct {
	of    *diskSection
	field field
	then  uint32 // the next block
	block block
}

func (c *diskCursor) next() bool {
	for !c.block.next() {
		if c.then == c.of.fields[c.field].blocks {
			return false
		}
		c.block = c.of.block(c.field, c.then)
		c.then++
	}
	return true
}

func (c *diskCursor) term() []byte { return c.block.term }

func (c *diskCursor) postings(into []posting) []posting {
	return c.of.decode(c.block.postings[:c.block.size], into)
}
