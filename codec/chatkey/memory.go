package chatkey

import (
	"encoding/binary"
	"hash/maphash"
	"sync/atomic"

	"github.com/mnemeproxy/mneme/codec"
)

// Memory remembers the keys of conversations that have gone on beyond what keys stand for: an agent's opening comes again with
// every turn and need not be read again. It remembers 4,096 in half a megabyte and may be used from any goroutine.
type Memory struct {
	slots [4 << 10]atomic.Pointer[derived]
}

type derived struct {
	opening uint64
	keys    Keys
}

const (
	openingItems  = 4 // mostly enough for keys: instructions, a question, its answer, and what shows that the answer is over
	openingBlocks = 8 // of system text at most, where keys are remembered
)

// Derive gives what [Derive] gives, for a request of an account.
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

// openingHash stands for the system text and the first items of an account's request. It is made with a secret, so that
// nobody can pick two that have the same.
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
