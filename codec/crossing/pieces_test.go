package crossing_test

import (
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/crossing"
)

// Text that JSON does not allow is refused wherever it stands, also beside pieces that were found to be valid before.
func TestTextThatIsNotValidIsRefusedBesideKnownPieces(t *testing.T) {
	target, format := targetOf(gpt)
	plain := strings.Repeat("plain words, ", 20)
	prepare := func(history, newest, user string) error {
		body := []byte(`{"model":"` + gpt + `","max_tokens":9,"metadata":{"user_id":"` + user + `"},"messages":[{"role":"user","content":"` + history +
			`"},{"role":"assistant","content":"ok"},{"role":"user","content":"` + newest + `"}]}`)
		var e codec.Envelope
		if err := e.Read(body); err != nil {
			t.Fatal(err)
		}
		pieces := e.Blocks(nil)
		x, _, err := crossing.Prepare(nil, codec.Messages, format, body, &crossing.Settings{
			Target: target, Read: true, Pieces: pieces, Prints: codec.Fingerprints(nil, "acme", body, pieces),
		})
		if err == nil {
			x.Release()
		}
		return err
	}
	for range 2 {
		if err := prepare(plain, plain+`\n\u00e9`, "u"); err != nil {
			t.Fatal(err)
		}
		for _, wrong := range []string{`\x`, `\u12g4`, "\x01"} {
			for name, err := range map[string]error{
				"in the history":       prepare(plain+wrong, plain, "u"),
				"in the newest":        prepare(plain, plain+wrong, "u"),
				"in a short one":       prepare(plain, wrong, "u"),
				"outside the messages": prepare(plain, plain, "u"+wrong),
			} {
				if err == nil {
					t.Errorf("%q %s is accepted", wrong, name)
				}
			}
		}
	}
}
