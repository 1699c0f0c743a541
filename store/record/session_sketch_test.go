package record

import (
	"slices"
	"testing"
)

func TestASessionKeepsTheSizesOfItsLastPrompts(t *testing.T) {
	var s Session
	turn := func(tokens int64) *ExchangeInfo {
		return &ExchangeInfo{Usage: UsageInfo{InputUncached: 1, CacheRead: tokens - 1}}
	}
	for n := range int64(maxPrompts + 2) {
		s.Sketch(turn(100+n), 1)
	}
	if len(s.Prompts) != maxPrompts || s.Prompts[0] != 102 {
		t.Errorf("kept are %v", s.Prompts)
	}
	before := s.Prompts
	s.Sketch(turn(103), -1)
	if len(s.Prompts) != maxPrompts-1 || slices.Contains(s.Prompts, 103) || !slices.Contains(before, 103) {
		t.Errorf("after one was taken out: %v, and who read it before has %v", s.Prompts, before)
	}
	auxiliary := turn(7)
	auxiliary.Auxiliary = AuxiliaryTokens
	s.Sketch(auxiliary, 1)
	if slices.Contains(s.Prompts, 7) {
		t.Error("a request of the client's own is among them")
	}
}
