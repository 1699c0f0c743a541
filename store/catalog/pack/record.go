package pack

import (
	"bytes"
	"encoding/binary"
	"errors"

	"github.com/zeebo/blake3"

	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// magic begins a pack. Its last byte is the version of the format.
const magic = "mnemepk\x01"

// A record is a name and a value, each after its length, and their checksum.
const checksumSize = 8

// ErrDamaged is the error of a value that differs from what was written.
var ErrDamaged = errors.New("its bytes in the bucket are damaged")

// Builder builds a pack of one account.
type Builder struct {
	account kv.AccountNumber
	content []byte
	hasher  *blake3.Hasher
}

// NewBuilder starts a pack.
func NewBuilder(account kv.AccountNumber) *Builder {
	return &Builder{account: account, content: []byte(magic), hasher: blake3.New()}
}

// Add appends a value, and returns the place of its record.
func (b *Builder) Add(name, value []byte) (at, size int) {
	at = len(b.content)
	b.content = append(binary.AppendUvarint(b.content, uint64(len(name))), name...)
	b.content = append(binary.AppendUvarint(b.content, uint64(len(value))), value...)
	sum := checksum(b.hasher, b.account, b.content[at:])
	b.content = append(b.content, sum[:]...)
	return at, len(b.content) - at
}

// AddRecord appends the record of another pack of the account, even a damaged one.
func (b *Builder) AddRecord(record []byte) (at, size int) {
	at = len(b.content)
	b.content = append(b.content, record...)
	return at, len(record)
}

// Empty reports whether nothing was added.
func (b *Builder) Empty() bool { return len(b.content) == len(magic) }

// Content returns the pack. It must not be changed.
func (b *Builder) Content() []byte { return b.content }

// checksum includes the account, so that a pack cannot pass for another account's.
func checksum(h *blake3.Hasher, account kv.AccountNumber, record []byte) (sum [checksumSize]byte) {
	h.Reset()
	_, _ = h.Write(binary.BigEndian.AppendUint32(nil, uint32(account)))
	_, _ = h.Write(record)
	_, _ = h.Digest().Read(sum[:])
	return sum
}

// readRecord returns the value of a record, which points into it.
func readRecord(account kv.AccountNumber, name, record []byte) ([]byte, error) {
	end := len(record) - checksumSize
	if end < 0 {
		return nil, ErrDamaged
	}
	if sum := checksum(blake3.New(), account, record[:end]); !bytes.Equal(sum[:], record[end:]) {
		return nil, ErrDamaged
	}
	found, rest, ok := cutField(record[:end])
	value, rest, last := cutField(rest)
	if !ok || !last || len(rest) > 0 || !bytes.Equal(found, name) {
		return nil, ErrDamaged
	}
	return value, nil
}

func cutField(from []byte) (field, rest []byte, ok bool) {
	size, width := binary.Uvarint(from)
	if width <= 0 || size > uint64(len(from)-width) {
		return nil, nil, false
	}
	end := width + int(size)
	return from[width:end:end], from[end:], true
}
