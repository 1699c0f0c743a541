package fuzz_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/chatkey"
	"github.com/mnemeproxy/mneme/codec/scan"
	"github.com/mnemeproxy/mneme/fuzz/mutant"
)

// keysOf derives the keys of a body whose envelope can be read.
func keysOf(surface codec.Format, body []byte) (keys chatkey.Keys, ok bool) {
	var e codec.Envelope
	if e.Read(body) != nil {
		return keys, false
	}
	return chatkey.Derive(surface, body, &e), true
}

// FuzzChatKey derives keys from any body: the same ones every time, in the form that the store expects, and regardless
// of white space between the members.
func FuzzChatKey(f *testing.F) {
	for _, seed := range append([]string{
		`{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"It is 2026-11-20T14:05:33Z. <env>x</env>"}]},{"role":"assistant","content":"a"}]}`,
		`{"model":"m","instructions":"be brief","input":[{"role":"user","content":"q"},{"type":"function_call","name":"ls","arguments":"{\"a\": 1}"}]}`,
		`{"model":"m","system":[{"type":"text","text":"s"}],"messages":[{"role":"user","content":[{"type":"image","source":{"data":"AAAA"}}]},{"role":"assistant","content":[{"type":"tool_use","name":"t","input":{"a":[1, 2]}}]}]}`,
	}, envelopeSeeds...) {
		f.Add([]byte(seed))
	}
	f.Fuzz(mutant.Each(1000, func(t *testing.T, body []byte) {
		for _, surface := range []codec.Format{codec.Chat, codec.Responses, codec.Messages, codec.Gemini} {
			keys, ok := keysOf(surface, body)
			if !ok {
				return
			}
			for _, key := range []string{keys.Opening, keys.Reply} {
				if len(key) != 0 && len(key) != 32 {
					t.Fatalf("%s: key %q", surface, key)
				}
			}
			if keys.Reply != "" && keys.Opening == "" {
				t.Fatalf("%s: a reply to nothing in %q", surface, body)
			}
			var spaced bytes.Buffer
			if !scan.Valid(body) || json.Indent(&spaced, body, " ", "\t") != nil {
				continue
			}
			if again, ok := keysOf(surface, spaced.Bytes()); ok && again != keys {
				t.Fatalf("%s: white space changes %+v to %+v\n%q", surface, keys, again, body)
			}
		}
	}))
}

// FuzzChatKeyStability writes one conversation, with any content, in the forms of the clients of all surfaces.
func FuzzChatKeyStability(f *testing.F) {
	f.Add("Be brief.", "What is 2+2?", "Four.", "a note")
	f.Add("", "It is 11/20/2026, 2:05 PM.\n<env>\nDate: today\n</env>\nGo.", "\"Gone\\\"", "<x>")
	f.Fuzz(mutant.Each(1000, func(t *testing.T, instructions, said, answer, note string) {
		quote := func(text string) string { return string(scan.Quote(nil, text)) }
		block := func(kind, text string) string { return fmt.Sprintf(`{"type":%q,"text":%s}`, kind, quote(text)) }
		marked := func(text string) string {
			return fmt.Sprintf(`[{"type":"text","text":%s,"cache_control":{"type":"ephemeral"}}]`, quote(text))
		}
		s, q, a := quote(instructions), quote(said), quote(answer)
		next := `,{"role":"user","content":` + quote(note) + `}]}`
		var want chatkey.Keys
		for i, written := range []struct {
			surface codec.Format
			body    string
		}{
			{codec.Chat, `{"model":"m","messages":[{"role":"system","content":` + s + `},{"role":"user","content":` + q + `},{"role":"assistant","content":` + a + `}` + next},
			{codec.Chat, `{"model":"other","messages":[{"content":[` + block("text", instructions) + `],"role":"developer"},{"role":"user","content":[` + block("text", said) + `]},{"role":"assistant","content":[` + block("text", answer) + `]}` + next},
			{codec.Messages, `{"model":"m","system":` + s + `,"messages":[{"role":"user","content":` + q + `},{"role":"assistant","content":` + a + `}` + next},
			{codec.Messages, `{"model":"m","system":` + marked(instructions) + `,"messages":[{"role":"user","content":` + marked(said) + `},{"role":"assistant","content":[` + block("text", answer) + `]}` + next},
			{codec.Responses, `{"model":"m","instructions":` + s + `,"input":[{"role":"user","content":` + q + `},{"role":"assistant","content":[` + block("output_text", answer) + `]}` + next},
			{codec.Responses, `{"model":"m","instructions":` + s + `,"input":[{"type":"message","role":"user","content":[` + block("input_text", said) + `]},{"type":"reasoning","summary":[]},{"type":"message","role":"assistant","content":[` + block("output_text", answer) + `]},{"role":"user","content":` + quote(note) + `}]}`},
		} {
			keys, ok := keysOf(written.surface, []byte(written.body))
			if !ok {
				t.Fatalf("not read: %s", written.body)
			}
			if i == 0 {
				want = keys
			}
			if keys != want {
				t.Fatalf("the keys are %+v, and %+v for %s", want, keys, written.body)
			}
		}
	}))
}
