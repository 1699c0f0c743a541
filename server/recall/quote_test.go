package recall

import (
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/store/search/lexical"
)

// weights are those of a question in a memory of a few documents.
func weights(t *testing.T, question string, documents ...string) *lexical.Weights {
	t.Helper()
	var list []lexical.Document
	for i, text := range documents {
		list = append(list, lexical.Document{ID: strings.Repeat("d", i+1), Text: text})
	}
	index, err := lexical.Over(t.Context(), list)
	if err != nil {
		t.Fatal(err)
	}
	searcher, err := index.Searcher(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = searcher.Close() }()
	w, err := searcher.Weights(lexical.Plain(question))
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestOfALongAnswerTheSentencesThatSayWhatIsAskedAreQuoted(t *testing.T) {
	filler := strings.Repeat("I looked at the logs of these days. ", 20)
	said := filler + "The certificate is now stored as secret/tls-77. " + filler
	asked := "Renew the certificate of the shop."
	w := weights(t, "how was the certificate of the shop renewed", asked, said)
	got := (*others)(nil).answerTo(w, asked, said, quoteBytes)
	if !strings.Contains(got, "secret/tls-77") || len(got) > quoteBytes {
		t.Errorf("%d bytes: %q", len(got), got)
	}
}

func TestALineLongerThanAQuotationIsCutAroundWhatIsAsked(t *testing.T) {
	said := strings.Repeat("äöü ", 400) + "the certificate is in secret/tls-77 " + strings.Repeat("äöü ", 400)
	w := weights(t, "where is the certificate secret/tls-77", said)
	if got := (*others)(nil).answerTo(w, "", said, quoteBytes); !strings.Contains(got, "secret/tls-77") || len(got) > quoteBytes {
		t.Errorf("%d bytes: %q", len(got), got)
	}
}

func TestANumberIsAWordAndACommonNameToo(t *testing.T) {
	many := make([]string, 300)
	for i := range many {
		many[i] = "README.md says something"
	}
	for question, want := range map[string]int{"port 8443 of ErrLockTimeout": 1, "exit code 137 again": 0, "README.md of the shop": 0, "E4711 again": 1} {
		if w := weights(t, question, many...); w.Names != want {
			t.Errorf("%q has %d names, want %d", question, w.Names, want)
		}
	}
}

func TestAnEntryIsCutToItsRoomAndNeverExceedsIt(t *testing.T) {
	e := entry{Hit: Hit{Exchange: "exch_1"}}
	e.add("answered", strings.Repeat("word <tag> ", 60))
	e.add("asked", strings.Repeat("question ", 30))
	for room := range 1200 {
		if text := e.within(room); len(text) > room {
			t.Fatalf("%d bytes in %d: %q", len(text), room, text)
		}
	}
	if text := e.within(1200); !strings.Contains(text, "asked: ") {
		t.Errorf("%q", text)
	}
	if text := e.within(200); strings.Contains(text, "asked: ") || !strings.Contains(text, "answered: ") {
		t.Errorf("%q", text)
	}
}
