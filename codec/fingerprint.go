package codec

import (
	"hash/maphash"
	"sync/atomic"
)

// Fingerprint identifies a block of a request, such as a message, of one account. Agents send the same blocks again
// every turn, and results about a block can be reused. The same bytes have the same fingerprint while the process runs;
// different ones collide for one pair in 2^64, which cannot be chosen, because fingerprints are keyed with a secret.
// Accounts have different fingerprints, so that one account's requests do not make another's faster. 0 means none.
type Fingerprint uint64

// fingerprintFrom is the size in bytes from which a block gets a fingerprint: processing a shorter one costs less.
const fingerprintFrom = 128

var fingerprintSeed = maphash.MakeSeed()

// Fingerprints appends one fingerprint for each of an account's blocks of a body. It reads 4 GB/s.
func Fingerprints(dst []Fingerprint, account string, body []byte, pieces []Span) []Fingerprint {
	of := fingerprintOf(account)
	for _, piece := range pieces {
		var f Fingerprint
		if piece.End-piece.Start >= fingerprintFrom {
			f = Fingerprint(maphash.Bytes(fingerprintSeed, piece.Of(body))) ^ of
		}
		dst = append(dst, f)
	}
	return dst
}

// fingerprintOf returns the value that separates the fingerprints of an account from those of others.
func fingerprintOf(account string) Fingerprint {
	return Fingerprint(maphash.String(fingerprintSeed, account))
}

// FingerprintSet remembers fingerprints in half a megabyte; new ones may overwrite others. It may be used from any
// goroutine.
type FingerprintSet struct {
	slots [64 << 10]atomic.Uint64
}

// Every reports whether is(part) holds for the whole body: for each of the blocks and for the bytes between them.
// Blocks in the set have passed before and are skipped; those that pass are added. prints are the fingerprints of the
// blocks.
func (s *FingerprintSet) Every(body []byte, pieces []Span, prints []Fingerprint, is func(part []byte) bool) bool {
	at := 0
	for i, piece := range pieces {
		if i == len(prints) || piece.Start < at {
			break
		}
		if !is(body[at:piece.Start]) {
			return false
		}
		if at = piece.End; s.Has(prints[i]) {
			continue
		}
		if !is(piece.Of(body)) {
			return false
		}
		s.Add(prints[i])
	}
	return is(body[at:])
}

// Has reports whether f was added; false may be wrong.
func (s *FingerprintSet) Has(f Fingerprint) bool {
	return f != 0 && s.slots[f%Fingerprint(len(s.slots))].Load() == uint64(f)
}

// Add adds f, unless it is 0.
func (s *FingerprintSet) Add(f Fingerprint) {
	if f != 0 {
		s.slots[f%Fingerprint(len(s.slots))].Store(uint64(f))
	}
}
