package codec_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/mnemeproxy/mneme/codec"
)

// pieceNames are members that hold lists of pieces, and one that does not.
var pieceNames = []string{"system", "messages", "tools", "input", "instructions", "other"}

// drawBody makes a request of pieces that are drawn from few, so that they come again in many orders, some of it damaged.
func drawBody(t *rapid.T) []byte {
	long := strings.Repeat("words of an agent ", 10)
	pieces := []string{
		`{"role":"user","content":"a"}`, `{"role":"user","content":"` + long + `"}`, `{"role":"assistant","content":"` + long + `{"}`,
		`"` + long + `"`, `1`, `12`, `true`, `[{"a":[1,2]}]`, `{ "a" : "\u00e9 \" ]" }`, `""`, `{}`, `"` + "\xff" + long + `"`, `{"a":`, `]`, "",
	}
	var b strings.Builder
	b.WriteString(`{"model":"m"`)
	for range rapid.IntRange(0, 3).Draw(t, "members") {
		fmt.Fprintf(&b, ` , %q: `, rapid.SampledFrom(pieceNames).Draw(t, "name"))
		if rapid.Bool().Draw(t, "single") {
			b.WriteString(rapid.SampledFrom(pieces).Draw(t, "value"))
			continue
		}
		b.WriteString("[")
		for i := range rapid.IntRange(0, 4).Draw(t, "length") {
			if i > 0 {
				b.WriteString(rapid.SampledFrom([]string{",", " ,\n", ",", ",", ""}).Draw(t, "between"))
			}
			b.WriteString(rapid.SampledFrom(pieces).Draw(t, "piece"))
		}
		b.WriteString("]")
	}
	b.WriteString(rapid.SampledFrom([]string{"}", "}", "}", " }\n", "", "}}"}).Draw(t, "end"))
	return []byte(b.String())
}

// Whatever came before, a request is read as if it were the first.
func TestPiecesThatCameBeforeAreReadAsIfTheyHadNot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var known codec.Succession
		for range rapid.IntRange(1, 6).Draw(t, "requests") {
			body := drawBody(t)
			var want, got codec.Envelope
			wantErr := want.Read(body)
			prints, err := got.ReadPieces(body, "acme", &known)
			if fmt.Sprint(err) != fmt.Sprint(wantErr) {
				t.Fatalf("%s\n got error %v\nwant error %v", body, err, wantErr)
			}
			if err != nil {
				continue
			}
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(codec.Envelope{}), cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("%s\n%s", body, diff)
			}
			if diff := cmp.Diff(codec.Fingerprints(nil, "acme", body, want.Blocks(nil)), prints, cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("%s\n%s", body, diff)
			}
		}
	})
}

// A number has no end of its own: what stands behind it decides where it ends.
func TestANumberThatCameBeforeDoesNotHideALongerOne(t *testing.T) {
	var known codec.Succession
	for _, body := range []string{`{"model":"m","input":[1]}`, `{"model":"m","input":[12]}`, `{"model":"m","input":[1]}`} {
		var e codec.Envelope
		if _, err := e.ReadPieces([]byte(body), "acme", &known); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
	}
}

// BenchmarkEnvelopeOfAnAgent reads a request of 300 KB: as one that never came, and as one of which all but the last message did.
func BenchmarkEnvelopeOfAnAgent(b *testing.B) {
	var body strings.Builder
	body.WriteString(`{"model":"m","messages":[`)
	for i := range 60 {
		fmt.Fprintf(&body, `{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_%d","content":%q}]},`, i, strings.Repeat("\tif err := store.Put(key, \"value\"); err != nil {\n", 100))
	}
	body.WriteString(`{"role":"user","content":"and now?"}]}`)
	doc := []byte(body.String())
	for _, c := range []struct {
		name  string
		again bool
	}{{"first", false}, {"again", true}} {
		b.Run(c.name, func(b *testing.B) {
			known := new(codec.Succession)
			b.SetBytes(int64(len(doc)))
			for b.Loop() {
				var e codec.Envelope
				var err error
				if c.again {
					_, err = e.ReadPieces(doc, "acme", known)
				} else {
					err = e.Read(doc)
					codec.Fingerprints(nil, "acme", doc, e.Blocks(nil))
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
