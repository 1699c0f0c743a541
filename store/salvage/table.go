package salvage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"slices"
	"sync"

	"github.com/dgraph-io/badger/v4/fb"
	"github.com/dgraph-io/badger/v4/pb"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"google.golang.org/protobuf/proto"
)

// A table is blocks, an index, its length, the index's checksum, and the checksum's length. A block is entries, their
// offsets, the number of offsets, the block's checksum, and its length. Lengths have four bytes, big endian; offsets
// are in the machine's byte order. An entry is the number of bytes that its key shares with the block's first key, and
// of those that follow (two bytes each), the latter bytes, the two meta bytes, the expiry, and the value.

// Table is the state of a table.
type Table struct {
	Size    int64
	Blocks  int
	Entries int
	Bad     []Stretch // unreadable blocks
	Index   error     // why the index is unreadable; nil: it is intact
	Newest  uint64    // version
}

// Whole reports whether the table is intact.
func (t *Table) Whole() bool { return len(t.Bad) == 0 && t.Index == nil }

// Problem describes the damage of a table.
func (t *Table) Problem() string {
	switch {
	case t.Index != nil:
		return fmt.Sprintf("its index is damaged (%v); %d blocks can be read", t.Index, t.Blocks)
	case len(t.Bad) == 1:
		return fmt.Sprintf("bytes %d to %d are damaged; %d other blocks can be read", t.Bad[0].From, t.Bad[0].To, t.Blocks)
	}
	return fmt.Sprintf("%d of %d blocks are damaged, the first at byte %d", len(t.Bad), len(t.Bad)+t.Blocks, t.Bad[0].From)
}

const (
	maxBlock    = 1 << 20 // of our blocks, which are normally 4 KiB
	maxChecksum = 32      // bytes of an encoded checksum
)

var errFooter = errors.New("the end of the file is not that of a table")

// ReadTable visits the readable entries of a table, block by block.
func ReadTable(path string, visit func(*Entry) error) (Table, error) {
	d := decoders.Get().(*decoder)
	defer decoders.Put(d)
	file, err := os.Open(path)
	if err != nil {
		return Table{}, err
	}
	defer file.Close()
	data, err := d.readFile(file)
	if err != nil {
		return Table{}, err
	}
	t := Table{Size: int64(len(data))}
	blocks, err := readIndex(data, 0)
	if err != nil {
		t.Index = err
		err = d.walk(&t, data, visit)
		return t, err
	}
	for _, b := range blocks {
		if !d.unpackBlock(data[b.From:b.To]) {
			t.Bad = append(t.Bad, b.Stretch)
			continue
		}
		if err := t.give(d.entries, visit); err != nil {
			return t, err
		}
	}
	return t, nil
}

// ReadBlocks visits the entries of those blocks of a table that wanted chooses by the first key of the block and the
// first key of the next one; nil: there is none. It reads only these blocks and the index. whole reports whether all of
// that could be read; without the index nothing is.
func ReadBlocks(path string, wanted func(first, next []byte) bool, visit func(*Entry) error) (whole bool, err error) {
	d := decoders.Get().(*decoder)
	defer decoders.Put(d)
	file, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer file.Close()
	blocks, err := readIndexOf(file)
	if err != nil || blocks == nil {
		return false, err
	}
	whole = true
	for i, b := range blocks {
		var next []byte
		if i+1 < len(blocks) {
			next = blocks[i+1].first
		}
		if !wanted(b.first, next) {
			continue
		}
		data, err := d.read(file, b.From, b.To)
		if err != nil {
			return false, err
		}
		if !d.unpackBlock(data) {
			whole = false
			continue
		}
		for i := range d.entries {
			if err := visit(&d.entries[i]); err != nil {
				return false, err
			}
		}
	}
	return whole, nil
}

// decoder has the memory for reading tables, which is reused from block to block and from table to table.
type decoder struct {
	data    []byte // of the file
	plain   []byte // of a decompressed block
	keys    []byte // of the entries
	entries []Entry
}

var decoders = sync.Pool{New: func() any { return new(decoder) }}

func (d *decoder) readFile(file *os.File) ([]byte, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	return d.read(file, 0, info.Size())
}

