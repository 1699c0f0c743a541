package webhook

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// hanging is a receiver that does not answer until it is mended.
type hanging struct {
	url      string
	mended   atomic.Bool
	asked    chan struct{} // a request that hangs
	accepted chan string   // the type and the number of an event
}

func hang(t *testing.T) *hanging {
	t.Helper()
	h := &hanging{asked: make(chan struct{}, 10), accepted: make(chan string)}
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		if !h.mended.Load() {
			h.asked <- struct{}{}
			<-r.Context().Done()
			return
		}
		var event struct {
			Type string
			Data struct{ Number int }
		}
		_ = json.Unmarshal(text, &event)
		h.accepted <- fmt.Sprint(event.Type, " ", event.Data.Number)
	}))
	t.Cleanup(server.Close)
	h.url = server.URL
	return h
}

func event(account string, number int) any {
	return map[string]any{"account": account, "number": number}
}

func TestErasuresAndBudgetsArriveAfterAHangingReceiverManyFailuresAndAKill(t *testing.T) {
	h, dir := hang(t), t.TempDir()
	hook := Hook{URL: h.url, Secret: secret}
	s := begin(t, dir, time.Hour, hook)
	s.Tell(Budget, time.Now(), event("a", 0))
	<-h.asked
	want := []string{Budget + " 0"}
	for i := 1; i <= 40; i++ {
		for n := range 40 { // more failures than there is room for
			s.Tell(Failure, time.Now(), event("a", 100*i+n))
		}
		kind := []string{Budget, Erasure}[i%2]
		s.Tell(kind, time.Now(), event("b", i))
		want = append(want, fmt.Sprint(kind, " ", i))
	}
	left := t.TempDir() // what a kill leaves
	if err := os.CopyFS(left, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	s.Close()
	h.mended.Store(true)
	begin(t, left, time.Hour, hook)
	arrived := map[string]int{}
	for range len(want) + keepings[Failure].room {
		select {
		case event := <-h.accepted:
			arrived[event]++
		case <-time.After(time.Minute):
			t.Fatalf("only %d events arrived", len(arrived))
		}
	}
	for _, event := range want {
		if n := arrived[event]; n != 1 {
			t.Errorf("%s arrived %d times", event, n)
		}
	}
}

func TestAHangingReceiverHoldsUpNoOther(t *testing.T) {
	h := hang(t)
	url, got := listen(t, 0)
	s := begin(t, t.TempDir(), time.Hour, Hook{URL: h.url, Secret: secret}, Hook{URL: url, Secret: secret})
	s.Tell(Failure, time.Now(), event("a", 1))
	next(t, got)
	<-h.asked
	s.Tell(Erasure, time.Now(), event("a", 2))
	if told := next(t, got); !bytes.Contains(told.body, []byte(Erasure)) {
		t.Errorf("got %s", told.body)
	}
}

func TestErasuresAndBudgetsAreSentBeforeFailures(t *testing.T) {
	o := outbox{dir: t.TempDir(), log: slog.New(slog.DiscardHandler)}
	for i, kind := range []string{Failure, Failure, Budget, Failure, Erasure} {
		m, err := newMessage(kind, time.UnixMilli(int64(i)), event("a", i))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := o.add(m); err != nil {
			t.Fatal(err)
		}
	}
	var order []string
	for m, _ := o.next(time.Now()); m != nil; m, _ = o.next(time.Now()) {
		order = append(order, m.kind)
		if err := o.remove(m); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{Budget, Erasure, Failure, Failure, Failure}; !slices.Equal(order, want) {
		t.Errorf("the order is %v, want %v", order, want)
	}
}

func TestAFullKindDropsTheOldestOfTheAccountWithTheMost(t *testing.T) {
	o := outbox{dir: t.TempDir(), log: slog.New(slog.DiscardHandler)}
	add := func(kind, account string, number int) *message {
		t.Helper()
		m, err := newMessage(kind, time.UnixMilli(int64(number)), event(account, number))
		if err != nil {
			t.Fatal(err)
		}
		dropped, err := o.add(m)
		if err != nil {
			t.Fatal(err)
		}
		return dropped
	}
	add(Failure, "quiet", 0)
	add(Erasure, "loud", 1)
	first := keepings[Failure].room
	for i := 1; i < first; i++ {
		if dropped := add(Failure, "loud", 1+i); dropped != nil {
			t.Fatalf("failure %d drops %s", i, dropped.Body)
		}
	}
	for i := range 3 {
		dropped := add(Failure, []string{"loud", "quiet", "third"}[i], 10_000+i)
		if dropped == nil || dropped.account != "loud" || dropped.told.UnixMilli() != int64(2+i) {
			t.Errorf("dropped is %+v", dropped)
		}
	}
	again := outbox{dir: o.dir, log: o.log}
	if err := again.open(); err != nil || len(again.waiting) != first+1 {
		t.Errorf("%d are kept (%v)", len(again.waiting), err)
	}
}

func TestUnreadableMessagesAreLoggedAndStay(t *testing.T) {
	dir := t.TempDir()
	var log bytes.Buffer
	o := outbox{dir: dir, log: slog.New(slog.NewTextHandler(&log, nil))}
	m, err := newMessage(Erasure, time.Now(), event("a", 1))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := o.add(m); err != nil {
		t.Fatal(err)
	}
	unreadable := []string{"msg_cut.json", "msg_other.json", "msg_foreign.json"}
	for i, text := range []string{`{"id":"msg_cut","bo`, `{"id":"msg_one","body":{}}`, `{"id":"msg_foreign","body":"text"}`} {
		if err := os.WriteFile(filepath.Join(dir, unreadable[i]), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	half := filepath.Join(dir, "msg_half.json.new")
	if err := os.WriteFile(half, []byte(`{"id"`), 0o600); err != nil {
		t.Fatal(err)
	}
	again := outbox{dir: dir, log: o.log}
	if err := again.open(); err != nil || len(again.waiting) != 1 || again.waiting[0].ID != m.ID {
		t.Errorf("%d are read (%v)", len(again.waiting), err)
	}
	for _, name := range unreadable {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil || !strings.Contains(log.String(), name) {
			t.Errorf("%s: %v, and the log is %s", name, err, log.String())
		}
	}
	if _, err := os.Stat(half); err == nil || strings.Contains(log.String(), "half") {
		t.Errorf("an unfinished file: %v, and the log is %s", err, log.String())
	}
}

func TestAReceiverThatIsReachableAgainGetsWhatWaitedForIt(t *testing.T) {
	url, got := listen(t, 2)
	s := begin(t, t.TempDir(), time.Hour, Hook{URL: url, Secret: secret})
	for i := range 2 {
		s.Tell(Failure, time.Now(), event("a", i))
		next(t, got)
	}
	s.Tell(Failure, time.Now(), event("a", 2)) // is accepted
	for range 3 {
		next(t, got)
	}
}

func TestTheLogHasNoPathOfAWebhook(t *testing.T) {
	var log bytes.Buffer
	refused, _ := listen(t, 1)
	for _, url := range []string{"http://127.0.0.1:1/services/PATH", refused + "/services/PATH"} {
		r := receiver{hook: Hook{URL: url, Secret: secret}}
		s, err := Start(Options{Hooks: []Hook{r.hook}, Dir: t.TempDir(), Log: slog.New(slog.NewTextHandler(&log, nil)), Pause: func(int) time.Duration { return time.Hour }})
		if err != nil {
			t.Fatal(err)
		}
		m, err := newMessage(Failure, time.Now().Add(-2*keepFor), event("a", 1))
		if err != nil {
			t.Fatal(err)
		}
		s.receivers[0].deliver(t.Context(), m)
		s.Close()
	}
	if strings.Contains(log.String(), "PATH") || !strings.Contains(log.String(), "127.0.0.1:1") {
		t.Error(log.String())
	}
	_, err := Start(Options{Hooks: []Hook{{URL: "https://example.com/PATH"}}, Dir: t.TempDir()})
	if err == nil || strings.Contains(err.Error(), "PATH") {
		t.Error(err)
	}
}
