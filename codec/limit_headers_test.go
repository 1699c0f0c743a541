package codec_test

import (
	"testing"

	"github.com/mnemeproxy/mneme/codec"
)

func TestAHeaderOfALimitIsToldByItsName(t *testing.T) {
	own := codec.LimitHeaders{Limit: "Own-*-Limit"}
	for _, c := range []struct {
		headers       *codec.LimitHeaders
		pattern, name string
		want          bool
	}{
		{&codec.OpenAILimits, codec.OpenAILimits.Limit, "X-Ratelimit-Limit-Tokens", true},
		{&codec.OpenAILimits, codec.OpenAILimits.Limit, "X-Ratelimit-Limit-Requests", false},
		{&codec.OpenAILimits, codec.OpenAILimits.Limit, "X-Ratelimit-Reset-Tokens", false},
		{&own, own.Limit, "Own-Tokens-Limit", true},
		{&own, own.Limit, "Own-Input-Tokens-Limit", false},
		{&own, own.Limit, "Own-Limit", false},
		{&own, own.Reset, "Own-Tokens-Limit", false}, // there is none
	} {
		if got := c.headers.Is(c.name, c.pattern, "Tokens"); got != c.want || got != (c.name == c.headers.Name(c.pattern, "Tokens")) {
			t.Errorf("%q is %q of tokens: %v, want %v", c.name, c.pattern, got, c.want)
		}
	}
	if n := testing.AllocsPerRun(100, func() { own.Is("Own-Tokens-Limit", own.Limit, "Tokens") }); n > 0 {
		t.Errorf("a header is compared with %v allocations", n)
	}
}
