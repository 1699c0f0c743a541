package provider

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestScriptErrorsNameTheDirectiveAndItsUse(t *testing.T) {
	for text, want := range map[string]string{
		`[[sim: text "x"`:                       `no closing "]]"`,
		`[[sim: text "x ]]`:                     `is not closed`,
		`[[sim: call f {"a":1 `:                 `is not closed`,
		`[[sim: call f {"a":1 ]]`:               `is not valid JSON`,
		`[[sim: call f {"a":} ]]`:               `is not valid JSON`,
		`[[sim: dance ]]`:                       `unknown directive "dance"`,
		`[[sim: "text" ]]`:                      `starts with its name`,
		`[[sim: text ]]`:                        `text: something is missing; usage: text "…" [size=N]`,
		`[[sim: text "a" "b" ]]`:                `text: unexpected "b"`,
		`[[sim: text "a" color=red ]]`:          `unexpected "red"`,
		`[[sim: events many ]]`:                 `"many" is not a number from 1 to 1000000`,
		`[[sim: events 2000000 ]]`:              `is not a number from 1 to`,
		`[[sim: delay soon ]]`:                  `"soon" is not a duration`,
		`[[sim: delay 2h ]]`:                    `up to 1h`,
		`[[sim: error teapot ]]`:                `unknown class "teapot"`,
		`[[sim: error 99 ]]`:                    `99 is not a status`,
		`[[sim: cut how=softly ]]`:              `unknown way "softly"`,
		`[[sim: cut after=-1 ]]`:                `is not a number`,
		`[[sim: stop never ]]`:                  `unknown reason "never"`,
		`[[sim: cite https://x ]]`:              `behind the text`,
		`[[sim: omit everything ]]`:             `unknown thing "everything"`,
		`[[sim: usage input= ]]`:                `"input" has no value`,
		`[[sim: ` + strings.Repeat(`then;`, 70): `more than 64 steps`,
	} {
		if _, found, err := findScript(text); !found || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %v, want %s", text, err, want)
		}
	}
}

func TestLastMarkerCountsAndStringsMayHoldAnything(t *testing.T) {
	s, found, err := findScript(`[[sim: text "old"]] and [[sim: text "a ]] ; b \"c\"" ; call f {"x":["]]",{}]} ;; stop sequence "]]" ]] tail ]]`)
	if err != nil || !found || len(s.steps) != 1 {
		t.Fatal(err, found, s)
	}
	got := s.steps[0]
	if len(got.parts) != 2 || got.parts[0].text != `a ]] ; b "c"` || got.parts[1].text != `{"x":["]]",{}]}` || got.stopText != "]]" {
		t.Errorf("parsed %+v", got)
	}
	if _, found, _ = findScript("nothing here"); found {
		t.Error("a script was found where there is none")
	}
}

func TestEveryTextSurvivesTheScript(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		size := rapid.IntRange(1, 9).Draw(t, "size")
		ascii := rapid.Bool().Draw(t, "ascii")
		s, _, err := findScript(`[[sim: text ` + quote(text) + ` ]]`)
		if err != nil {
			t.Fatal(err)
		}
		want := s.steps[0].parts[0].text
		if want != strings.ToValidUTF8(text, "\uFFFD") {
			t.Fatalf("%q became %q", text, want)
		}
		rest, joined := string(appendEscaped(nil, want, ascii)), ""
		for rest != "" {
			var piece string
			piece, rest = cutEscaped(rest, size)
			if piece == "" {
				t.Fatalf("no progress at %q", rest)
			}
			joined += piece
		}
		if got, ok := parseString([]byte(`"` + joined + `"`)); !ok || got != want {
			t.Fatalf("the deltas of %q make %q", want, got)
		}
	})
}

func TestNoScriptPanics(t *testing.T) {
	pieces := []string{"text", "call", "f", `"x"`, `{"a":1}`, "{", `"`, ";", "]]", "=", "then", "size", "3", "error", "429", "usage", "input=5", "[", "\\", " ", "cut", "after=", "stop", "delay", "1ms"}
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOf(rapid.SampledFrom(pieces)).Draw(t, "words")
		s, found, err := findScript(markerOpen + strings.Join(words, " "))
		if err == nil && found {
			for i := range s.steps {
				_, _ = build(&s.steps[i], &prompt{}, strings.Repeat("0", 24), 0)
			}
		}
	})
}

func TestPackageCommentNamesEveryDirective(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	for name := range directives {
		if !regexp.MustCompile(`(?m)[\s,"]` + regexp.QuoteMeta(name) + `[\s,"]`).Match(doc) {
			t.Errorf("the package comment does not explain %q", name)
		}
	}
	for name := range classNames {
		if !strings.Contains(string(doc), name) {
			t.Errorf("the package comment does not name the class %q", name)
		}
	}
}

func TestOnlyOurOwnStateIsAccepted(t *testing.T) {
	made := opaque(stateSignature, "id", 3)
	if !isOpaque(stateSignature, made) || made == opaque(stateSignature, "id", 4) {
		t.Errorf("%q is not recognized, or not of its own", made)
	}
	changed := []byte(made)
	changed[30] ^= 1
	for _, foreign := range []string{"", "sv1.abc", made[:len(made)-1], string(changed), made + "A"} {
		if isOpaque(stateSignature, foreign) {
			t.Errorf("%q passes", foreign)
		}
	}
	if isOpaque(stateThought, made) {
		t.Error("state of one format passes in another")
	}
}
