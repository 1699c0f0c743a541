package salvage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"

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
	data, err := os.ReadFile(path)
	if err != nil {
		return Table{}, err
	}
	t := Table{Size: int64(len(data))}
	blocks, err := readIndex(data)
	if err != nil {
		t.Index = err
		err = t.walk(data, visit)
		return t, err
	}
	for _, b := range blocks {
		entries, ok := unpackBlock(data[b.From:b.To])
		if !ok {
			t.Bad = append(t.Bad, b)
			continue
		}
		if err := t.give(entries, visit); err != nil {
			return t, err
		}
	}
	return t, nil
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

// readIndex returns the blocks, which must fill the file up to the index.
func readIndex(data []byte) ([]Stretch, error) {
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
	blocks := make([]Stretch, 0, index.OffsetsLength())
	at := int64(0)
	for i := range index.OffsetsLength() {
		var b fb.BlockOffset
		if !index.Offsets(&b, i) || int64(b.Offset()) != at || at+int64(b.Len()) > int64(end) {
			return nil, errors.New("its blocks are not contiguous")
		}
		blocks = append(blocks, Stretch{at, at + int64(b.Len())})
		at += int64(b.Len())
	}
	if at != int64(end) {
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

// unpackBlock reads a block, including the compressed ones of earlier versions.
func unpackBlock(data []byte) ([]Entry, bool) {
	if entries, ok := readBlock(data); ok {
		return entries, true
	}
	if n, err := snappy.DecodedLen(data); err == nil && n <= maxBlock {
		if plain, err := snappy.Decode(nil, data); err == nil {
			return readBlock(plain)
		}
	}
	if plain, err := unzstd.DecodeAll(data, nil); err == nil {
		return readBlock(plain)
	}
	return nil, false
}

var unzstd, _ = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxBlock))

// readBlock reads a block with a valid checksum.
func readBlock(data []byte) ([]Entry, bool) {
	body, sum, ok := cutChecksum(data)
	if !ok || len(body) < 4 || crc32.Checksum(body, castagnoli) != sum {
		return nil, false
	}
	count := int(binary.BigEndian.Uint32(body[len(body)-4:]))
	offsets := len(body) - 4 - 4*count
	if count <= 0 || count > len(body)/4 || offsets < 0 {
		return nil, false
	}
	offset := func(i int) int {
		if i == count {
			return offsets
		}
		return int(binary.NativeEndian.Uint32(body[offsets+4*i:]))
	}
	entries := make([]Entry, 0, count)
	var first []byte
	for i := range count {
		from, to := offset(i), offset(i+1)
		if from < 0 || to > offsets || to-from < 6 {
			return nil, false
		}
		shared, more := int(binary.NativeEndian.Uint16(body[from:])), int(binary.NativeEndian.Uint16(body[from+2:]))
		at := from + 4 + more
		if i == 0 {
			first = body[min(from+4, to):min(at, to)]
		}
		if at+2 > to || shared > len(first) {
			return nil, false
		}
		_, n := binary.Uvarint(body[at+2 : to])
		if n <= 0 {
			return nil, false
		}
		whole := append(append(make([]byte, 0, shared+more), first[:shared]...), body[from+4:at]...)
		key, version := splitKey(whole)
		entries = append(entries, Entry{Key: key, Version: version, Meta: body[at], UserMeta: body[at+1], Value: body[at+2+n : to]})
	}
	return entries, true
}

// walk reads the blocks of a table without its index.
func (t *Table) walk(data []byte, visit func(*Entry) error) error {
	if err := t.walkBy(data, visit, nextBlock); err != nil || t.Blocks > 0 {
		return err
	}
	return t.walkBy(data, visit, nextCompressed) // either all blocks of a table are compressed, or none is
}

// walkBy reads the blocks that next finds: next reads the block that begins at from, or returns nil and where the next
// one may begin.
func (t *Table) walkBy(data []byte, visit func(*Entry) error, next func(data []byte, from int) ([]Entry, int)) error {
	for from := 0; from < len(data); {
		entries, to := next(data, from)
		if entries == nil {
			from = to
			continue
		}
		if err := t.give(entries, visit); err != nil {
			return err
		}
		from = to
	}
	return nil
}

// nextCompressed reads a Snappy block. Its header gives the decompressed size, and so determines where it ends.
func nextCompressed(data []byte, from int) ([]Entry, int) {
	if size := compressedSize(data[from:]); size > 0 {
		if plain, err := snappy.Decode(nil, data[from:from+size]); err == nil {
			if entries, ok := readBlock(plain); ok {
				return entries, from + size
			}
		}
	}
	return nil, from + 1
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
func nextBlock(data []byte, from int) ([]Entry, int) {
	next := len(data)
	for at := from + 4; at+4 <= len(data) && at < from+maxBlock; at++ {
		if data[at] != 0 || data[at+1] != 0 || data[at+2] != 0 || data[at+3] > maxChecksum {
			continue
		}
		size := int(data[at+3])
		if size < 2 || at-size < from || data[at-size] != 0x10 && data[at-size] != 0x08 { // tags of an encoded checksum
			continue
		}
		if entries, ok := readBlock(data[from : at+4]); ok {
			return entries, at + 4
		}
		next = min(next, at+4)
	}
	return nil, next
}
