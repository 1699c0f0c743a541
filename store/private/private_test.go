package private

import (
	"regexp"
	"strings"
	"testing"
)

func TestMarkedTextIsCutOut(t *testing.T) {
	long := strings.Repeat("other words ", 200)
	for _, row := range []struct{ text, kept string }{
		{"nothing", "nothing"},
		{"", ""},
		{"a < b, <b>bold</b> & <privateKey>k</privateKey>", "a < b, <b>bold</b> & <privateKey>k</privateKey>"},
		{"<private-note>x</private-note> <private.x> <private:x> <private_x> <privaté>", "<private-note>x</private-note> <private.x> <private:x> <private_x> <privaté>"},
		{"<private>secret</private>", ""},
		{"a <private>secret</private> b", "a  b"},
		{"a<private>secret</private>b", "a b"},
		{"<private>" + long + "secret</private> b", " b"},
		{"a <private>" + long + "secret", "a "},
		{"a <PRIVATE>secret</Private> b", "a  b"},
		{"a <private reason=\"x\">secret</private> b", "a  b"},
		{"a <private\n reason='x'\n>secret</private\n> b", "a  b"},
		{"a < private >secret</ private > b", "a  b"},
		{"a <\tprivate>secret< / private > b", "a  b"},
		{"<private>secret <private>secret</private> secret</private> b", " b"},
		{"<private>secret <private>secret</private> secret", ""},
		{"<private>secret <private/> secret</private> b", " b"},
		{"a <private>secret</private> b <private>secret</private> c", "a  b  c"},
		{"a <private secret", "a "},
		{"a <private", "a "},
		{"a <private>secret</private", "a "},
		{"a <private>secret</private b", "a "},
		{"a </private> b </private", "a </private> b </private"},
		{"a <private/> b <private x=\"y\" /> c", "a <private/> b <private x=\"y\" /> c"},
		{"<<private>secret</private>private>b", "<\nprivate>b"},
		{"<pri<private>secret</private>vate>b", "<pri vate>b"},
	} {
		if kept := Cut(row.text); kept != row.kept {
			t.Errorf("%.60q leaves %q, not %q", row.text, kept, row.kept)
		}
		if marked := Marked(row.text); marked != strings.Contains(row.text, "secret") && row.text != "a <private" {
			t.Errorf("%.60q is marked: %v", row.text, marked)
		}
	}
}

func TestAMarkContinuesInTheNextPiece(t *testing.T) {
	var c Cutter
	var kept []string
	for _, piece := range []string{"a <private>secret", "secret", "secret <private>secret</private>", "secret</private> b", "c"} {
		kept = append(kept, c.Cut(piece))
	}
	if got := strings.Join(kept, "|"); got != "a |||"+" b|c" || c.Open() {
		t.Errorf("left: %q", got)
	}
}

func TestATextWithoutMarksIsNotCopied(t *testing.T) {
	text := strings.Repeat("for i := 0; i < n; i++ { <private-note> }\n", 100)
	if n := testing.AllocsPerRun(10, func() { Cut(text) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// Searching for the end of each mark from its start would take hours.
func TestMarksWithoutAnEndAreReadOnce(t *testing.T) {
	for _, piece := range []string{"</private ", "<private ", "< ", "<private>", "</private>", "<private>x</private>y", "<private>x</private> "} {
		Cut(strings.Repeat(piece, 1<<18))
		Cut("<private>" + strings.Repeat(piece, 1<<18))
	}
}

// reference cuts the slow and simple way, one mark at a time.
func reference(text string) string {
	mark := regexp.MustCompile(`(?i)<[ \t]*(/?)[ \t]*private(?:[^a-z0-9_.:\x{80}-\x{10ffff}>-][^>]*)?(>|$)`)
	var kept string
	depth := 0
	for text != "" {
		m := mark.FindStringSubmatchIndex(text)
		if m == nil {
			m = []int{len(text), len(text), 0, 0, 0, 0}
		}
		if depth == 0 {
			kept += text[:m[0]]
		}
		tag := text[m[0]:m[1]]
		closing, ended := m[3] > m[2], strings.HasSuffix(tag, ">")
		switch {
		case tag == "":
		case closing && !ended, closing && depth == 0, strings.HasSuffix(tag, "/>") && !closing:
			if depth == 0 {
				kept += tag
			}
		case closing:
			depth--
		default:
			depth++
		}
		text = text[m[1]:]
	}
	return kept
}

func FuzzCut(f *testing.F) {
	for _, seed := range []string{
		"a <private>b</private> c", "<PRIVATE x='y'>", "< private ><private></ private >b", "<private", "<private/>", "<<private>x</private>private>y", "</private",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		kept := Cut(text)
		if Marked(kept) || Cut(kept) != kept {
			t.Errorf("%q leaves %q, which is marked", text, kept)
		}
		if !isPlain(text) {
			return // the reference reads whole characters
		}
		plain := strings.NewReplacer(" ", "", "\t", "", "\n", "").Replace
		if want := reference(text); plain(kept) != plain(want) {
			t.Errorf("%q leaves %q, not %q", text, kept, want)
		}
	})
}

func isPlain(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r >= 0x80 || r < ' ' && r != '\n' && r != '\t' })
}
