package blob

import (
	"testing"

	"github.com/mnemeproxy/mneme/codec"
)

func TestSpansThatAreNotOfTheBodyAreNotCutAlong(t *testing.T) {
	for _, spans := range [][]codec.Span{{{Start: 5, End: 3}}, {{Start: 0, End: 99}}, {{Start: 3, End: 5}, {Start: 4, End: 6}}, {{Start: -1, End: 2}}} {
		if worthCutting(spans, 10) != nil {
			t.Errorf("%v is taken for spans of ten bytes", spans)
		}
	}
}
