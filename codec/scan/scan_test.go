package scan_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/mnemeproxy/mneme/codec/scan"
)

func TestMembersComeInTheOrderOfTheDocumentWithTheirExactBytes(t *testing.T) {
	doc := []byte(` { "a" : 1.0 , "b\u0062":"x\"}", "a":[1, {"c":2}] ,"n":null}`)
	var got strings.Builder
	for m := scan.Object(doc); m.Next(); {
		got.Write(m.Key)
		got.WriteByte('=')
		got.Write(m.Value)
		got.WriteByte(';')
		if !bytes.HasSuffix(doc[m.Start:m.End], m.Value) || doc[m.Start] != '"' {
			t.Errorf("member %s lies at %q", m.Key, doc[m.Start:m.End])
		}
	}
	if want := `a=1.0;bb="x\"}";a=[1, {"c":2}];n=null;`; got.String() != want {
		t.Errorf("got  %s\nwant %s", got.String(), want)
	}
}

// A generated document, read by the walker, is what the standard library reads.
func TestTheWalkAgreesWithTheStandardLibrary(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		doc, err := json.Marshal(anyJSON(3).Draw(t, "doc"))
		if err != nil {
			t.Fatal(err)
		}
		if rapid.Bool().Draw(t, "indent") {
			var pretty bytes.Buffer
			if err := json.Indent(&pretty, doc, "\r", " \t"); err != nil {
				t.Fatal(err)
			}
			doc = pretty.Bytes()
		}
		if !scan.Valid(doc) {
			t.Fatalf("refused %s", doc)
		}
		var want, got any
		if err := json.Unmarshal(doc, &want); err != nil {
			t.Fatal(err)
		}
		got = rebuild(doc)
		a, _ := json.Marshal(want)
		b, _ := json.Marshal(got)
		if !bytes.Equal(a, b) {
			t.Fatalf("got  %s\nwant %s", b, a)
		}
	})
}

func anyJSON(depth int) *rapid.Generator[any] {
	leaf := []*rapid.Generator[any]{
		rapid.Just[any](nil), rapid.Bool().AsAny(), rapid.Int32().AsAny(), rapid.Float32Range(-1e6, 1e6).AsAny(), rapid.String().AsAny(),
	}
	if depth == 0 {
		return rapid.OneOf(leaf...)
	}
	return rapid.OneOf(append(leaf,
		rapid.SliceOfN(anyJSON(depth-1), 0, 4).AsAny(),
		rapid.MapOfN(rapid.String(), anyJSON(depth-1), 0, 4).AsAny())...)
}

func rebuild(v []byte) any {
	v = bytes.TrimSpace(v)
	switch {
	case scan.IsObject(v):
		out := map[string]any{}
		for m := scan.Object(v); m.Next(); {
			out[string(m.Key)] = rebuild(m.Value)
		}
		return out
	case scan.IsArray(v):
		out := []any{}
		for e := scan.Array(v); e.Next(); {
			out = append(out, rebuild(e.Value))
		}
		return out
	case scan.IsString(v):
		return scan.String(v)
	}
	var out any
	if err := json.Unmarshal(v, &out); err != nil {
		return err.Error()
	}
	return out
}

func TestEscapeAndUnescapeAreInverse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		body := scan.Escape(nil, []byte(text))
		if got := scan.Text(body); got != text {
			t.Fatalf("got %q, want %q", got, text)
		}
		var std string
		if err := json.Unmarshal(scan.QuoteBody(nil, body), &std); err != nil || std != text {
			t.Fatalf("standard library reads %q (%v), want %q", std, err, text)
		}
	})
}

func TestEscapeRepairsEachByteThatIsNoText(t *testing.T) {
	for text, want := range map[string]string{
		"\xff": "\uFFFD", "a\xff\xfeb": "a\uFFFD\uFFFDb", "\u00e9\xc3": "\u00e9\uFFFD", "\xed\xa0\x80": "\uFFFD\uFFFD\uFFFD", "\xff\"\n": "\uFFFD" + `\"\n`,
	} {
		for _, before := range []string{"", "seven b", "eight by"} {
			if got := string(scan.Escape([]byte("dst"), []byte(before+text))); got != "dst"+before+want {
				t.Errorf("%q becomes %q, want %q behind %q", text, got, want, before)
			}
		}
	}
}

