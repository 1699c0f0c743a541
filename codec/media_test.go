package codec_test

import (
	"testing"

	"github.com/mnemeproxy/mneme/codec"
)

func TestADataURLIsTakenApart(t *testing.T) {
	for url, want := range map[string][2]string{
		"data:image/png;base64,AA==":                {"image/png", "AA=="},
		"data:text/plain;charset=utf-8;base64,AA==": {"text/plain", "AA=="},
		"data:;base64,AA==":                         {"", "AA=="},
		"data:image/png;base64,":                    {"image/png", ""},
	} {
		mediaType, data, ok := codec.CutDataURL([]byte(url))
		if !ok || string(mediaType) != want[0] || string(data) != want[1] {
			t.Errorf("%s: got %q, %q, %v", url, mediaType, data, ok)
		}
	}
	for _, url := range []string{"", "data:", "data:,x", "data:text/plain,x", "data:image/png;base64", "https://x/a.png", "AA=="} {
		if mediaType, data, ok := codec.CutDataURL([]byte(url)); ok || mediaType != nil || data != nil {
			t.Errorf("%s: got %q, %q, %v", url, mediaType, data, ok)
		}
	}
}

func TestAPlainBodyHasNoNeedlessEscapes(t *testing.T) {
	r := new(codec.Request)
	r.Reset()
	for body, want := range map[string]string{
		`AA==`: `AA==`, `https:\/\/x\/a`: `https://x/a`, `\u0041\/`: `A/`, `a\"b\\`: `a\"b\\`, `\n`: `\n`,
	} {
		if got := string(r.Plain([]byte(body))); got != want {
			t.Errorf("%s: got %s, want %s", body, got, want)
		}
	}
}
