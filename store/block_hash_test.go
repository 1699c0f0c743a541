package store

import (
	"bytes"
	"testing"

	"github.com/zeebo/blake3"

	"github.com/mnemeproxy/mneme/codec"
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
