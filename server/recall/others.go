package recall

import (
	"math"
	"strings"

	"github.com/mnemeproxy/mneme/store/search"
	"github.com/mnemeproxy/mneme/store/search/lexical"
)

// others is what the rounds of one answer say. A quotation repeats as little as possible of it: what many of them say, such as that all
// tests pass, tells the reader nothing, and a sentence that was quoted once is not quoted again.
type others struct {
	rounds int
	in     map[string]int  // number of rounds by word
	quoted map[string]bool // sentences
}

func newOthers() *others { return &others{in: make(map[string]int), quoted: make(map[string]bool)} }

// add counts the words of what a round says.
func (o *others) add(said string) {
	o.rounds++
	for word := range lexical.Known(said) {
		o.in[word]++
	}
}

// fewestRounds are needed to say that a word is rare among them.
const fewestRounds = 4

// rarity is 1 for words that no other round has, and 0 for words that all have.
func (o *others) rarity(words map[string]bool) float64 {
	if o == nil || o.rounds < fewestRounds {
		return 0
	}
	sum := 0.0
	for word := range words {
		sum += math.Log(float64(o.rounds) / float64(max(o.in[word], 1)))
	}
	return sum / math.Log(float64(o.rounds)) / float64(max(len(words), 1))
}

// quote notes the sentences of a quotation.
func (o *others) quote(text string) {
	if o == nil {
		return
	}
	for _, sentence := range search.Sentences(text) {
		o.quoted[strings.TrimSpace(sentence)] = true
	}
}

func (o *others) has(sentence string) bool { return o != nil && o.quoted[strings.TrimSpace(sentence)] }
