package redact_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/redact"
)

// guarding is a redactor that knows nothing but these credentials.
func guarding(t testing.TB, credentials ...string) *redact.Redactor {
	t.Helper()
	r, err := redact.New(redact.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r.Guard(credentials...)
	return r
}

// shapeless are credentials that nothing but their value gives away.
var shapeless = []string{
	"PROVKEY-corp-credential-778899", "hunter2/And+More=", `quo"ted\and<angled>&'so'`, "pass word with spaces", "a1b2c3d4",
	"correct-horse-battery-staple", "ключ-от-квартиры-42", strings.Repeat("0123456789abcdef", 20),
}

// escapedLetters writes every letter of a text as an escape.
func escapedLetters(text, format string) string {
	var b strings.Builder
	for _, c := range text {
		fmt.Fprintf(&b, format, c)
	}
	return b.String()
}

// writings are the ways in which a credential gets into a text.
func writings(t testing.TB, value string) map[string]string {
	forms := map[string]string{
		"as it is": value, "in a query": url.QueryEscape(value), "in a path": url.PathEscape(value),
	}
	for depth := 1; depth < 4; depth++ {
		forms[fmt.Sprintf("in JSON %d deep", depth)] = asJSON(t, value, depth)
	}
	html, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	forms["in JSON for web pages"] = string(html[1 : len(html)-1])
	forms["with escaped slashes"] = strings.ReplaceAll(asJSON(t, value, 1), "/", `\/`)
	forms["with every letter escaped"] = escapedLetters(value, `\u%04x`)
	forms["with every letter escaped in capitals"] = escapedLetters(value, `\u%04X`)
	forms["with every letter escaped in JSON in JSON"] = escapedLetters(value, `\\u%04x`)
	for offset := range 3 {
		whole := strings.Repeat("x", offset) + value + ":y"
		forms[fmt.Sprintf("in base64 at offset %d", offset)] = base64.StdEncoding.EncodeToString([]byte(whole))
		forms[fmt.Sprintf("in URL-safe base64 at offset %d", offset)] = base64.RawURLEncoding.EncodeToString([]byte(whole))
	}
	return forms
}

// shows reports whether a text holds what a credential is, however it is written.
func shows(text, value string) bool {
	for range 4 {
		if strings.Contains(text, value) || strings.Contains(text, value[:len(value)*3/4]) {
			return true
		}
		if unescaped, err := url.QueryUnescape(text); err == nil && strings.Contains(unescaped, value) {
			return true
		}
		var inner string
		if json.Unmarshal([]byte(`"`+text+`"`), &inner) != nil || inner == text {
			break
		}
		text = inner
	}
	for offset := range 4 {
		for at := offset; at < len(text); at += 4 {
			end := at
			for end < len(text) && strings.IndexByte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_", text[end]) >= 0 {
				end++
			}
			run := strings.NewReplacer("-", "+", "_", "/").Replace(text[at:end])
			if plain, err := base64.RawStdEncoding.DecodeString(run[:len(run)/4*4]); err == nil && strings.Contains(string(plain), value) {
				return true
			}
		}
	}
	return false
}

func TestACredentialInUseIsMaskedHoweverItIsWritten(t *testing.T) {
	for _, value := range shapeless {
		r := guarding(t, "another-credential-1", value)
		for how, written := range writings(t, value) {
			for place, around := range map[string][2]string{
				"by itself": {"", ""}, "in prose": {"the key is ", " and it works"}, "in other letters": {"abc", "xyz"}, "in brackets": {"<(", ")>"},
			} {
				if place == "in other letters" && strings.Contains(how, "base64") {
					continue
				}
				text := []byte(around[0] + written + around[1])
				valid := json.Valid([]byte(`"` + string(text) + `"`))
				before := len(text)
				found := r.Mask(text)
				if len(found) != 1 || found[0].Name != "credential" || shows(string(text), value) {
					t.Errorf("%q %s, %s: found %v, left %q", value, how, place, found, text)
				}
				if len(text) != before || valid && !json.Valid([]byte(`"`+string(text)+`"`)) {
					t.Errorf("%q %s, %s: the mask changed the JSON or its length: %q", value, how, place, text)
				}
				if again := r.Mask(bytes.Clone(text)); len(again) > 0 {
					t.Errorf("%q %s, %s: masked again: %q", value, how, place, text)
				}
			}
		}
	}
}

