package redact_test

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/mnemeproxy/mneme/bench/cputime"
	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/redact"
)

// someText draws text with credentials, halves of them, and what stands around them.
func someText(t *rapid.T) string {
	known := credentials()
	var b strings.Builder
	for range rapid.IntRange(0, 8).Draw(t, "pieces") {
		switch rapid.IntRange(0, 5).Draw(t, "kind") {
		case 0, 1:
			c := known[rapid.IntRange(0, len(known)-1).Draw(t, "credential")]
			whole := c.kept + c.secret + c.after()
			from := rapid.IntRange(0, len(whole)).Draw(t, "from")
			if rapid.Bool().Draw(t, "whole") {
				from = 0
			}
			b.WriteString(whole[from:])
		case 2:
			b.WriteString(rapid.StringMatching(`[ "':=\\/@<>.\n-]{1,4}`).Draw(t, "between"))
		case 3:
			b.WriteString(rapid.StringMatching(`[A-Za-z0-9_+/=-]{1,60}`).Draw(t, "letters"))
		default:
			b.WriteString(rapid.String().Draw(t, "text"))
		}
	}
	return b.String()
}

// redactors are one with what is built in and one with patterns of an operator's own beside it.
func redactors(t testing.TB) []*redact.Redactor {
	t.Helper()
	own, err := redact.New(redact.Options{Builtin: true, Patterns: []redact.Pattern{
		{Name: "number", Regex: `[0-9]{4,}`}, {Name: "greedy", Regex: `(?i)key.{3,30}`}, {Name: "member", Regex: `"password"\s*:\s*"([^"]+)"`},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return []*redact.Redactor{builtin(t), own}
}

func TestMaskingKeepsLengthAndJSONAndIsDoneOnce(t *testing.T) {
	for _, r := range redactors(t) {
		rapid.Check(t, func(t *rapid.T) {
			value := map[string]any{"text": someText(t), "password": someText(t), "n": rapid.Int().Draw(t, "n"), "list": []string{someText(t)}}
			text, err := json.Marshal(value)
			if err != nil {
				t.Fatal(err)
			}
			once := bytes.Clone(text)
			r.Mask(once)
			if len(once) != len(text) {
				t.Fatalf("%d bytes became %d", len(text), len(once))
			}
			if !json.Valid(once) {
				t.Fatalf("no JSON any more:\n%s\n%s", text, once)
			}
			twice := bytes.Clone(once)
			r.Mask(twice)
			if !bytes.Equal(once, twice) {
				t.Fatalf("masking again changed\n%s\nto\n%s", once, twice)
			}
		})
	}
}

// Basic credentials whose letters end in front of a long run: the run is looked at once.
func TestACredentialInFrontOfARunIsNotFoundForEver(t *testing.T) {
	r := builtin(t)
	for _, behind := range []string{".", "-", "_", ".-_~"} {
		text := []byte("Authorization: Basic YWI6Y2RlZmdo" + behind + strings.Repeat("-word", 8) + " and glpat-" + body(20))
		if found := r.Mask(text); len(found) == 0 || found[len(found)-1].Name != "gitlab_token" {
			t.Errorf("%s: found %v", text, found)
		}
	}
}

func TestAnyBytesAreTakenAndKeepTheirLength(t *testing.T) {
	for _, r := range redactors(t) {
		rapid.Check(t, func(t *rapid.T) {
			text := []byte(someText(t) + string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")))
			r.Settled(text)
			for _, m := range r.Mask(text) {
				if m.Start < 0 || m.Start >= m.End || m.End > len(text) {
					t.Fatalf("match %v of %d bytes", m, len(text))
				}
			}
		})
	}
}

func TestAnItemThatComesAgainIsMaskedAgain(t *testing.T) {
	r := builtin(t)
	clean := `{"role":"user","content":"` + strings.Repeat("nothing to see here ", 20) + `"}`
	secret := `{"role":"user","content":"` + strings.Repeat("it is ", 30) + "sk-" + "proj-" + body(60) + `"}`
	text := []byte(`[` + clean + `,` + secret + `]`)
	spans := []codec.Span{{Start: 1, End: 1 + len(clean)}, {Start: 2 + len(clean), End: 2 + len(clean) + len(secret)}}
	before, prints := bytes.Clone(text), codec.Fingerprints(nil, "a", text, spans)
	first, found := r.Body(text, spans, prints)
	if len(found) != 1 || bytes.Contains(first, []byte(body(60))) {
		t.Fatalf("found %v in %s", found, first)
	}
	again, found := r.Body(text, spans, prints)
	if len(found) != 1 || !bytes.Equal(first, again) {
		t.Errorf("the second time found %v, and gave %s", found, again)
	}
	if !bytes.Equal(text, before) {
		t.Error("the body itself was changed")
	}
	if same, found := r.Body([]byte(clean), nil, nil); len(found) != 0 || &same[0] == &text[0] {
		t.Errorf("found %v where there is nothing", found)
	}
}

func TestPatternsMaskTheirFirstGroupInsideStrings(t *testing.T) {
	r, err := redact.New(redact.Options{Patterns: []redact.Pattern{
		{Name: "ticket", Regex: `ACME-[0-9]{4}`}, {Name: "password", Regex: `(?i)password is (\S+)`}, {Name: "card", Regex: `4[0-9]{15}`},
	}})
	if err != nil {
		t.Fatal(err)
	}
	text := []byte(`{"text":"see ACME-1234, the Password is hunter2 \"quoted\"","card":4111111111111111,"again":"4111111111111111"}`)
	matches := r.Mask(text)
	want := `{"text":"see *********, the Password is ******* \"quoted\"","card":4111111111111111,"again":"****************"}`
	if string(text) != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
	var tally redact.Tally
	tally.Add(matches)
	if tally["ticket"] != 1 || tally["password"] != 1 || tally["card"] != 1 || len(tally) != 3 {
		t.Errorf("counted %v", tally)
	}
}

func TestPatternsThatCannotBeUsedAreRefused(t *testing.T) {
	for _, p := range []redact.Pattern{
		{Name: "x", Regex: "("}, {Name: "x", Regex: ".*"}, {Name: "", Regex: "a"}, {Name: "Upper", Regex: "a"}, {Name: "x", Regex: strings.Repeat("a", 2000)},
	} {
		if _, err := redact.New(redact.Options{Patterns: []redact.Pattern{p}}); err == nil {
			t.Errorf("%+v was taken", p)
		}
	}
	r, err := redact.New(redact.Options{})
	if err != nil || r.Holds([]byte("sk-"+"proj-"+body(40))) {
		t.Errorf("what looks for nothing has found something, or fails: %v", err)
	}
}

// A text of a stream is cut into fragments anywhere, and the stream settled anywhere: what is masked in the end is what
// would be masked in the whole text.
func TestWhatIsSpreadOverAStreamIsFoundWhereverItIsCut(t *testing.T) {
	r := builtin(t)
	rapid.Check(t, func(t *rapid.T) {
		var text []byte
		for range rapid.IntRange(1, 4).Draw(t, "credentials") {
			known := credentials()
			c := known[rapid.IntRange(0, len(known)-1).Draw(t, "credential")]
			gap := strings.Repeat("word ", rapid.IntRange(1, 120).Draw(t, "gap"))
			text = append(text, asJSONRapid(t, gap+"\n"+c.kept+c.secret+c.after()+"\n"+gap)...)
		}
		whole := bytes.Clone(text)
		r.Mask(whole)

		stream := bytes.Clone(text)
		s := r.NewStream()
		found := 0
		mask := func(name string, start, end int64, first bool) {
			if first {
				found++
			}
			redact.Mask(stream, []redact.Match{{Start: int(start), End: int(end), Name: name}})
		}
		for at := 0; at < len(text); {
			n := min(rapid.IntRange(1, 40).Draw(t, "fragment"), len(text)-at)
			for at+n < len(text) && text[at+n-1] == '\\' || at+n < len(text) && n > 1 && text[at+n-2] == '\\' && text[at+n-1] == 'u' {
				n++ // fragments do not end inside an escape
			}
			s.Add(7, int64(at), text[at:at+n])
			at += n
			if rapid.IntRange(0, 9).Draw(t, "settle") == 0 {
				if open := s.Settle(false, int64(at), mask); open > int64(at) {
					t.Fatalf("open at %d of %d", open, at)
				}
			}
		}
		s.Settle(true, int64(len(text)), mask)
		if !bytes.Equal(stream, whole) {
			t.Fatalf("in pieces\n%s\nat once\n%s", stream, whole)
		}
	})
}

func asJSONRapid(t *rapid.T, text string) []byte {
	quoted, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	return quoted[1 : len(quoted)-1]
}

// agentBody is a request as agents send it: prose, code, paths and a list of tools.
func agentBody(size int) []byte {
	words := strings.Fields("the function returns an error when its lock cannot be taken in time so callers have to retry with a backoff " +
		"func (s *Store) openDatabase(opts Options) error { return fmt.Errorf(\\\"open: %w\\\", err) }\\n\\t internal/pkg/lock/lock_linux_amd64.go:117: " +
		"description properties additionalProperties type string required command timeout_milliseconds git diff --stat HEAD~3 -- store/ " +
		"github.com/dgraph-io/badger/v4 https://example.com/docs/getting-started#configuration 3f786850e387550fdab836ed7e6dc881de23001b")
	rng := rand.New(rand.NewPCG(1, 2))
	b := []byte(`{"text":"`)
	for len(b) < size {
		b = append(append(b, words[rng.IntN(len(words))]...), ' ')
	}
	return append(b, `"}`...)
}

func BenchmarkMask300KB(b *testing.B) {
	r := builtin(b)
	text := agentBody(300 << 10)
	if found := r.Mask(text); len(found) > 0 {
		b.Fatal(found)
	}
	inProcessorTime(b, len(text), func(int) { r.Mask(text) })
}

// A turn of an agent: the history has been seen, the newest message has not.
func BenchmarkBodySeenBefore300KB(b *testing.B) {
	r := builtin(b)
	item := agentBody(6 << 10)
	var (
		text   []byte
		spans  []codec.Span
		prints []codec.Fingerprint
	)
	for range 50 {
		item[20]++
		spans = append(spans, codec.Span{Start: len(text), End: len(text) + len(item)})
		text = append(append(text, item...), ',')
	}
	inProcessorTime(b, len(text), func(i int) {
		text[spans[49].Start+100] = 'a' + byte(i%26)
		prints = codec.Fingerprints(prints[:0], "a", text, spans)
		r.Body(text, spans, prints)
	})
}

// inProcessorTime reports what a call costs in processor time, which other work on the machine does not change.
func inProcessorTime(b *testing.B, size int, call func(i int)) {
	b.ReportAllocs()
	before := cputime.Used()
	for i := 0; b.Loop(); i++ {
		call(i)
	}
	spent := cputime.Used() - before
	b.ReportMetric(float64(spent.Microseconds())/float64(b.N), "cpu-µs/op")
	b.ReportMetric(float64(spent.Nanoseconds())/float64(b.N)/float64(size)*1024, "cpu-ns/KB")
}
