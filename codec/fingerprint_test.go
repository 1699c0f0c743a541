package codec_test

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/mnemeproxy/mneme/codec"
)

func TestFingerprintsTellPiecesAndAccountsApart(t *testing.T) {
	long := strings.Repeat("the same words ", 20)
	body := []byte(long + long + "short" + long[1:] + ".")
	n := len(long)
	pieces := []codec.Span{{Start: 0, End: n}, {Start: n, End: 2 * n}, {Start: 2 * n, End: 2*n + 5}, {Start: 2*n + 5, End: len(body)}}
	of := codec.Fingerprints(nil, "acme", body, pieces)
	if of[0] != of[1] || of[0] == of[3] || of[0] == 0 {
		t.Errorf("fingerprints of a piece, the same again, a short and another one: %v", of)
	}
	if of[2] != 0 {
		t.Error("a short piece has a fingerprint")
	}
	if other := codec.Fingerprints(nil, "other", body, pieces); other[0] == of[0] {
		t.Error("another account's piece has the same fingerprint")
	}
}

func TestASetHasOnlyWhatWasAdded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var set codec.FingerprintSet
		if set.Add(0); set.Has(0) {
			t.Fatal("none is in the set")
		}
		prints := rapid.SliceOf(rapid.Custom(func(t *rapid.T) codec.Fingerprint {
			return codec.Fingerprint(rapid.Uint64Range(0, 3).Draw(t, "high")<<62 | rapid.Uint64Range(0, 3).Draw(t, "low"))
		})).Draw(t, "fingerprints")
		added := prints[:rapid.IntRange(0, len(prints)).Draw(t, "added")]
		for _, f := range added {
			if set.Add(f); f != 0 && !set.Has(f) {
				t.Fatalf("%x is not in the set after it was added", f)
			}
		}
		for _, f := range prints {
			if set.Has(f) && !slices.Contains(added, f) {
				t.Fatalf("%x is in the set and was not added", f)
			}
		}
	})
}
