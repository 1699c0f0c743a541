package chatkey

import (
	"encoding/binary"
	"hash/maphash"
	"sync/atomic"

	"github.com/mnemeproxy/mneme/codec"
)

// Memory caches the keys of conversations that have continued beyond the part that keys cover: an agent's opening is
// resent with every turn and need not be read again. It holds 4,096 in half a megabyte and may be used concurrently.
type Memory struct {
	slots [4 << 10]atomic.Pointer[derived]
}

type derived struct {
	opening uint64
	keys    Keys
}

const (
	openingItems  = 4 // usually enough for keys: instructions, a question, its answer, and an item that shows that the answer is complete
	openingBlocks = 8 // maximum of system text for which keys are cached
)

// Derive returns the result of [Derive] for a request of an account.
func (m *Memory) Derive(account string, surface codec.Format, body []byte, e *codec.Envelope) Keys {
	if len(e.Items) < openingItems || len(e.Opening) > openingBlocks {
		return Derive(surface, body, e)
	}
	opening := openingHash(account, surface, body, e)
	slot := &m.slots[opening%uint64(len(m.slots))]
	if known := slot.Load(); known != nil && known.opening == opening {
		return known.keys
	}
	keys, read := derive(surface, body, e)
	if read <= openingItems {
		slot.Store(&derived{opening, keys})
	}
	return keys
}

var openingSeed = maphash.MakeSeed()

// openingHash hashes the system text and the first items of an account's request with a secret, so that nobody can
// construct a collision.
func openingHash(account string, surface codec.Format, body []byte, e *codec.Envelope) uint64 {
	var room [8 * (2 + openingBlocks + openingItems)]byte
	sums := binary.LittleEndian.AppendUint64(room[:0], maphash.String(openingSeed, account))
	sums = binary.LittleEndian.AppendUint64(sums, uint64(surface)<<32|uint64(len(e.Opening)))
	for _, of := range [...][]codec.Span{e.Opening, e.Items[:openingItems]} {
		for _, piece := range of {
			sums = binary.LittleEndian.AppendUint64(sums, maphash.Bytes(openingSeed, piece.Of(body)))
		}
	}
	return maphash.Bytes(openingSeed, sums)
}