func TestUnescapeReadsEveryEscape(t *testing.T) {
	cases := map[string]string{
		`\"\\\/\b\f\n\r\t`: "\"\\/\b\f\n\r\t", `\u00e9\u00E9`: "éé", `\ud83d\ude00`: "😀", `\ud83d`: "\uFFFD", `\ud83dx`: "\uFFFDx",
		`\ude00\ud83d`: "\uFFFD\uFFFD", `\ud83d\u0041`: "\uFFFDA", `\x`: `\x`, `\u12`: `\u12`, `\`: `\`,
	}
	for body, want := range cases {
		for _, before := range []string{"", "a", `\n`, "seven b", "eight by", `nine byt\t`, strings.Repeat(`long \\`, 5)} {
			body := []byte(before + body)
			if got := scan.Text(body); got != scan.Text([]byte(before))+want {
				t.Errorf("%s: got %q, want %q behind it", body, got, want)
			}
			if got := scan.Unescape([]byte("dst"), body); string(got) != "dst"+scan.Text([]byte(before))+want {
				t.Errorf("%s: got %q, want %q behind it", body, got, want)
			}
		}
	}
}

func BenchmarkEscape(b *testing.B) {
	for name, text := range map[string]string{
		"code":    strings.Repeat("\tif err := store.Put(key, \"value\"); err != nil {\n\t\treturn fmt.Errorf(\"put: %w\", err)\n\t}\n", 50),
		"prose":   strings.Repeat("Read before you write, keep changes small, and say what you did not do. ", 60) + "\n",
		"Chinese": strings.Repeat("先读后写，小步修改，并说明没做的事。", 100),
		"French":  strings.Repeat("Lire avant d'écrire, peu changer à la fois, et dire ce qui n'a pas été fait. ", 50),
		"a name":  "get_weather",
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			dst := make([]byte, 0, 2*len(text))
			for b.Loop() {
				dst = scan.Escape(dst[:0], []byte(text))
			}
		})
	}
}

func BenchmarkUnescape(b *testing.B) {
	code := []byte(strings.Repeat(`\tif err := store.Put(key, \"value\"); err != nil {\n\t\treturn fmt.Errorf(\"put: %w\", err)\n\t}\n`, 50))
	prose := []byte(strings.Repeat("Read before you write, keep changes small, and say what you did not do. ", 60) + `\n`)
	for name, body := range map[string][]byte{"code": code, "prose": prose} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			var dst []byte
			for b.Loop() {
				dst = scan.Unescape(dst[:0], body)
			}
		})
	}
}

func TestIntReadsWholeNumbersOnly(t *testing.T) {
	for text, want := range map[string]int64{"0": 0, "-7": -7, "9223372036854775807": 1<<63 - 1, "3e2": 300, "2.0": 2} {
		if got, ok := scan.Int([]byte(text)); !ok || got != want {
			t.Errorf("%s: got %d %v, want %d", text, got, ok, want)
		}
	}
	for _, text := range []string{"", "1.5", "9223372036854775808", "1e40", `"1"`, "true", "null", "99999999999999999999"} {
		if got, ok := scan.Int([]byte(text)); ok {
			t.Errorf("%s was read as %d", text, got)
		}
	}
}

