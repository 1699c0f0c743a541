package lexical

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"hash"
	"hash/crc32"
	"io"
	"os"
	"slices"
)

// source is documents of one account to be written to a segment.
type source interface {
	count() uint32
	id(number uint32) []byte
	group(number uint32) uint64
	lengths(number uint32) lengths
	isGone(number uint32) bool
	cursor(f field) cursor
}

// cursor iterates over the terms of a field in order.
type cursor interface {
	next() bool
	term() []byte                      // valid until next
	postings(into []posting) []posting // ascending, including removed documents, without lengths
}

// segmentWriter writes a segment section by section.
type segmentWriter struct {
	file      *os.File
	out       *bufio.Writer
	sum       hash.Hash32
	at        uint64
	directory []byte
	accounts  uint32
	err       error

	block    []byte // entries
	postings []byte // of the block
	inBlock  int
	former   []byte   // term
	index    []uint64 // where each block of the field begins
	sorter   postingSorter
	scratch  [binary.MaxVarintLen64]byte
}

func newSegmentWriter(file *os.File) *segmentWriter {
	w := &segmentWriter{file: file, sum: crc32.NewIEEE()}
	w.out = bufio.NewWriterSize(io.MultiWriter(file, w.sum), 256<<10)
	w.write([]byte(segmentMagic))
	return w
}

func (w *segmentWriter) write(b []byte) {
	if w.err == nil {
		_, w.err = w.out.Write(b)
	}
	w.at += uint64(len(b))
}

func (w *segmentWriter) u32(n uint32) { w.write(binary.BigEndian.AppendUint32(w.scratch[:0], n)) }
func (w *segmentWriter) u64(n uint64) { w.write(binary.BigEndian.AppendUint64(w.scratch[:0], n)) }

// close completes the file and returns its size and checksum.
func (w *segmentWriter) close() (size int64, sum uint32, err error) {
	from := w.at
	w.write(w.directory)
	w.u64(from)
	w.u32(w.accounts)
	if w.err == nil {
		w.err = w.out.Flush()
	}
	sum = w.sum.Sum32()
	w.u32(sum)
	if w.err == nil {
		w.err = w.out.Flush()
	}
	if w.err == nil {
		w.err = w.file.Sync()
	}
	return int64(w.at), sum, w.err
}

// nowhere is the new number of a removed document.
const nowhere = ^uint32(0)

// add writes the documents of an account from several sources.
func (w *segmentWriter) add(ctx context.Context, account uint32, sources []source) error {
	numbers, documents := order(sources)
	if len(documents) == 0 {
		return nil
	}
	w.accounts++
	w.directory = binary.BigEndian.AppendUint32(w.directory, account)
	w.columns(sources, documents)
	w.sorter = postingSorter{documents: len(documents)}
	for f := range fieldCount {
		if err := w.field(ctx, f, sources, numbers); err != nil {
			return err
		}
	}
	return w.err
}

// merged is a document of a source.
type merged struct{ source, number uint32 }

// order returns the documents of all sources in id order, and for each source the new numbers of its documents.
func order(sources []source) (numbers [][]uint32, documents []merged) {
	numbers = make([][]uint32, len(sources))
	for i, s := range sources {
		numbers[i] = make([]uint32, s.count())
		for number := range s.count() {
			if numbers[i][number] = nowhere; !s.isGone(number) {
				documents = append(documents, merged{uint32(i), number})
			}
		}
	}
	compare := func(a, b merged) int {
		return bytes.Compare(sources[a.source].id(a.number), sources[b.source].id(b.number))
	}
	if !slices.IsSortedFunc(documents, compare) {
		slices.SortFunc(documents, compare)
	}
	for i, d := range documents {
		numbers[d.source][d.number] = uint32(i)
	}
	return numbers, documents
}

// columns writes the per-document data, and its part of the directory.
func (w *segmentWriter) columns(sources []source, documents []merged) {
	type member struct {
		group  uint64
		number uint32
	}
	var (
		members []member
		totals  Totals
		begin   = w.at
		end     uint32
	)
	for i, d := range documents {
		s := sources[d.source]
		l := s.lengths(d.number)
		totals.add(&l)
		if group := s.group(d.number); group != 0 {
			members = append(members, member{group, uint32(i)})
		}
		end += uint32(len(s.id(d.number)))
		w.u32(end)
	}
	slices.SortFunc(members, func(a, b member) int {
		return cmp.Or(cmp.Compare(a.group, b.group), cmp.Compare(a.number, b.number))
	})
	for _, d := range documents {
		w.u64(sources[d.source].group(d.number))
	}
	for _, d := range documents {
		l := sources[d.source].lengths(d.number)
		w.u32(l.text)
		w.u32(l.names)
		w.u32(l.output)
		w.u32(l.own)
	}
	for _, m := range members {
		w.u64(m.group)
		w.u32(m.number)
	}
	for _, d := range documents {
		w.write(sources[d.source].id(d.number))
	}
	w.directory = binary.BigEndian.AppendUint32(w.directory, uint32(len(documents)))
	w.directory = binary.BigEndian.AppendUint32(w.directory, uint32(len(members)))
	for _, n := range [...]uint64{totals.TextTerms, totals.NameTerms, totals.OutputTerms, totals.OwnTerms, begin} {
		w.directory = binary.BigEndian.AppendUint64(w.directory, n)
	}
}

