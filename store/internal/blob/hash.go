package blob

import (
	"encoding/binary"
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

// chainHashes remembers chain hashes, whole and exactly, so that the run of items that an agent sends again with every turn
// need not be hashed item by item. Up to 16,384 are remembered, in 2 MB.
type chainHashes struct {
	slots [16 << 10]atomic.Pointer[chainHash]
}

// chainHash is what follows from the chain hash before an item, and from an item that is a block behind a comma.
type chainHash struct{ before, block, chain kv.Hash }

// after gives the chain hash of an item; scratch is used for its pieces.
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
