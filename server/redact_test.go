package server_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/digest"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/redact"
	"github.com/mnemeproxy/mneme/store/search"
)

// A made-up credential, put together here so that nothing in this file has the shape of one.
const (
	keyStart = "sk-" + "proj-"
	keyRest  = "Zx81Qw72Er63Ty54Ui45Op36As27Df18Gh09Jk91Lz82Xc73Vb64Nm55"
	aKey     = keyStart + keyRest
	aMask    = keyStart + "********************************************************"
)

// leaks reports whether text shows more of the key than an issuer's prefix.
func leaks(text string) bool {
	for i := 0; i+12 <= len(keyRest); i++ {
		if strings.Contains(text, keyRest[i:i+12]) {
			return true
		}
	}
	return false
}

// What a client and a provider say to each other reaches them as it is. What is remembered of it has no credentials, on
// every surface, to every provider, in one piece and in deltas of three letters.
func TestCredentialsReachTheOtherSideAndNotTheStore(t *testing.T) {
	h := discreet(t)
	for _, s := range generating {
		for _, model := range []string{chat.model, responses.model, messages.model, "gemini-3-pro", "deepseek-v4-pro"} {
			for _, stream := range []bool{false, true} {
				name := fmt.Sprintf("%s to %s, streamed %t", s.name, model, stream)
				script := `size 3 ; reasoning "it begins with ` + aKey + `" ; text "your key is ` + aKey + ` indeed"`
				to := s
				to.model = model
				a := h.post(to.path, to.body(script, stream), "User-Agent", "client "+aKey, "X-Service-Chat-Key", name+" "+aKey)
				if a.status != 200 || !stream && !strings.Contains(a.body, aKey) {
					t.Fatalf("%s: the client got %d %s", name, a.status, a.body)
				}
				if sent := string(h.upstream().Body); !strings.Contains(sent, aKey) {
					t.Errorf("%s: the provider got %s", name, sent)
				}
				x := h.settled(a.exchange())
				for part, raw := range map[string][]byte{"request": x.RawRequest, "response": x.RawResponse} {
					if leaks(string(raw)) {
						t.Errorf("%s: the stored %s shows the key:\n%s", name, part, raw)
					}
				}
				if len(x.RawResponse) != len(a.body) {
					t.Errorf("%s: %d bytes are stored of an answer of %d", name, len(x.RawResponse), len(a.body))
				}
				d, err := digest.Exchange(x)
				ok(t, err)
				said := fmt.Sprint(d.Answer)
				if leaks(said) || !strings.Contains(said, "your key is "+aMask+" indeed") {
					t.Errorf("%s: the model is remembered to have said %s", name, said)
				}
				if len(x.Redactions) != 1 || x.Redactions[0].Name != "openai_key" || x.Redactions[0].Request == 0 || x.Redactions[0].Response == 0 {
					t.Errorf("%s: the record says of it %v", name, x.Redactions)
				}
			}
		}
	}
	h.nothingLeaks(t)
}

// Errors quote what was sent, and are remembered too.
func TestACredentialInAnErrorIsMasked(t *testing.T) {
	h := discreet(t)
	for _, s := range generating {
		a := h.post(s.path, s.body(`error 400 message="no such thing as `+aKey+`"`, false))
		if a.status != 400 {
			t.Fatalf("%s: %d %s", s.name, a.status, a.body)
		}
		if x := h.settled(a.exchange()); leaks(fmt.Sprintf("%s %s %+v", x.RawRequest, x.RawResponse, x.Error)) {
			t.Errorf("%s: the record shows the key: %s %+v", s.name, x.RawResponse, x.Error)
		}
	}
	a := h.post(chat.path, `{"model":"`+aKey+`","messages":[]}`)
	if x := h.settled(a.exchange()); leaks(fmt.Sprintf("%s %s %+v", x.RawRequest, x.RawResponse, x.ExchangeInfo)) {
		t.Errorf("a refused request: the record shows the key: %+v", x)
	}
	h.nothingLeaks(t)
}

// A conversation is found again by what it opened with and what was first answered, also where both hold a credential.
func TestAConversationAboutACredentialStaysOne(t *testing.T) {
	h := remembering(t)
	for _, s := range generating {
		first := sim("is "+aKey+" mine? "+s.name, "yes, "+aKey+" is yours")
		session := h.session(s.path, s.said(s.model, "Be brief.", first))
		h.turns(session)
		if again := h.session(s.path, s.said(s.model, "Be brief.", first, "yes, "+aKey+" is yours", sim("since when?", "always"))); again != session {
			t.Errorf("%s: the second turn is in session %s, the first in %s", s.name, again, session)
		}
		if turns := h.turns(session); len(turns) != 2 || turns[1].Turn.Known != 2 {
			t.Errorf("%s: the turns are %+v", s.name, turns)
		}
	}
}

