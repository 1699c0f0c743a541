package store

import (
	"hash/maphash"
	"sync/atomic"

	"github.com/zeebo/blake3"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// blockHashes remembers the hashes of blocks that were hashed last, by their fingerprints: agents send the same blocks again
// every turn, and to tell by two fingerprints of 64 bits, made with secrets that are independent, that a block is the same takes
// less than half of the time that hashing it takes. Up to 32,768 are remembered, in 2 MB.
type blockHashes struct {
	slots [32 << 10]atomic.Pointer[blockHash]
}

type blockHash struct {
	print codec.Fingerprint
	check uint64 // the second fingerprint
	hash  kv.Hash
}

var blockSeed = maphash.MakeSeed()

// of gives the hash of a block. print is its fingerprint, 0 if it has none.
func (b *blockHashes) of(raw []byte, print codec.Fingerprint) kv.Hash {
	if print == 0 {
		return blake3.Sum256(raw)
	}
	check := maphash.Bytes(blockSeed, raw)
	slot := &b.slots[print%codec.Fingerprint(len(b.slots))]
	if known := slot.Load(); known != nil && known.print == print && known.check == check {
		return known.hash
	}
	fresh := &blockHash{print, check, blake3.Sum256(raw)}
	slot.Store(fresh)
	return fresh.hash
}