func TestAPlainCredentialDoesNotHideOrdinaryText(t *testing.T) {
	plain := []string{"", "ollama", "secret", "1234567", "aaaaaaaaaaaaaaaa", "--------", "password", "lm-studio", "not-needed", "placeholder", "1234567890"}
	r := guarding(t, plain...).With(plain...)
	for _, value := range plain {
		if found := r.Mask([]byte("run it with " + value + " as the key")); len(found) > 0 {
			t.Errorf("%q is masked", value)
		}
	}
}

func TestCredentialsOfOneCallAreMaskedBesideThoseOfTheInstallation(t *testing.T) {
	r := guarding(t, "installation-credential-1")
	own := r.With("callers-credential-2")
	r.Guard("installation-credential-3")
	text := "installation-credential-1, callers-credential-2 and installation-credential-3"
	if masked, _ := own.Text(text); strings.Contains(masked, "credential") {
		t.Errorf("left %q", masked)
	}
	if masked, _ := r.Text(text); !strings.Contains(masked, "callers-credential-2") || strings.Contains(masked, "installation") {
		t.Errorf("without the caller's: left %q", masked)
	}
	if masked := own.Known(text); strings.Contains(masked, "credential") {
		t.Errorf("of what is known alone: left %q", masked)
	}
}

// What was found clean was clean of what was looked for then.
func TestAnItemIsReadAgainForACredentialThatIsNew(t *testing.T) {
	r := guarding(t, "installation-credential-1")
	text := []byte(`{"role":"user","content":"` + strings.Repeat("nothing to see here ", 20) + `new-credential-2 and callers-credential-3"}`)
	spans := []codec.Span{{Start: 0, End: len(text)}}
	prints := codec.Fingerprints(nil, "a", text, spans)
	if _, found := r.Body(text, spans, prints); len(found) != 0 {
		t.Fatalf("found %v", found)
	}
	if masked, _ := r.With("callers-credential-3").Body(text, spans, prints); bytes.Contains(masked, []byte("callers-credential-3")) {
		t.Errorf("left %s", masked)
	}
	r.Guard("new-credential-2")
	if masked, _ := r.Body(text, spans, prints); bytes.Contains(masked, []byte("new-credential-2")) {
		t.Errorf("left %s", masked)
	}
}

// Models and providers say a credential in pieces. It is masked wherever the pieces end, and whenever what has come so far has
// to be settled.
func TestACredentialInUseIsMaskedWhereverAStreamIsCut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.SampledFrom(shapeless).Draw(t, "value")
		r, err := redact.New(redact.Options{})
		if err != nil {
			t.Fatal(err)
		}
		r.Guard(value)
		written := string(asJSONRapid(t, value))
		if rapid.Bool().Draw(t, "escaped") {
			written = escapedLetters(value, `\u%04x`)
		}
		text := []byte(strings.Repeat("word ", rapid.IntRange(0, 80).Draw(t, "before")) + written + " and on")
		s := r.NewStream()
		mask := func(name string, start, end int64, _ bool) {
			redact.Mask(text, []redact.Match{{Start: int(start), End: int(end), Name: name}})
		}
		for at := 0; at < len(text); {
			n := min(rapid.IntRange(1, 40).Draw(t, "fragment"), len(text)-at)
			for at+n < len(text) && insideEscape(text[at:at+n]) {
				n++
			}
			s.Add(7, int64(at), bytes.Clone(text[at:at+n]))
			at += n
			if rapid.IntRange(0, 4).Draw(t, "settle") == 0 {
				s.Settle(false, int64(at), mask)
			}
		}
		s.Settle(true, int64(len(text)), mask)
		if shows(string(text), value) {
			t.Fatalf("left %s", text)
		}
	})
}

// insideEscape reports whether a fragment ends inside an escape.
func insideEscape(fragment []byte) bool {
	slash := bytes.LastIndexByte(fragment, '\\')
	if slash < 0 || slash > 0 && fragment[slash-1] == '\\' {
		return false
	}
	rest := fragment[slash:]
	return len(rest) == 1 || rest[1] == 'u' && len(rest) < 6
}

// A stream that says a long credential letter by letter has to be settled before its end has come.
func TestACredentialThatIsSettledInPartsIsMaskedInEachOfThem(t *testing.T) {
	value := shapeless[len(shapeless)-1]
	r := guarding(t, value)
	text := []byte("it is " + value + " indeed")
	s := r.NewStream()
	mask := func(name string, start, end int64, _ bool) {
		redact.Mask(text, []redact.Match{{Start: int(start), End: int(end), Name: name}})
	}
	cut := len("it is ") + len(value)*2/3
	s.Add(1, 0, bytes.Clone(text[:cut]))
	s.Settle(true, int64(cut), mask)
	s.Add(1, int64(cut), bytes.Clone(text[cut:]))
	s.Settle(true, int64(len(text)), mask)
	if want := "it is " + strings.Repeat("*", len(value)) + " indeed"; string(text) != want {
		t.Errorf("left %q", text)
	}
}

