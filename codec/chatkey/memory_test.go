package chatkey_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/chatkey"
)

// Whatever requests came before, the keys are those of the request alone.
func TestARememberedOpeningHasTheKeysOfTheOneThatIsRead(t *testing.T) {
	items := []string{
		`{"role":"user","content":"a"}`, `{"role":"user","content":"b"}`, `{"role":"assistant","content":"a"}`, `{"role":"assistant","content":"b"}`,
		`{"role":"user","content":"<env>x</env>"}`, `{"role":"system","content":"be brief"}`, `{"role":"tool","content":"done"}`, `"a"`,
	}
	rapid.Check(t, func(t *rapid.T) {
		var m chatkey.Memory
		for range 12 {
			account, surface := rapid.SampledFrom([]string{"acme", "other"}).Draw(t, "account"), rapid.SampledFrom([]codec.Format{codec.Chat, codec.Messages, codec.Embeddings}).Draw(t, "surface")
			body := []byte(`{"model":"m","system":` + rapid.SampledFrom([]string{`"be brief"`, `""`, `[]`, `["be","brief"]`}).Draw(t, "system") +
				`,"messages":[` + strings.Join(rapid.SliceOfN(rapid.SampledFrom(items), 3, 6).Draw(t, "items"), ",") + `]}`)
			var e codec.Envelope
			if err := e.Read(body); err != nil {
				t.Fatal(err)
			}
			if got, want := m.Derive(account, surface, body, &e), chatkey.Derive(surface, body, &e); got != want {
				t.Fatalf("%s: got %+v, want %+v", body, got, want)
			}
		}
	})
}

func BenchmarkRememberedAgentOpening(b *testing.B) {
	opening := agentOpening()
	at := strings.LastIndex(opening, `],"tools"`) // the end of the messages
	body := []byte(opening[:at] + strings.Repeat(`,{"role":"assistant","content":"I look."},{"role":"user","content":"go on"}`, 2) + opening[at:])
	var e codec.Envelope
	if err := e.Read(body); err != nil {
		b.Fatal(err)
	}
	m := new(chatkey.Memory)
	b.ReportAllocs()
	for b.Loop() {
		m.Derive("acme", codec.Messages, body, &e)
	}
}
