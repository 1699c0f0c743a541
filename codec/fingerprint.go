package codec

import (
	"hash/maphash"
	"sync/atomic"
)

// Fingerprint stands for a piece of a request, such as a message, of one account. Agents send the same pieces again every
// turn, and what was found out about one need not be found out again. The same bytes have the same fingerprint while the
// process runs; others differ but for one pair in 2^64, which nobody can pick, because fingerprints are made with a secret.
// That of another account differs, so that what one account has sent does not make requests of another faster. 0 is none.
type Fingerprint uint64

// fingerprintFrom is the size in bytes from which a piece gets a fingerprint: looking at a shorter one costs less.
const fingerprintFrom = 128

var fingerprintSeed = maphash.MakeSeed()

// Fingerprints appends those of an account's pieces of a body, one each. It reads 4 GB/s.
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

// fingerprintOf is what tells the fingerprints of an account from those of others.
func fingerprintOf(account string) Fingerprint {
	return Fingerprint(maphash.String(fingerprintSeed, account))
}

// FingerprintSet remembers fingerprints in half a megabyte, where another one may take the place of one that was added.
// It may be used from any goroutine.
type FingerprintSet struct {
	slots [64 << 10]atomic.Uint64
}

// Every reports whether is(part) holds for the whole body: for each of the pieces and for what stands between them. Pieces
// in the set passed before and are skipped; those that pass are added. prints are the fingerprints of the pieces.
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

// Add adds f, unless it is none.
func (s *FingerprintSet) Add(f Fingerprint) {
	if f != 0 {
		s.slots[f%Fingerprint(len(s.slots))].Store(uint64(f))
	}
}