// Encoders write letters of a credential as escapes.
func TestCredentialsAreFoundBehindEscapes(t *testing.T) {
	r := builtin(t)
	for _, c := range credentials() {
		whole := c.kept + c.secret + c.after()
		for how, write := range map[string]func(string) string{
			"every letter":               func(s string) string { return escapedLetters(s, `\u%04x`) },
			"every letter, in capitals":  func(s string) string { return escapedLetters(s, `\u%04X`) },
			"every letter, JSON in JSON": func(s string) string { return escapedLetters(s, `\\u%04x`) },
			"signs": func(s string) string {
				return strings.NewReplacer("-", `\u002d`, "_", `\u005f`, "+", `\u002B`, "&", `\u0026`, "=", `\u003d`, ":", `\u003A`, "/", `\u002F`, "@", `\u0040`, "\n", `\n`, "\r", `\r`, "\t", `\t`, `"`, `\"`).Replace(s)
			},
		} {
			text := []byte(`{"text":"the key is ` + write(whole) + `, and \"no\" other"}`)
			if found := r.Mask(text); len(found) != 1 || found[0].Name != c.name {
				t.Errorf("%s, %s escaped: found %v in %s", c.name, how, found, text)
				continue
			}
			var said struct{ Text string }
			if err := json.Unmarshal(text, &said); err != nil {
				t.Errorf("%s, %s escaped: no JSON any more: %s", c.name, how, text)
			}
			if strings.HasSuffix(how, "in JSON") {
				if err := json.Unmarshal([]byte(`"`+strings.ReplaceAll(said.Text, `"`, `\"`)+`"`), &said.Text); err != nil {
					t.Errorf("%s, %s escaped: the inner JSON is none any more: %s", c.name, how, text)
				}
			}
			for part := range strings.FieldsFuncSeq(c.secret, func(r rune) bool { return r == '\n' || r == '\r' }) {
				if strings.Contains(said.Text, part) {
					t.Errorf("%s, %s escaped: %q still stands in %q", c.name, how, part, said.Text)
				}
			}
			if !strings.HasPrefix(said.Text, "the key is ") || !strings.HasSuffix(said.Text, `, and "no" other`) {
				t.Errorf("%s, %s escaped: the text around it has changed: %q", c.name, how, said.Text)
			}
		}
	}
}

func TestAPasswordWithAnEscapedSignIsMasked(t *testing.T) {
	text := []byte(`{"text":"postgres://app:pa55w0rd\u0026Xy12Zq9@db/x \u0026 more \u003cb\u003e"}`)
	builtin(t).Mask(text)
	if want := `{"text":"postgres://app:********\u002a*******@db/x \u0026 more \u003cb\u003e"}`; string(text) != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
}

func TestALongTextIsLookedThroughToItsEnd(t *testing.T) {
	r := builtin(t)
	r.Guard(shapeless[0])
	text := []byte(`{"text":"`)
	for i := range 40 {
		text = append(text, strings.Repeat("word \\u0026 ", 2000+i*7)...)
		text = append(text, escapedLetters(shapeless[0], `\u%04x`)+" "+escapedLetters("sk-"+"proj-"+body(40), `\u%04x`)+" "...)
	}
	text = append(text, `"}`...)
	r.Mask(text)
	var said struct{ Text string }
	if err := json.Unmarshal(text, &said); err != nil {
		t.Fatal(err)
	}
	if n, m := strings.Count(said.Text, shapeless[0]), strings.Count(said.Text, body(40)); n != 0 || m != 0 || len(text) < 700<<10 {
		t.Errorf("%d and %d are left in %d bytes", n, m, len(text))
	}
}

// A body of an installation with eight providers, in which there is none of their credentials.
func BenchmarkMaskWithCredentials300KB(b *testing.B) {
	r := builtin(b)
	for i := range 8 {
		r.Guard(fmt.Sprintf("PROVKEY-%d-", i) + body(40))
	}
	text := agentBody(300 << 10)
	inProcessorTime(b, len(text), func(int) { r.Mask(text) })
}
