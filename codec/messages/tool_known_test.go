package messages_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/messages"
)

// Declarations that came before are read as they were the first time, wherever they stand now.
func TestToolsThatCameBeforeAreReadAsIfTheyHadNot(t *testing.T) {
	long := `"description":"` + strings.Repeat("It does something to a file. ", 8) + `"`
	tools := []string{
		`{"name":"a",` + long + `,"input_schema":{"type":"object","properties":{"x":{"type":"string"}}}}`,
		`{ "input_schema" : {"type":"object"} , "name" : "b" , ` + long + ` , "strict" : true }`,
		`{"name":"c","other":{"type":"object"},"input_schema":{"type":"object"},` + long + `}`,
		`{"name":"d","input_schema":{"type":"array"},` + long + `,"input_schema":{"type":"object","required":[]}}`,
		`{"name":"e","input_schema":null,` + long + `}`,
		`{"name":"f","input_schema":{},` + strings.Replace(long, "file", "{}", 1) + `}`,
		`{"name":"g","input_schema":{}}`,
	}
	rapid.Check(t, func(t *rapid.T) {
		body := []byte(`{"model":"m","messages":[],"tools":[` + strings.Join(rapid.SliceOf(rapid.SampledFrom(tools)).Draw(t, "tools"), " , ") + `]}`)
		var e codec.Envelope
		if err := e.Read(body); err != nil {
			t.Fatal(err)
		}
		var first, again codec.Request
		again.Pieces = e.Blocks(nil)
		again.Prints = codec.Fingerprints(nil, "acme", body, again.Pieces)
		for _, r := range []*codec.Request{&first, &again} {
			if err := messages.Definition().Client.DecodeRequest(r, body); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(first.Tools, again.Tools); diff != "" {
			t.Fatalf("%s\n%s", body, diff)
		}
	})
}

func BenchmarkDeclaredTools(b *testing.B) {
	property := `"parameter":{"type":"integer","description":"a bound of what is looked at, counted from one"}`
	tool := `{"name":"tool","description":"Does one thing to one file of the working tree.","input_schema":{"type":"object","properties":{` + strings.Repeat(property+",", 6) + property + `}}}`
	body := []byte(`{"model":"m","messages":[],"tools":[` + strings.Repeat(tool+",", 49) + tool + `]}`)
	var e codec.Envelope
	if err := e.Read(body); err != nil {
		b.Fatal(err)
	}
	pieces := e.Blocks(nil)
	for name, prints := range map[string][]codec.Fingerprint{"new": nil, "known": codec.Fingerprints(nil, "acme", body, pieces)} {
		b.Run(name, func(b *testing.B) {
			var r codec.Request
			for b.Loop() {
				r.Reset()
				r.Pieces, r.Prints = pieces, prints
				if err := messages.Definition().Client.DecodeRequest(&r, body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
