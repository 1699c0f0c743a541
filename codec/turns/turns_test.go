package turns_test

import (
	"encoding/hex"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/chatkey"
	"github.com/mnemeproxy/mneme/codec/turns"
)

func places(t *testing.T, body string) []turns.Place {
	t.Helper()
	var e codec.Envelope
	if err := e.Read([]byte(body)); err != nil {
		t.Fatal(err)
	}
	return newReader().Places(&turns.Request{Body: []byte(body), Envelope: &e, Scope: "acme"})
}

func newReader() *turns.Reader {
	return &turns.Reader{IsBoot: func(text string) bool { return strings.HasPrefix(text, "# AGENTS.md") }}
}

func TestAPlaceIsTheSameHoweverClientsWriteIt(t *testing.T) {
	forms := []string{
		`{"model":"m","messages":[{"role":"user","content":"one"},{"role":"assistant","content":[{"type":"text","text":"yes"}]},{"role":"user","content":"two"}]}`,
		`{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"one","cache_control":{"type":"ephemeral"}}]},{"role":"assistant","content":"yes"},{"role":"user","content":[{"type":"text","text":"<system-reminder>at noon</system-reminder>"},{"type":"text","text":"two"}]},{"role":"system","content":"reminder"}]}`,
	}
	first, second := places(t, forms[0]), places(t, forms[1])
	if len(first) != 2 || len(second) != 2 || first[0].Key != second[0].Key || first[1].Key != second[1].Key {
		t.Fatalf("%v\nand %v", first, second)
	}
	if first[0].Newest || !first[1].Newest || !second[1].Newest {
		t.Errorf("the newest are %v and %v", first, second)
	}
}

// The place behind a client's summary is marked, whether the summary stands in a message of its own or before the person's words.
func TestThePlaceBehindASummaryIsMarked(t *testing.T) {
	const summary = "This session is being continued from a previous conversation that ran out of context."
	r := turns.Reader{IsBoot: chatkey.IsSummary}
	for body, want := range map[string][]bool{
		`{"messages":[{"role":"user","content":"` + summary + `"},{"role":"assistant","content":"yes"},{"role":"user","content":"two"}]}`:                                                       {true},
		`{"messages":[{"role":"user","content":[{"type":"text","text":"` + summary + `"},{"type":"text","text":"one"}]},{"role":"assistant","content":"yes"},{"role":"user","content":"two"}]}`: {true, false},
		`{"input":[{"role":"user","content":"one"},{"role":"user","content":"Another language model started to solve this problem and produced a summary"},{"role":"user","content":"two"}]}`:   {false, true},
		`{"messages":[{"role":"user","content":"one"},{"role":"assistant","content":"` + summary + `"},{"role":"user","content":"two"}]}`:                                                       {false, false},
	} {
		var e codec.Envelope
		if err := e.Read([]byte(body)); err != nil {
			t.Fatal(err)
		}
		var got []bool
		for _, p := range r.Places(&turns.Request{Body: []byte(body), Envelope: &e}) {
			got = append(got, p.Summed)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", body, got, want)
		}
	}
}

func TestKeysStayThoseThatAreOnDisk(t *testing.T) {
	found := places(t, `{"model":"m","previous_response_id":"resp_1","messages":[{"role":"system","content":"s"},{"role":"user","content":"one"},{"role":"assistant","content":[{"type":"text","text":"yes"}]},{"role":"user","content":"one"}]}`)
	var keys []string
	for _, p := range found {
		keys = append(keys, hex.EncodeToString(p.Key[:]))
	}
	for _, key := range turns.SessionKeys("s", found, []int{0, 1}) {
		keys = append(keys, hex.EncodeToString(key[:]))
	}
	want := []string{"4845e0c568f15db0a97c640eb6597059", "f51baf427efe12095bcc5918a18899fb", "a4ab40848e9d0946212cdf88d1c289c1", "c7c23539f14603e576b5185c12117e66"}
	if diff := cmp.Diff(want, keys); diff != "" {
		t.Error(diff)
	}
	if second := turns.SessionKeys("s", found, []int{1}); hex.EncodeToString(second[0][:]) != want[3] {
		t.Errorf("asked for alone, the second key is %x", second[0])
	}
}

func TestAReaderThatHasReadMuchFindsTheSamePlaces(t *testing.T) {
	remembering := newReader()
	rapid.Check(t, func(t *rapid.T) {
		said := rapid.SampledFrom([]string{
			`{"role":"user","content":"go on"}`, `{"role":"user","content":"stop"}`, `{"role":"user","content":"` + strings.Repeat("so ", 100) + `"}`,
			`{"role":"assistant","content":"yes"}`, `{"role":"assistant","content":"` + strings.Repeat("no ", 100) + `"}`,
			`{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"x"}]}`, `{"role":"system","content":"brief"}`,
		})
		body := []byte(`{"model":"m","messages":[` + strings.Join(rapid.SliceOfN(said, 1, 12).Draw(t, "messages"), ",") + `]}`)
		q := turns.Request{Body: body, Envelope: new(codec.Envelope), Scope: rapid.SampledFrom([]string{"acme", "other"}).Draw(t, "scope")}
		if err := q.Envelope.Read(body); err != nil {
			t.Fatal(err)
		}
		fresh := newReader().Places(&q)
		if rapid.Bool().Draw(t, "with fingerprints") {
			q.Pieces = q.Envelope.Blocks(nil)
			q.Prints = codec.Fingerprints(nil, "acme", body, q.Pieces)
		}
		if diff := cmp.Diff(fresh, remembering.Places(&q)); diff != "" {
			t.Errorf("%s: %s", body, diff)
		}
	})
}

