package blob

import (
	"bytes"
	"testing"

	"github.com/zeebo/blake3"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/internal/kv"
)

func TestABlockHasItsOwnHashWhateverItsFingerprint(t *testing.T) {
	var hashes blockHashes
	block := bytes.Repeat([]byte("block "), 100)
	other := bytes.Replace(block, []byte("block"), []byte("other"), 1)
	same := codec.Fingerprint(1 << 40) // of both, as if they met
	for range 2 {
		for _, raw := range [][]byte{block, other} {
			for _, print := range []codec.Fingerprint{0, same, same + 1, same + codec.Fingerprint(len(hashes.slots))} {
				if hashes.of(raw, print) != blake3.Sum256(raw) {
					t.Errorf("a block with the fingerprint %x has another hash", print)
				}
			}
		}
	}
}

func TestAnItemHasItsOwnChainHashWhateverIsRemembered(t *testing.T) {
	var chains chainHashes
	scratch := make([]byte, 0, 512)
	text := bytes.Repeat([]byte("text "), 100)
	items := []item{
		{block: true, comma: true, hash: kv.Hash{1}},
		{block: true, comma: true, hash: kv.Hash{0, 0, 0, 0, 0, 0, 0, 0, 9}}, // in the slot of the next two
		{block: true, comma: true, hash: kv.Hash{8: 7}},
		{block: true, hash: kv.Hash{8: 7}},
		{block: true, text: text, hash: kv.Hash{1}},
		{text: text},
	}
	for range 2 {
		for _, before := range []kv.Hash{{}, {8: 1}, {1}} {
			for i := range items {
				want := blake3.Sum256(items[i].append(bytes.Clone(before[:])))
				if chains.after(before, &items[i], scratch) != want {
					t.Errorf("item %d behind %x has another chain hash", i, before)
				}
			}
		}
	}
}
