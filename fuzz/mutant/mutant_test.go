package mutant_test

import (
	"slices"
	"testing"

	"github.com/mnemeproxy/mneme/fuzz/mutant"
)

func TestEveryRunTriesTheSameVariants(t *testing.T) {
	runs := make([][]string, 2)
	for i := range runs {
		target := mutant.Each(50, func(_ *testing.T, body []byte, text string, size uint16) {
			runs[i] = append(runs[i], string(body)+"|"+text+"|"+string(rune(size)))
		})
		target(t, []byte(`{"a":1}`), "text", 7)
	}
	if !slices.Equal(runs[0], runs[1]) {
		t.Errorf("%q, and then %q", runs[0], runs[1])
	}
	if runs[0][0] != "{\"a\":1}|text|\x07" {
		t.Errorf("the input itself comes as %q", runs[0][0])
	}
	slices.Sort(runs[0])
	if n := len(slices.Compact(runs[0])); n < 40 {
		t.Errorf("%d of 51 inputs differ", n)
	}
}

func TestTheInputOfTheCorpusIsNotChanged(t *testing.T) {
	input := []byte("hello, this is the input")
	mutant.Each(500, func(*testing.T, []byte) {})(t, input)
	if string(input) != "hello, this is the input" {
		t.Errorf("it became %q", input)
	}
}