// An answer that is far longer than what is held of it in memory is masked in every part, also where a part ends inside a
// credential.
func TestALongAnswerIsMaskedInEveryPart(t *testing.T) {
	h := remembering(t)
	said := strings.Repeat("The key is "+aKey+". And so on. ", 300)
	for _, s := range generating {
		for _, stream := range []bool{false, true} {
			for _, size := range []int{3, 100} {
				a := h.post(s.path, s.body(fmt.Sprintf(`text %q size=%d`, said, size), stream))
				x := h.settled(a.exchange())
				d, err := digest.Exchange(x)
				ok(t, err)
				want := strings.Repeat("The key is "+aMask+". And so on. ", 300)
				if a.status != 200 || leaks(string(x.RawResponse)) || len(d.Answer) != 1 || d.Answer[0].Parts[0].Text != want {
					t.Errorf("%s, streamed %t, by %d: %d, the record shows the key or something else, in %d bytes", s.name, stream, size, a.status, len(x.RawResponse))
				}
			}
		}
	}
}

func TestImportedTextIsMaskedToo(t *testing.T) {
	from := build(t, func(p *plan) { p.store.Redact = nil; p.server.Log = nil })
	a := from.post(chat.path, chat.body(`text "it is `+aKey+`" size=3`, true), "X-Service-Chat-Key", aKey)
	h := discreet(t)
	for step, err := range from.store.Archive().Export(t.Context(), "acme", record.Selection{All: true}) {
		ok(t, err)
		if step.Exchange != nil && !leaks(string(step.Exchange.RawRequest)) {
			t.Fatal("the export has nothing to be masked")
		}
		if _, err := h.store.Archive().Import(t.Context(), "acme", step); err != nil {
			t.Fatal(err)
		}
	}
	x := h.record(a.exchange())
	d, err := digest.Exchange(x)
	ok(t, err)
	if leaks(fmt.Sprintf("%s %s %+v %v", x.RawRequest, x.RawResponse, x.ExchangeInfo, d)) || len(x.Redactions) != 1 {
		t.Errorf("the import shows the key: %s %s %+v", x.RawRequest, x.RawResponse, x.ExchangeInfo)
	}
	h.nothingLeaks(t)
}

func TestPatternsOfTheOperatorsOwnAreMasked(t *testing.T) {
	h := build(t, func(p *plan) {
		own, err := redact.New(redact.Options{Patterns: []redact.Pattern{{Name: "ticket", Regex: `ACME-[0-9]{4}`}}})
		ok(t, err)
		p.store.Redact, p.store.Stream = own, digest.Stream
	})
	a := h.post(messages.path, messages.body(`text "see ACME-1234" size=2`, true))
	x := h.settled(a.exchange())
	d, err := digest.Exchange(x)
	ok(t, err)
	if strings.Contains(string(x.RawRequest), "ACME-1234") || strings.Contains(fmt.Sprint(d), "ACME-1234") || x.Redactions[0] != (record.Redaction{Name: "ticket", Request: 1, Response: 1}) {
		t.Errorf("%s\n%s\n%v", x.RawRequest, x.RawResponse, x.Redactions)
	}
}

// nothingLeaks reads everything that can be read of the harness's memory.
func (h *harness) nothingLeaks(t *testing.T) {
	t.Helper()
	if _, _, body := h.find(h.key, `{"query":"key your indeed it mine"}`); leaks(body) {
		t.Errorf("a search shows %s", body)
	}
	for _, path := range []string{"/sessions?limit=100", "/exchanges?limit=100", "/export.jsonl", "/stats"} {
		if a := h.get(path); a.status != 200 || leaks(a.body) {
			t.Errorf("%s shows the key, or fails: %d", path, a.status)
		}
	}
	for _, id := range h.get("/sessions?limit=100").ids(t) {
		if a := h.get("/sessions/" + id + "/timeline?limit=100"); a.status != 200 || leaks(a.body) {
			t.Errorf("the timeline of %s shows the key, or fails: %d %s", id, a.status, a.body)
		}
	}
	for _, id := range h.get("/exchanges?limit=100").ids(t) {
		if a := h.get("/exchanges/" + id + "?include=raw_request,raw_response,normalized"); a.status != 200 || leaks(a.body) {
			t.Errorf("exchange %s shows the key, or fails: %d %s", id, a.status, a.body)
		}
	}
	if leaks(h.log.String()) {
		t.Errorf("the log shows the key:\n%s", h.log)
	}
}

// discreet is a harness that can be searched, and whose files are read when it is closed.
func discreet(t *testing.T) *harness {
	t.Helper()
	dir := t.TempDir()
	t.Cleanup(func() {
		ok(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			text, err := os.ReadFile(path)
			if leaks(string(text)) {
				t.Errorf("%s shows the key", path)
			}
			return err
		}))
	})
	h := build(t, func(p *plan) {
		p.store.Dir, p.store.Digest = dir, digest.Exchange
		p.index = &search.Options{Dir: filepath.Join(dir, "index")}
	})
	h.key = h.createKey("acme", store.AllScopes)
	return h
}
