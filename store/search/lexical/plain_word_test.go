package lexical

import (
	"math/rand/v2"
	"testing"
)

func TestPlainWordsAreNoIdentifiers(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	plain := 0
	for range 100_000 {
		word := make([]byte, 1+random.IntN(6))
		for i := range word {
			word[i] = "aaaabbz.._A1-/:"[random.IntN(15)]
		}
		if !plainWord(word) {
			continue
		}
		plain++
		if found := appendIdentifier(nil, word, 0, len(word)); len(found) > 0 {
			t.Fatalf("%q is found by %q", word, found[0].term)
		}
	}
	if plain < 1000 {
		t.Errorf("only %d words were plain", plain)
	}
}
