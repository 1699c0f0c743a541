package codec

import (
	"hash/maphash"
	"sync/atomic"

	"github.com/mnemeproxy/mneme/codec/scan"
)

// Recurrence remembers long values that come again in document after document, such as the tools that a provider repeats
// in each of its answers: comparing a hash takes a tenth of the time of validating them. A value is looked for by its
// beginning. It remembers 1,024 values and may be used from any goroutine. Accounts are separate, as in [Fingerprint].
type Recurrence struct {
	slots [1 << 10]struct{ beginning, print, size atomic.Uint64 } // of whole values; may be of several, as in [Succession]
}

const (
	recurringFrom = 4 << 10 // bytes of a value that is remembered
	beginningSize = 256     // bytes by which it is looked for
)

// Skip is [scan.SkipValid] for a document of an account. Nothing is remembered for the account "".
func (r *Recurrence) Skip(account string, doc []byte, i int) (end int, ok bool) {
	if account == "" || len(doc)-i < recurringFrom || scan.IsNumber(doc[i:]) {
		return scan.SkipValid(doc, i)
	}
	of := fingerprintOf(account)
	print := func(value []byte) uint64 { return uint64(Fingerprint(maphash.Bytes(fingerprintSeed, value)) ^ of) }
	beginning := print(doc[i : i+beginningSize])
	slot := &r.slots[beginning%uint64(len(r.slots))]
	if slot.beginning.Load() == beginning {
		end = i + int(slot.size.Load())
		if end > i && end <= len(doc) && print(doc[i:end]) == slot.print.Load() {
			return end, true
		}
	}
	if end, ok = scan.SkipValid(doc, i); ok && end-i >= recurringFrom {
		slot.beginning.Store(beginning)
		slot.print.Store(print(doc[i:end]))
		slot.size.Store(uint64(end - i))
	}
	return end, ok
}
