package crossing

import (
	"encoding/json"
	"testing"

	"pgregory.net/rapid"

	"github.com/mnemeproxy/mneme/codec/scan"
)

// cuts draws pieces of a string body as a decoder gives them: cut anywhere but inside an escape or a character.
func cuts(t *rapid.T, body string) []string {
	var pieces []string
	from := 0
	for i := 0; i < len(body); {
		n := 1
		switch {
		case body[i] == '\\' && i+1 < len(body) && body[i+1] == 'u':
			n = 6
		case body[i] == '\\':
			n = 2
		default:
			for i+n < len(body) && body[i+n]&0xc0 == 0x80 {
				n++
			}
		}
		i += n
		if rapid.IntRange(0, 2).Draw(t, "cut") == 0 {
			pieces = append(pieces, body[from:i])
			from = i
		}
	}
	return append(pieces, body[from:])
}

// escapeAs writes text as a string body, in the shortest form, as ASCII, or with the escapes of a careful encoder.
func escapeAs(style int, text string) string {
	switch style {
	case 0:
		return string(scan.Escape(nil, []byte(text)))
	case 1:
		b, _ := json.Marshal(text)
		return string(b[1 : len(b)-1])
	default:
		var ascii []byte
		for _, unit := range utf16Of(text) {
			const hex = "0123456789abcdef"
			ascii = append(ascii, '\\', 'u', hex[unit>>12], hex[unit>>8&15], hex[unit>>4&15], hex[unit&15])
		}
		return string(ascii)
	}
}

func utf16Of(text string) (units []uint16) {
	for _, r := range text {
		if r >= 0x10000 {
			r -= 0x10000
			units = append(units, uint16(0xd800+r>>10), uint16(0xdc00+r&0x3ff))
			continue
		}
		units = append(units, uint16(r))
	}
	return units
}

func unwrapped(pieces []string) string {
	var u unwrapper
	var out []byte
	for _, piece := range pieces {
		out = u.pass(out, []byte(piece))
	}
	return string(u.end(out))
}

// The text comes out of the wrapper whole, however it is escaped on both levels and wherever the fragments are cut.
func TestFreeTextComesOutOfItsWrapper(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(rapid.RuneFrom([]rune("a\"\\/\n\té漢😀\u0000{}:*"))).Draw(t, "text")
		inner := `{"input":"` + escapeAs(rapid.IntRange(0, 2).Draw(t, "inner"), text) + `"}`
		if rapid.Bool().Draw(t, "spaced") {
			inner = "{ \"input\" : \"" + inner[len(`{"input":"`):len(inner)-1] + " }\n"
		}
		outer := escapeAs(rapid.IntRange(0, 2).Draw(t, "outer"), inner)
		got := unwrapped(cuts(t, outer))
		if decoded := scan.Text([]byte(got)); decoded != text {
			t.Fatalf("%s gives %s, which is %q, want %q", outer, got, decoded, text)
		}
	})
}

// No delta of the text may end inside an escape: clients decode each on its own.
func TestFreeTextIsNeverCutInsideAnEscape(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(rapid.RuneFrom([]rune("a\"\\\né"))).Draw(t, "text")
		outer := escapeAs(0, `{"input":"`+escapeAs(rapid.IntRange(0, 1).Draw(t, "inner"), text)+`"}`)
		var u unwrapper
		for _, piece := range cuts(t, outer) {
			if delta := u.pass(nil, []byte(piece)); !json.Valid([]byte(`"` + string(delta) + `"`)) {
				t.Fatalf("the delta %q of %s is cut", delta, outer)
			}
		}
	})
}

func TestWhatIsNoWrapperIsTheText(t *testing.T) {
	for _, c := range []struct{ name, arguments, want string }{
		{"raw text", `*** Begin Patch\nx`, `*** Begin Patch\nx`},
		{"another member first", `{\"path\":\"a\"}`, `{\"path\":\"a\"}`},
		{"a member that begins alike", `{\"inputs\":\"a\"}`, `{\"inputs\":\"a\"}`},
		{"an empty object", `{}`, ``},
		{"nothing", ``, ``},
		{"the beginning of a wrapper", `{\"inp`, `{\"inp`},
		{"a wrapper cut in the text", `{\"input\":\"half`, `half`},
		{"more members behind the text", `{\"input\":\"a\",\"n\":1}`, `a`},
		{"the escapes of the worked example", `{\"input\":\"*** Begin Patch\\n*** Add \\u00e9\"}`, `*** Begin Patch\n*** Add \u00e9`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := unwrapped([]string{c.arguments}); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}