// read reads a part of a file. It is valid until the next call.
func (d *decoder) read(file *os.File, from, to int64) ([]byte, error) {
	d.data = slices.Grow(d.data[:0], int(to-from))[:to-from]
	n, err := file.ReadAt(d.data, from)
	if errors.Is(err, io.EOF) { // the file was truncated in the meantime
		err = nil
	}
	return d.data[:n], err
}

// indexGuess is how much of the end of a table usually holds its index.
const indexGuess = 128 << 10

// readIndexOf returns the blocks of a table without reading them; nil: its index is damaged.
func readIndexOf(file *os.File) ([]block, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	for _, size := range []int64{min(indexGuess, info.Size()), info.Size()} {
		data := make([]byte, size)
		if _, err := file.ReadAt(data, info.Size()-size); err != nil {
			return nil, err
		}
		if blocks, err := readIndex(data, info.Size()-size); err == nil {
			return blocks, nil
		}
	}
	return nil, nil
}

// block is a block of a table, according to its index.
type block struct {
	Stretch
	first []byte // key
}

func (t *Table) give(entries []Entry, visit func(*Entry) error) error {
	t.Blocks++
	t.Entries += len(entries)
	for i := range entries {
		t.Newest = max(t.Newest, entries[i].Version)
		if err := visit(&entries[i]); err != nil {
			return err
		}
	}
	return nil
}

// readIndex returns the blocks, which must fill the file up to the index. data is what the file has from byte at on.
func readIndex(data []byte, at int64) ([]block, error) {
	rest, sum, ok := cutChecksum(data)
	if !ok || len(rest) < 4 {
		return nil, errFooter
	}
	rest, size := rest[:len(rest)-4], int(binary.BigEndian.Uint32(rest[len(rest)-4:]))
	if size <= 0 || size > len(rest) {
		return nil, errFooter
	}
	end := len(rest) - size
	if crc32.Checksum(rest[end:], castagnoli) != sum {
		return nil, errors.New("its checksum does not match")
	}
	index := fb.GetRootAsTableIndex(rest[end:], 0)
	blocks := make([]block, 0, index.OffsetsLength())
	from, indexAt := int64(0), at+int64(end)
	for i := range index.OffsetsLength() {
		var b fb.BlockOffset
		if !index.Offsets(&b, i) || int64(b.Offset()) != from || from+int64(b.Len()) > indexAt {
			return nil, errors.New("its blocks are not contiguous")
		}
		first, _ := splitKey(b.KeyBytes())
		blocks = append(blocks, block{Stretch{from, from + int64(b.Len())}, first})
		from += int64(b.Len())
	}
	if from != indexAt {
		return nil, errors.New("there are bytes between the blocks and the index")
	}
	return blocks, nil
}

// cutChecksum removes a checksum and its length from the end.
func cutChecksum(data []byte) (rest []byte, sum uint32, ok bool) {
	end := len(data) - 4
	if end < 0 {
		return nil, 0, false
	}
	size := int(binary.BigEndian.Uint32(data[end:]))
	if size > maxChecksum || size > end {
		return nil, 0, false
	}
	var checksum pb.Checksum
	if err := proto.Unmarshal(data[end-size:end], &checksum); err != nil || checksum.GetAlgo() != pb.Checksum_CRC32C {
		return nil, 0, false
	}
	return data[:end-size], uint32(checksum.GetSum()), true
}

// unpackBlock reads the entries of a block, including the compressed ones of earlier versions.
func (d *decoder) unpackBlock(data []byte) bool {
	if d.readBlock(data) {
		return true
	}
	if n, err := snappy.DecodedLen(data); err == nil && n <= maxBlock {
		if plain, err := snappy.Decode(d.plain[:cap(d.plain)], data); err == nil {
			d.plain = plain
			return d.readBlock(plain)
		}
	}
	if plain, err := unzstd.DecodeAll(data, nil); err == nil {
		return d.readBlock(plain)
	}
	return false
}

var unzstd, _ = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxBlock))

