package synonyms

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"testing"
)

// sum is that of the table. After go generate with other words, it is the one that the test shows.
const sum = "e6e16a5d678972f2549a3a3a7aa569226507c466e58dd3603828a80a304cd3d6"

func TestTheTableIsTheOneThatWasMade(t *testing.T) {
	made := sha256.Sum256([]byte(table))
	if got := hex.EncodeToString(made[:]); got != sum {
		t.Errorf("the table's SHA-256 is %s, want %s", got, sum)
	}
}

func TestEveryWordOfTheTableIsFound(t *testing.T) {
	before, words := "", 0
	for i := range number(4) {
		e := entry{rest: block(i)}
		for range min(wordsInBlock, number(0)-i*wordsInBlock) {
			e.next()
			word := string(e.word)
			if word <= before {
				t.Fatalf("%q follows %q", word, before)
			}
			if got := wordAt(words); got != word {
				t.Fatalf("word %d is %q, want %q", words, got, word)
			}
			if packed, known := find(word); !known || packed != e.synonyms {
				t.Fatalf("%q is not found", word)
			}
			before = word
			words++
		}
	}
	if words != number(0) || words < 50_000 {
		t.Errorf("the table has %d words, and says %d", words, number(0))
	}
}

func TestWordsHaveSynonymsInAllTheirForms(t *testing.T) {
	for word, want := range map[string]string{
		"purchase": "buy", "purchased": "buy", "purchases": "buy", "purchasing": "buy", // regular
		"bought": "purchase", "went": "go", "stopped": "halt", // irregular, and with a letter doubled
		"automobile": "car", "database": "db", "select": "choose",
	} {
		found, english := Of(word)
		if !english || !slices.ContainsFunc(found, func(s Synonym) bool { return s.Word == want }) {
			t.Errorf("synonyms of %q are %v, want %q among them", word, found, want)
		}
		if len(found) > Most || !slices.IsSortedFunc(found, func(a, b Synonym) int { return strings.Compare(weightOrder(a), weightOrder(b)) }) {
			t.Errorf("synonyms of %q are not the best %d in order: %v", word, Most, found)
		}
	}
	for _, word := range []string{"", "zzyzx", "höhe", "lisbon", "e4711", "\x00", strings.Repeat("a", 300)} {
		if found, english := Of(word); english || len(found) > 0 {
			t.Errorf("%q has synonyms: %v", word, found)
		}
	}
}

// weightOrder sorts like weights, the highest first.
func weightOrder(s Synonym) string {
	return string(rune('a' + slices.Index(Weights[:], s.Weight)))
}

func TestALookupAllocatesNoMoreThanItsSynonyms(t *testing.T) {
	if most := testing.AllocsPerRun(100, func() { Of("zzyzx") }); most > 4 {
		t.Errorf("a word without synonyms allocates %v times", most)
	}
}
