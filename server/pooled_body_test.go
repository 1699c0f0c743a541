package server_test

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mnemeproxy/mneme/router"
)

// Bodies that are translated, and the answers to them, are in memory that other requests use next. What one of them says is
// seen in no other one: neither at the provider, nor in an answer, nor on record, also where a call is repeated or where the
// provider answers while a body is still on its way to it.
func TestRequestsThatUseTheSameMemorySeeNothingOfEachOther(t *testing.T) {
	const clients, requests = 4, 8
	word := regexp.MustCompile(`client\d+-request\d+`)
	alone := func(text string) (words string, mixed bool) {
		all := word.FindAllString(text, -1)
		for _, other := range all {
			mixed = mixed || other != all[0]
		}
		return strings.Join(all[:min(1, len(all))], ""), mixed
	}
	var calls, answered atomic.Int64
	up := answering(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		kind := calls.Add(1) % 4
		if kind == 0 { // an early answer: nothing of the body has been read
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the proxy has let go of it
		}
		said, mixed := alone(string(body))
		if mixed || said == "" {
			t.Errorf("a request says %q and other things", said)
		}
		if kind == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		answered.Add(1)
		_, _ = fmt.Fprintf(w, `{"id":"msg_1","type":"message","role":"assistant","model":"claude-opus-4-8","content":[{"type":"text","text":"%s"}],`+
			`"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}}`, strings.Repeat(said+" ", 200+len(body)%1000))
	})
	h := build(t, func(p *plan) {
		leadTo(p, up)
		p.router.Breaker = router.Breaker{Failures: -1}
	})
	type sent struct {
		body string
		*answer
	}
	got := make([]sent, clients*requests)
	var all sync.WaitGroup
	for client := range clients {
		all.Go(func() {
			for request := range requests {
				says := fmt.Sprintf("client%d-request%d", client, request)
				body := `{"model":"claude-opus-4-8","messages":[{"role":"user","content":"` + strings.Repeat(says+" ", 100+3000*((client+request)%5)) + `"}]}`
				a := h.outcome(chat.path, body)
				if said, mixed := alone(a.body); a.cut != nil || mixed || (a.status == http.StatusOK) != (said == says) || said != "" && said != says {
					t.Errorf("%s was answered with %d and %q: %v", says, a.status, said, a.cut)
				}
				got[client*requests+request] = sent{body, a}
			}
		})
	}
	all.Wait()
	for _, a := range got {
		if x := h.settled(a.exchange()); string(x.RawRequest) != a.body || string(x.RawResponse) != a.answer.body {
			said, _ := alone(a.body)
			t.Errorf("%s: on record are other bytes than were sent", said)
		}
	}
	if answered.Load() == 0 {
		t.Error("no request was answered")
	}
}