// readBlock reads the entries of a block with a valid checksum.
func (d *decoder) readBlock(data []byte) bool {
	body, sum, ok := cutChecksum(data)
	if !ok || len(body) < 4 || crc32.Checksum(body, castagnoli) != sum {
		return false
	}
	count := int(binary.BigEndian.Uint32(body[len(body)-4:]))
	offsets := len(body) - 4 - 4*count
	if count <= 0 || count > len(body)/4 || offsets < 0 {
		return false
	}
	offset := func(i int) int {
		if i == count {
			return offsets
		}
		return int(binary.NativeEndian.Uint32(body[offsets+4*i:]))
	}
	d.entries, d.keys = d.entries[:0], d.keys[:0]
	var first []byte
	for i := range count {
		from, to := offset(i), offset(i+1)
		if from < 0 || to > offsets || to-from < 6 {
			return false
		}
		shared, more := int(binary.NativeEndian.Uint16(body[from:])), int(binary.NativeEndian.Uint16(body[from+2:]))
		at := from + 4 + more
		if i == 0 {
			first = body[min(from+4, to):min(at, to)]
		}
		if at+2 > to || shared > len(first) {
			return false
		}
		_, n := binary.Uvarint(body[at+2 : to])
		if n <= 0 {
			return false
		}
		start := len(d.keys)
		d.keys = append(append(d.keys, first[:shared]...), body[from+4:at]...)
		key, version := splitKey(d.keys[start:len(d.keys):len(d.keys)])
		d.entries = append(d.entries, Entry{Key: key, Version: version, Meta: body[at], UserMeta: body[at+1], Value: body[at+2+n : to]})
	}
	return true
}

// walk reads the blocks of a table without its index.
func (d *decoder) walk(t *Table, data []byte, visit func(*Entry) error) error {
	if err := d.walkBy(t, data, visit, d.nextBlock); err != nil || t.Blocks > 0 {
		return err
	}
	return d.walkBy(t, data, visit, d.nextCompressed) // either all blocks of a table are compressed, or none is
}

// walkBy reads the blocks that next finds: next reads the block that begins at from and returns where it ends, or where
// the next one may begin.
func (d *decoder) walkBy(t *Table, data []byte, visit func(*Entry) error, next func(data []byte, from int) (to int, ok bool)) error {
	for from := 0; from < len(data); {
		to, ok := next(data, from)
		if ok {
			if err := t.give(d.entries, visit); err != nil {
				return err
			}
		}
		from = to
	}
	return nil
}

// nextCompressed reads a Snappy block. Its header gives the decompressed size, and so determines where it ends.
func (d *decoder) nextCompressed(data []byte, from int) (to int, ok bool) {
	if size := compressedSize(data[from:]); size > 0 {
		if plain, err := snappy.Decode(nil, data[from:from+size]); err == nil && d.readBlock(plain) {
			return from + size, true
		}
	}
	return from + 1, false
}

// compressedSize returns the size of the Snappy block at the beginning of data; 0: there is none. It reads only as much
// of the elements as their sizes need.
func compressedSize(data []byte) int {
	length, at := binary.Uvarint(data)
	if at <= 0 || length > maxBlock {
		return 0
	}
	for left := int(length); left > 0; {
		if at >= len(data) {
			return 0
		}
		tag := data[at]
		n, size := int(tag>>2)+1, 1
		switch tag & 3 {
		case 0: // literal bytes; from 61 on, the number of bytes of their count
			if more := n - 60; more > 0 {
				if at+1+more > len(data) {
					return 0
				}
				var number [8]byte
				copy(number[:], data[at+1:at+1+more])
				n, size = int(binary.LittleEndian.Uint64(number[:]))+1, 1+more
			}
			size += n
		case 1:
			n, size = int(tag>>2&7)+4, 2
		case 2:
			size = 3
		case 3:
			size = 5
		}
		at, left = at+size, left-n
		if left < 0 || at > len(data) {
			return 0
		}
	}
	return at
}

// nextBlock reads an uncompressed block. A block ends with its checksum, so it can be found by trying.
func (d *decoder) nextBlock(data []byte, from int) (to int, ok bool) {
	next := len(data)
	for at := from + 4; at+4 <= len(data) && at < from+maxBlock; at++ {
		if data[at] != 0 || data[at+1] != 0 || data[at+2] != 0 || data[at+3] > maxChecksum {
			continue
		}
		size := int(data[at+3])
		if size < 2 || at-size < from || data[at-size] != 0x10 && data[at-size] != 0x08 { // tags of an encoded checksum
			continue
		}
		if d.readBlock(data[from : at+4]) {
			return at + 4, true
		}
		next = min(next, at+4)
	}
	return next, false
}
