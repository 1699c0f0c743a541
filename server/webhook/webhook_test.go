package webhook

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// received is a request that a receiver got.
type received struct {
	id   string
	body []byte
	fail error // why its signature is invalid
}

// listen starts a receiver that refuses the first requests.
func listen(t *testing.T, refuse int) (url string, got chan received) {
	t.Helper()
	signer, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	got = make(chan received, 100)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if refuse > 0 {
			refuse--
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		got <- received{r.Header.Get("webhook-id"), body, signer.Verify(body, r.Header)}
	}))
	t.Cleanup(server.Close)
	return server.URL, got
}

func begin(t *testing.T, dir string, pause time.Duration, hooks ...Hook) *Sender {
	t.Helper()
	s, err := Start(Options{Hooks: hooks, Dir: dir, Log: slog.New(slog.DiscardHandler), Pause: func(int) time.Duration { return pause }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func next(t *testing.T, got chan received) received {
	t.Helper()
	select {
	case r := <-got:
		if r.fail != nil {
			t.Errorf("the signature: %v", r.fail)
		}
		return r
	case <-time.After(time.Minute):
		t.Fatal("nothing came")
		return received{}
	}
}

func TestAReceiverGetsTheEventsItWantsSigned(t *testing.T) {
	url, got := listen(t, 0)
	s := begin(t, t.TempDir(), time.Hour, Hook{URL: url, Secret: secret, Events: []string{Budget}})
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	s.Tell(Failure, at, nil)
	s.Tell(Budget, at, map[string]int{"percent": 80})
	var told struct {
		Type      string
		Timestamp time.Time
		Data      struct{ Percent int }
	}
	if err := json.Unmarshal(next(t, got).body, &told); err != nil || told.Type != Budget || !told.Timestamp.Equal(at) || told.Data.Percent != 80 {
		t.Errorf("%+v (%v)", told, err)
	}
}

func TestAMessageIsResentUnderOneIDUntilItIsAccepted(t *testing.T) {
	url, got := listen(t, 2)
	s := begin(t, t.TempDir(), time.Millisecond, Hook{URL: url, Secret: secret})
	s.Tell(Erasure, time.Now(), nil)
	first := next(t, got)
	for range 2 {
		if again := next(t, got); again.id != first.id || !bytes.Equal(again.body, first.body) {
			t.Errorf("%s %s came after %s %s", again.id, again.body, first.id, first.body)
		}
	}
}

func TestAMessageSurvivesARestart(t *testing.T) {
	dir := t.TempDir()
	url, got := listen(t, 1)
	s := begin(t, dir, time.Hour, Hook{URL: url, Secret: secret})
	s.Tell(Erasure, time.Now(), nil)
	first := next(t, got)
	s.Close()
	kept, err := filepath.Glob(filepath.Join(dir, "*", "*"+suffix))
	if err != nil || len(kept) != 1 {
		t.Fatalf("%d messages are kept (%v)", len(kept), err)
	}
	text, err := os.ReadFile(kept[0])
	if err != nil {
		t.Fatal(err)
	}
	var m message
	if err := json.Unmarshal(text, &m); err != nil || m.ID != first.id {
		t.Fatalf("kept is %s (%v)", text, err)
	}
	begin(t, dir, time.Hour, Hook{URL: url, Secret: secret})
	if again := next(t, got); again.id != first.id {
		t.Errorf("after the restart it is %s, was %s", again.id, first.id)
	}
}

func TestAnInvalidHookIsRefused(t *testing.T) {
	for name, h := range map[string]Hook{
		"no URL":           {URL: "example.com", Secret: secret},
		"another scheme":   {URL: "file:///etc/passwd", Secret: secret},
		"no secret":        {URL: "https://example.com"},
		"a short secret":   {URL: "https://example.com", Secret: "whsec_c2hvcnQ="},
		"an unknown event": {URL: "https://example.com", Secret: secret, Events: []string{"budget"}},
	} {
		if h.Check() == nil {
			t.Errorf("%s passes", name)
		}
	}
	if err := (Hook{URL: "https://example.com", Secret: secret, Events: Events}).Check(); err != nil {
		t.Error(err)
	}
}
