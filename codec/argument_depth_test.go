package codec

import (
	"encoding/json"
	"testing"

	"pgregory.net/rapid"

	"github.com/mnemeproxy/mneme/codec/scan"
)

// The end of an object is found wherever it is cut into fragments, and never before it.
func TestArgumentDepthFindsTheEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := map[string]any{}
		for range rapid.IntRange(0, 4).Draw(t, "members") {
			value[rapid.String().Draw(t, "name")] = rapid.OneOf(
				rapid.Custom(func(t *rapid.T) any { return rapid.StringMatching(`[\[\]{}"\\a\n é]*`).Draw(t, "text") }),
				rapid.Custom(func(t *rapid.T) any { return []any{map[string]any{"x": rapid.Int().Draw(t, "n")}, nil, true} }),
			).Draw(t, "value")
		}
		text, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		body := scan.Escape(nil, text)
		noise := []byte(`\n {}`)
		var depth ArgumentDepth
		for from := 0; from < len(body); {
			to := cutAt(body, from, rapid.IntRange(1, len(body)).Draw(t, "cut"))
			fragment := body[from:to]
			last := to == len(body)
			if last {
				fragment = append(append([]byte{}, fragment...), noise...)
			}
			n, done := depth.Feed(fragment)
			if done != last || n != to-from {
				t.Fatalf("%s: fragment %q at %d: %d bytes, done %v", body, fragment, from, n, done)
			}
			from = to
		}
	})
}

// cutAt is an offset not far after from+size that lies between two characters of a string body.
func cutAt(body []byte, from, size int) int {
	i := from
	for i < len(body) && i < from+size {
		switch {
		case body[i] == '\\' && body[i+1] == 'u':
			i += 6
		case body[i] == '\\':
			i += 2
		default:
			i++
		}
		for i < len(body) && body[i]&0xC0 == 0x80 {
			i++
		}
	}
	return min(i, len(body))
}

// What does not begin with a bracket has no end that could be told.
func TestArgumentDepthOfOtherText(t *testing.T) {
	for _, body := range []string{``, ` `, `\"{}\"`, `12`, `}`, `\u0022{}`, `]{}`} {
		var depth ArgumentDepth
		if n, done := depth.Feed([]byte(body)); done || n != len(body) {
			t.Errorf("%s: %d bytes, done %v", body, n, done)
		}
	}
	var depth ArgumentDepth
	if n, done := depth.Feed([]byte(`\u007b\u0022\u007D\u0022\u007d,`)); !done || n != 30 {
		t.Errorf("escaped brackets: %d bytes, done %v", n, done)
	}
}
