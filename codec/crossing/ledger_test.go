package crossing_test

import (
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/crossing"
)

// remembering is a ledger in memory.
type remembering map[crossing.LedgerKey]string

func (m remembering) Keep(key crossing.LedgerKey, value []byte) { m[key] = string(value) }

func (m remembering) Recall(key crossing.LedgerKey) []byte {
	if value, ok := m[key]; ok {
		return []byte(value)
	}
	return nil
}

// No client's format has a place behind a text for its proof: Claude Code prints nothing when reasoning follows a text.
// Gemini gets it back from the ledger, on the text as the client repeats it, however that is escaped.
func TestTheProofOfATextComesBackToGemini(t *testing.T) {
	for _, surface := range surfaces {
		if _, format := targetOf(gemini); format == surface {
			continue
		}
		ledger := make(remembering)
		with := func(s *crossing.Settings) { s.Ledger = ledger }
		first := map[codec.Format]string{codec.Chat: hi, codec.Responses: `"input":"hi"`, codec.Messages: messagesHi}[surface]
		x, _, err := prepare(surface, gemini, `{"model":"gemini-3.8-flash",`+first+`}`, with)
		if err != nil {
			t.Fatal(err)
		}
		heard, _ := hear(t, x,
			`{"candidates":[{"content":{"role":"model","parts":[{"text":"caf\u00e9 \ud83d"}]},"index":0}],"modelVersion":"m"}`,
			`{"candidates":[{"content":{"role":"model","parts":[{"text":"\ude00."}]},"index":0}],"modelVersion":"m"}`,
			`{"candidates":[{"content":{"role":"model","parts":[{"text":"","thoughtSignature":"dGV4dA"}]},"finishReason":"STOP","index":0}],"modelVersion":"m"}`)
		x.Release()
		if strings.Contains(heard, "dGV4dA") {
			t.Errorf("%s: the client is given a proof it has no place for: %s", surface, heard)
		}
		history := func(text string) string {
			item := `{"role":"user","content":"hi"},{"role":"assistant","content":"` + text + `"},{"role":"user","content":"go on"}`
			if surface == codec.Responses {
				return `{"model":"gemini-3.8-flash","input":[` + item + `]}`
			}
			return `{"model":"gemini-3.8-flash","max_tokens":99,"messages":[` + item + `]}`
		}
		for text, want := range map[string]bool{"café 😀.": true, `caf\u00e9 \ud83d\ude00.`: true, "café.": false} {
			x, sent, err := prepare(surface, gemini, history(text), with)
			if err != nil {
				t.Fatal(err)
			}
			x.Release()
			if got := strings.Contains(sent, `"thoughtSignature":"dGV4dA"`); got != want {
				t.Errorf("%s, %s: the proof came back: %v, want %v\n%s", surface, text, got, want, sent)
			}
		}
		for name, change := range map[string]func(*crossing.Settings){
			"another account":      func(s *crossing.Settings) { s.Ledger, s.Account = ledger, "other" },
			"no memory of answers": nil,
		} {
			x, sent, err := prepare(surface, gemini, history("café 😀."), change)
			if err != nil {
				t.Fatal(err)
			}
			x.Release()
			if strings.Contains(sent, "dGV4dA") {
				t.Errorf("%s, %s: %s", surface, name, sent)
			}
		}
	}
}