func TestOnlyAPersonOpensATurn(t *testing.T) {
	for name, body := range map[string]string{
		"a result":     `{"model":"m","messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"x"},{"type":"text","text":"done"}]}]}`,
		"instructions": `{"model":"m","messages":[{"role":"user","content":"# AGENTS.md instructions"}]}`,
		"a reminder":   `{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"<system-reminder>x</system-reminder>"}]}]}`,
		"system":       `{"model":"m","messages":[{"role":"system","content":"x"}]}`,
		"of Gemini":    `{"contents":[{"role":"user","parts":[{"functionResponse":{"name":"f","response":{}}},{"text":"done"}]},{"role":"model","parts":[{"text":"x"}]}]}`,
	} {
		if found := places(t, body); len(found) != 0 {
			t.Errorf("%s opens a turn: %v", name, found)
		}
	}
	if found := places(t, `{"contents":[{"role":"user","parts":[{"text":"one"}]},{"role":"model","parts":[{"text":"yes"}]},{"parts":[{"text":"two"},{"inlineData":{"mimeType":"image/png","data":"aaaa"}}]}]}`); len(found) != 2 || found[0].Newest || !found[1].Newest {
		t.Errorf("of Gemini: %v", found)
	}
	late := places(t, `{"model":"m","messages":[{"role":"user","content":"one"},{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"n","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"x"}]}]}`)
	if len(late) != 1 || late[0].Newest {
		t.Errorf("behind a call: %v", late)
	}
}

func TestAnInsertionLeavesTheEnvelopeTrue(t *testing.T) {
	for name, c := range map[string]struct {
		form       codec.ClientTraits
		body, want string
	}{
		"a string":      {codec.ClientTraits{TextBlock: "text"}, `{"messages":[{"role":"user","content":"hi"}],"service_chat_key":"k","model":"m"}`, `{"messages":[{"role":"user","content":[{"type":"text","text":"hi"},{"type":"text","text":"<x>\n"}]}],"model":"n"}`},
		"blocks":        {codec.ClientTraits{TextBlock: "input_text"}, `{"input":[{"role":"user","content":[{"type":"input_text","text":"hi"}]}],"model":"m"}`, `{"input":[{"role":"user","content":[{"type":"input_text","text":"hi"},{"type":"input_text","text":"<x>\n"}]}],"model":"n"}`},
		"chat":          {codec.ClientTraits{TextBlock: "text", TextAsString: true}, `{"messages":[{"role":"user","content":"hi"}],"model":"m"}`, `{"messages":[{"role":"user","content":"hi\n\n<x>\n"}],"model":"n"}`},
		"chat, a part":  {codec.ClientTraits{TextBlock: "text", TextAsString: true}, `{"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}],"model":"m"}`, `{"messages":[{"role":"user","content":[{"type":"text","text":"hi\n\n<x>\n"}]}],"model":"n"}`},
		"parts":         {codec.ClientTraits{TextBlock: "text", BareBlocks: true}, `{"contents":[{"role":"user","parts":[{"text":"hi"}]}],"model":"m"}`, `{"contents":[{"role":"user","parts":[{"text":"hi"},{"text":"<x>\n"}]}],"model":"n"}`},
		"chat, a photo": {codec.ClientTraits{TextBlock: "text", TextAsString: true}, `{"messages":[{"role":"user","content":[{"type":"text","text":"hi"},{"type":"image_url","image_url":{"url":"u"}}]}],"model":"m"}`, `{"messages":[{"role":"user","content":[{"type":"text","text":"hi"},{"type":"image_url","image_url":{"url":"u"}},{"type":"text","text":"<x>\n"}]}],"model":"n"}`},
	} {
		var e codec.Envelope
		if err := e.Read([]byte(c.body)); err != nil {
			t.Fatal(err)
		}
		body := e.Insert(nil, []byte(c.body), turns.Insertions(&c.form, []byte(c.body), e.Items[0], "<x>\n"))
		if got := string(e.Splice(nil, body, "n")); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, c.want)
		}
	}
}

func BenchmarkPlaces(b *testing.B) {
	var items []string
	for range 50 {
		items = append(items, `{"role":"user","content":"`+strings.Repeat("What about it? ", 120)+`"}`, `{"role":"assistant","content":"`+strings.Repeat("It is so. ", 220)+`"}`)
	}
	body := []byte(`{"model":"m","messages":[` + strings.Join(items, ",") + `]}`)
	var e codec.Envelope
	if err := e.Read(body); err != nil {
		b.Fatal(err)
	}
	pieces := e.Blocks(nil)
	prints := codec.Fingerprints(nil, "acme", body, pieces)
	r := turns.Reader{IsBoot: func(string) bool { return false }}
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		r.Places(&turns.Request{Body: body, Envelope: &e, Pieces: pieces, Prints: prints})
	}
}