func TestWalksSurviveAnything(t *testing.T) {
	for _, doc := range []string{"", "{", `{"`, `{"a`, `{"a"`, `{"a":`, `{"a":}`, `{"a":1`, `{"a" 1}`, `{,}`, "[", "[,", "[1", `["`, `[\`, "}", "]]", `{"a":"\`, `{"\u`, "\xff"} {
		for m := scan.Object([]byte(doc)); m.Next(); {
			_ = m.Key
		}
		for e := scan.Array([]byte(doc)); e.Next(); {
			_ = e.Value
		}
		_ = scan.Skip([]byte(doc), 0)
	}
}

func TestWalkingDoesNotAllocate(t *testing.T) {
	doc := []byte(`{"choices":[{"index":0,"delta":{"content":"hello"}}],"usage":null}`)
	allocs := testing.AllocsPerRun(100, func() {
		for m := scan.Object(doc); m.Next(); {
			for e := scan.Array(m.Value); e.Next(); {
				_ = scan.Body(scan.Path(e.Value, "delta", "content"))
			}
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations, want none", allocs)
	}
}

func TestValidRefusesWhatTheLibraryLetsThrough(t *testing.T) {
	for doc, why := range map[string]string{
		`"\0"`: "octal escape", `"\x41"`: "hexadecimal escape", `"\u12g4"`: "bad digit", `"\u1"`: "too few digits",
		"\"a\nb\"": "raw line feed", "\"\xff\"": "invalid UTF-8", `{"a":1}}`: "one bracket too many", `[1,]`: "comma at the end",
		`"` + strings.Repeat("x", 100) + `\q"`: "far escape", strings.Repeat("[", 5000) + strings.Repeat("]", 5000): "too deep",
		`tr`: "literal that is cut off", `-`: "sign alone",
	} {
		if scan.Valid([]byte(doc)) {
			t.Errorf("%s was accepted", why)
		}
	}
	if scan.Valid([]byte("true")[:2]) {
		t.Error("a literal was read past the end of its document")
	}
	for _, doc := range []string{`"\"\\\/\b\f\n\r\t\u00e9\ud83d"`, "{\n\t\"a\": 1\r\n}", `"` + strings.Repeat(`\\`, 200) + `"`} {
		if !scan.Valid([]byte(doc)) {
			t.Errorf("%s was refused", doc)
		}
	}
}

// Documents that are broken in every place where that can be seen are refused, as they are when they are validated first.
func TestReadingAnObjectValidatesIt(t *testing.T) {
	const whole = ` {"a" : {"b":[1,{"c":"\"x"},[]],"d":{}} ,"e":"text of a\u00e9", "f":-1.5e3,"g":[ ],"h":true,"i":{},"j":null, "k":"` +
		"0123456789012345678901234567890123456789012345678901234567890123456789" + `"} ` // a string that is long for the library
	agrees := func(doc string) {
		if got, want := scan.ReadObject([]byte(doc), scan.SkipValid, func(*scan.Members) {}), scan.WellFormed([]byte(doc)) && scan.IsObject([]byte(doc)); got != want {
			t.Errorf("%q: read %v, valid %v", doc, got, want)
		}
	}
	for _, doc := range []string{``, ` `, `{}`, `{ }`, `{} {}`, `{},`, `[]`, `[{}]`, `null`, `"a"`, `{"a":1}}`, `{"a":{}} x`} {
		agrees(doc)
	}
	for i := range whole {
		agrees(whole[:i])
		agrees(whole[:i] + whole[i+1:])
		for _, c := range "{}[]:,\"\\ 1t\xff" {
			agrees(whole[:i] + string(c) + whole[i:])
			agrees(whole[:i] + string(c) + whole[i+1:])
		}
	}
	var names strings.Builder
	if !scan.ReadObject([]byte(whole), scan.SkipValid, func(m *scan.Members) { names.Write(m.Key) }) || names.String() != "aefghijk" {
		t.Errorf("read %s", names.String())
	}
}

func TestALongValueThatIsCutOffEndsWithTheDocument(t *testing.T) {
	for _, stem := range []string{`"`, `{"a":"`, `{"a":{"b":"`, `[[["`} {
		for _, tail := range []string{``, `"`, `",`, `","c":`} {
			doc := []byte(stem + strings.Repeat("x", 2000) + tail)
			if stem == `"` && tail != `` {
				continue // is whole
			}
			if end := scan.Skip(doc, 0); end != len(doc) {
				t.Errorf("%s…%s of %d bytes ends at %d", stem, tail, len(doc), end)
			}
		}
	}
}

// Values on both sides of the length from which the JSON library skips them.
func TestLongValuesEndWhereTheyEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		piece := rapid.SampledFrom([]string{`x`, `\"`, `\\`, `é`, `{`, `]`, `,`, `\u0041`})
		text := strings.Join(rapid.SliceOfN(piece, 0, 900).Draw(t, "text"), "")
		value := `"` + text + `"`
		if rapid.Bool().Draw(t, "nested") {
			value = `{"a":[` + value + `,{}],"b":` + value + `}`
		}
		if end := scan.Skip([]byte(value+`,"rest"`), 0); end != len(value) {
			t.Fatalf("ends at %d, want %d", end, len(value))
		}
		cut := value[:rapid.IntRange(1, len(value)-1).Draw(t, "cut")]
		if end := scan.Skip([]byte(cut), 0); end > len(cut) {
			t.Fatalf("of %d bytes that are cut off the value ends at %d", len(cut), end)
		}
	})
}

// A list that is walked without skipping its elements has the same ones.
func TestWalkingFindsTheEndsThatSkippingFinds(t *testing.T) {
	for _, list := range []string{
		`[]`, `[ ]`, `[{}]`, `[ {"a":1} , {"b":[{"c":"]}"}]},{ "d" : "\"" }]`, `[{"a":{"b":[1,2]},"c":null}, {} ]`,
	} {
		doc := []byte(`{"before":1,"list":` + list + `,"after":2}`)
		var skipped, walked [][2]int
		m := scan.Object(doc)
		for m.NextName() {
			if !m.Elements(func(start, end int) { skipped = append(skipped, [2]int{start, end}) }) {
				m.Skip()
			}
		}
		var names []string
		m = scan.Object(doc)
		for m.NextName() {
			names = append(names, string(m.Key))
			if !m.Walk(func(start int) int {
				inside := scan.ObjectAt(doc, start)
				for inside.Next() {
				}
				walked = append(walked, [2]int{start, inside.Close()})
				return inside.Close()
			}) {
				m.Skip()
			}
		}
		if !slices.Equal(skipped, walked) || len(names) != 3 {
			t.Errorf("%s: walked %v of members %v, skipped %v", list, walked, names, skipped)
		}
	}
}
