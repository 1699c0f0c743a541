package blob

import (
	"encoding/binary"
	"hash/maphash"
	"sync/atomic"

	"github.com/zeebo/blake3"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// blockHashes caches the hashes of recent blocks by their fingerprints: agents send the same blocks again every turn,
// and recognizing a block by two 64-bit fingerprints with independent secrets takes less than half the time of hashing
// it. It holds up to 32,768 hashes, in 2 MB.
type blockHashes struct {
	slots [32 << 10]atomic.Pointer[blockHash]
}

type blockHash struct {
	print codec.Fingerprint
	check uint64 // the second fingerprint
	hash  kv.Hash
}

var blockSeed = maphash.MakeSeed()

// of returns the hash of a block. print is its fingerprint, 0 if it has none.
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

// chainHashes caches chain hashes, in full, so that the run of items that an agent resends with every turn need not be
// hashed item by item. It holds up to 16,384, in 2 MB.
type chainHashes struct {
	slots [16 << 10]atomic.Pointer[chainHash]
}

// chainHash follows from the chain hash before an item, and from an item that is a block after a comma.
type chainHash struct{ before, block, chain kv.Hash }

// after returns the chain hash of an item; scratch is used for its pieces.
func (c *chainHashes) after(before kv.Hash, it *item, scratch []byte) kv.Hash {
	if !it.block || !it.comma {
		return blake3.Sum256(it.append(append(scratch[:0], before[:]...)))
	}
	at := binary.LittleEndian.Uint64(before[:]) ^ binary.LittleEndian.Uint64(it.hash[:])
	slot := &c.slots[at%uint64(len(c.slots))]
	if known := slot.Load(); known != nil && known.before == before && known.block == it.hash {
		return known.chain
	}
	fresh := &chainHash{before, it.hash, blake3.Sum256(it.append(append(scratch[:0], before[:]...)))}
	slot.Store(fresh)
	return fresh.chain
}