// field merges the terms of a field.
func (w *segmentWriter) field(ctx context.Context, f field, sources []source, numbers [][]uint32) error {
	type input struct {
		cursor  cursor
		numbers []uint32
	}
	var inputs []input
	for i, s := range sources {
		if c := s.cursor(f); c.next() {
			inputs = append(inputs, input{c, numbers[i]})
		}
	}
	var term []byte
	var list []posting
	for n := 0; len(inputs) > 0; n++ {
		if n%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		term = append(term[:0], inputs[0].cursor.term()...)
		for _, in := range inputs[1:] {
			if next := in.cursor.term(); bytes.Compare(next, term) < 0 {
				term = append(term[:0], next...)
			}
		}
		list = list[:0]
		for i := 0; i < len(inputs); {
			in := &inputs[i]
			if !bytes.Equal(in.cursor.term(), term) {
				i++
				continue
			}
			from, kept := len(list), len(list)
			list = in.cursor.postings(list)
			for _, p := range list[from:] {
				if p.number = in.numbers[p.number]; p.number != nowhere {
					list[kept] = p
					kept++
				}
			}
			list = list[:kept]
			if in.cursor.next() {
				i++
			} else {
				inputs = slices.Delete(inputs, i, i+1)
			}
		}
		w.term(term, list)
	}
	w.endBlock()
	w.directory = binary.BigEndian.AppendUint64(w.directory, w.at)
	w.directory = binary.BigEndian.AppendUint32(w.directory, uint32(len(w.index)))
	for _, at := range w.index {
		w.u64(at)
	}
	w.index, w.former = w.index[:0], w.former[:0]
	return w.err
}

// term writes the next term in order, unless it has no documents left.
func (w *segmentWriter) term(term []byte, list []posting) {
	if len(list) == 0 {
		return
	}
	list = w.sorter.sort(list)
	shared := 0
	if w.inBlock > 0 {
		for shared < min(len(term), len(w.former)) && term[shared] == w.former[shared] {
			shared++
		}
	}
	from, before := len(w.postings), uint32(0)
	for _, p := range list {
		step := uint64(p.number-before) << 1
		if before = p.number; p.frequency == 1 {
			w.postings = binary.AppendUvarint(w.postings, step|1)
			continue
		}
		w.postings = binary.AppendUvarint(binary.AppendUvarint(w.postings, step), uint64(p.frequency))
	}
	w.block = binary.AppendUvarint(w.block, uint64(shared))
	w.block = binary.AppendUvarint(w.block, uint64(len(term)-shared))
	w.block = append(w.block, term[shared:]...)
	w.block = binary.AppendUvarint(w.block, uint64(len(w.postings)-from))
	w.former = append(w.former[:0], term...)
	if w.inBlock++; w.inBlock == blockTerms {
		w.endBlock()
	}
}

func (w *segmentWriter) endBlock() {
	if w.inBlock == 0 {
		return
	}
	w.index = append(w.index, w.at)
	w.write(binary.AppendUvarint(w.scratch[:0], uint64(len(w.block))))
	w.write(w.block)
	w.write(w.postings)
	w.block, w.postings, w.inBlock = w.block[:0], w.postings[:0], 0
}

// createSegment writes a segment; it is nil if there is nothing to write.
func (ix *Index) createSegment(write func(w *segmentWriter) error) (s *segment, err error) {
	name := ix.nextName()
	path := ix.path(name)
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	w := newSegmentWriter(file)
	err = Contain(func() error { return write(w) })
	empty := w.accounts == 0
	var size int64
	var sum uint32
	if err == nil && !empty {
		size, sum, err = w.close()
	}
	err = errors.Join(err, file.Close())
	if err == nil && !empty {
		s, err = openSegment(path, name, size, sum)
	}
	if err != nil || empty {
		_ = os.Remove(path)
	}
	return s, err
}
