package fuzz_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/crossing"
	"github.com/mnemeproxy/mneme/codec/scan"
	"github.com/mnemeproxy/mneme/fuzz/mutant"
)

var envelopeSeeds = []string{
	`{"contents":[{"role":"user","parts":[{"text":"q"}]},{"role":"model","parts":[{"functionCall":{"name":"f","args":{"a":1}},"thoughtSignature":"c3YxLmYuY2FsbA=="},{"text":"a","thought_signature":"c3YxLmEuQUFBQQ"}]}],"systemInstruction":{"parts":[{"text":"s"}]}}`,
	`{"model":"m","messages":[{"role":"user","content":"a"}],"service_chat_key":"k"}`,
	`{"service_external_session_id":null,"model":"m","stream":true,"input":"x","instructions":"y","tools":[{}]}`,
	`{"mod\u0065l":"m", "system" : [ {"type":"text"} ] , "service_chat_ke\u0079":"k" }`,
	`{"model":"m","messages":[{"role":"assistant","content":[{"type":"thinking","signature":"sv1.o.AA"},{"type":"text","text":"a"}]}],"thinking":{}}`,
	`{"model":"a","model":"b"}`, `[`, `{"model":"m","x":"\ud83d"}`,
}

// FuzzEnvelope reads and splices any body: the result is JSON, with every member that is not ours in its original bytes
// and order, and without every member that is ours.
func FuzzEnvelope(f *testing.F) {
	for _, seed := range envelopeSeeds {
		f.Add([]byte(seed), "m")
		f.Add([]byte(seed), `other "model"`)
	}
	f.Fuzz(mutant.Each(1000, func(t *testing.T, body []byte, model string) {
		var e codec.Envelope
		if e.Read(body) != nil {
			return
		}
		at := 0
		for _, block := range e.Blocks(nil) {
			if block.Start < at || block.End <= block.Start || block.End > len(body) {
				t.Fatalf("block %v of %q", block, body)
			}
			at = block.End
		}
		if !scan.Valid([]byte(`"` + model + `"`)) {
			model = e.Model
		}
		spliced := e.Splice(nil, body, model)
		if scan.Valid(body) && !json.Valid(spliced) {
			t.Fatalf("not JSON: %q from %q", spliced, body)
		}
		want := keptMembers(body, e.Model, model)
		if got := keptMembers(spliced, "", ""); !bytes.Equal(got, want) {
			t.Fatalf("members changed\ngot  %q\nwant %q", got, want)
		}
		if e.Untouched(model) && !bytes.Equal(spliced, body) {
			t.Fatalf("nothing to do, yet %q became %q", body, spliced)
		}
	}))
}

// keptMembers writes out the members that may go upstream, with the model's value replaced where it was from.
func keptMembers(body []byte, from, to string) []byte {
	var out []byte
	for m := scan.Object(body); m.Next(); {
		switch key := string(m.Key); {
		case key == "service_chat_key", key == "service_external_session_id":
			continue
		case key == "model" && from != to:
			out = append(append(out, key...), '=')
			out = append(scan.Quote(out, to), ';')
			continue
		}
		out = append(append(append(append(out, m.Key...), '='), m.Value...), ';')
	}
	return out
}

// FuzzCleanHistory removes foreign state from any body: JSON stays JSON, and a body without foreign state stays
// unchanged.
func FuzzCleanHistory(f *testing.F) {
	for _, seed := range envelopeSeeds {
		f.Add([]byte(seed))
	}
	f.Fuzz(mutant.Each(1000, func(t *testing.T, body []byte) {
		if !scan.Valid(body) {
			return
		}
		for _, format := range []codec.Format{codec.Messages, codec.Responses, codec.Chat, codec.Gemini} {
			cleaned, dropped := crossing.CleanHistory(body, format, &crossing.Settings{Target: codec.Target{Family: codec.FamilyOpenAI, Model: "m"}})
			if !json.Valid(cleaned) {
				t.Fatalf("%s: not JSON: %q from %q", format, cleaned, body)
			}
			if len(dropped) == 0 && !bytes.Equal(cleaned, body) {
				t.Fatalf("%s: changed silently: %q from %q", format, cleaned, body)
			}
		}
	}))
}

// FuzzScan walks any bytes: it never reads beyond their end, agrees with the standard library on what is JSON, and
// finds the same members.
func FuzzScan(f *testing.F) {
	for _, seed := range append(envelopeSeeds, `{"a":"\0"}`, `"\u12g4"`, "{\n\"a\":\t1}") {
		f.Add([]byte(seed))
	}
	f.Fuzz(mutant.Each(1000, func(t *testing.T, doc []byte) {
		_ = scan.Skip(doc, 0)
		_ = scan.Unescape(nil, doc)
		if scan.Valid(doc) && !json.Valid(doc) {
			t.Fatalf("%q is not JSON", doc)
		}
		members := 0
		for m := scan.Object(doc); m.Next(); {
			members++
		}
		var want map[string]json.RawMessage
		if !scan.Valid(doc) || json.Unmarshal(doc, &want) != nil {
			return
		}
		if members < len(want) {
			t.Fatalf("%d members of %q, want %d", members, doc, len(want))
		}
		for name, value := range want {
			var last []byte
			for m := scan.Object(doc); m.Next(); {
				if string(m.Key) == name {
					last = m.Value
				}
			}
			if !bytes.Equal(bytes.TrimSpace(value), last) {
				t.Fatalf("member %q of %q: got %q, want %q", name, doc, last, value)
			}
		}
	}))
}
