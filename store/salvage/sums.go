package salvage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
)

// sums verifies records by the checksums of the file's beginnings, which it computes once. So it costs the same however
// many bytes a record claims to have: damage, or a client's bytes, can claim a record at every byte.
type sums struct {
	file   *os.File
	fronts []uint32    // checksums of the first 0, sumStep, 2*sumStep, … bytes
	blocks [2]sumBlock // last read, for the beginnings and the ends of records
	length int64       // of the last record, and the power that shifts a checksum by it
	power  uint32
}

type sumBlock struct {
	number int64
	data   []byte
}

const (
	sumStep = 1 << 10
	sumRead = 256 << 10
)

// sound verifies the checksum of a record.
func (s *sums) sound(from, total int64) (bool, error) {
	to := from + total - crc32.Size
	before, _, err := s.front(&s.blocks[0], from)
	if err != nil {
		return false, err
	}
	sum, rest, err := s.front(&s.blocks[1], to)
	if err != nil || len(rest) < crc32.Size {
		return false, err
	}
	if s.length != to-from {
		s.length, s.power = to-from, powerOf(to-from)
	}
	return sum^multiply(s.power, before) == binary.BigEndian.Uint32(rest), nil
}

// front returns the checksum of the first n bytes, and at least the four bytes after them if there are as many.
func (s *sums) front(b *sumBlock, n int64) (sum uint32, rest []byte, err error) {
	number := n / sumStep
	if err := s.extend(number); err != nil {
		return 0, nil, err
	}
	if b.data == nil || b.number != number {
		if b.data == nil {
			b.data = make([]byte, sumStep+crc32.Size)
		}
		got, err := s.file.ReadAt(b.data[:sumStep+crc32.Size], number*sumStep)
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, nil, fmt.Errorf("read %s: %w", s.file.Name(), err)
		}
		b.number, b.data = number, b.data[:got]
	}
	at := int(n - number*sumStep)
	if at > len(b.data) {
		return 0, nil, nil
	}
	return crc32.Update(s.fronts[number], castagnoli, b.data[:at]), b.data[at:], nil
}

// extend computes checksums up to that of a number of steps.
func (s *sums) extend(number int64) error {
	if s.fronts == nil {
		s.fronts = []uint32{0}
	}
	buf := []byte(nil)
	for int64(len(s.fronts)) <= number {
		if buf == nil {
			buf = make([]byte, sumRead)
		}
		at := int64(len(s.fronts)-1) * sumStep
		n, err := s.file.ReadAt(buf[:min(sumRead, number*sumStep-at)], at)
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("read %s: %w", s.file.Name(), err)
		}
		if n < sumStep {
			return fmt.Errorf("read %s: %w", s.file.Name(), io.ErrUnexpectedEOF) // it was truncated in the meantime
		}
		for part := buf[:n]; len(part) >= sumStep; part = part[sumStep:] {
			s.fronts = append(s.fronts, crc32.Update(s.fronts[len(s.fronts)-1], castagnoli, part[:sumStep]))
		}
	}
	return nil
}

// A checksum is a polynomial over the field of two elements, modulo that of CRC-32C, with the lowest power in the highest
// bit. The checksum of A and B together is that of A, times x to the number of bits of B, plus that of B.

// powers are x to the powers of 1, 2, 4, ….
var powers = func() (p [40]uint32) {
	p[0] = 1 << 30
	for i := 1; i < len(p); i++ {
		p[i] = multiply(p[i-1], p[i-1])
	}
	return p
}()

// powerOf returns x to the number of bits of n bytes.
func powerOf(n int64) uint32 {
	p := uint32(1 << 31)
	for i := 3; n > 0; i, n = i+1, n>>1 {
		if n&1 != 0 {
			p = multiply(powers[i], p)
		}
	}
	return p
}

func multiply(a, b uint32) (product uint32) {
	for ; a != 0; a <<= 1 {
		if a>>31 != 0 {
			product ^= b
		}
		b = b>>1 ^ crc32.Castagnoli&-(b&1)
	}
	return product
}
