package server_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/bench/provider"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/record"
)

// terminal is what the last event of a stream can be told by.
func (s surface) terminal() string {
	switch s.name {
	case "chat":
		return "data: [DONE]"
	case "responses":
		return `"type":"response.completed"`
	case "gemini":
		return `"finishReason":`
	default:
		return `"type":"message_stop"`
	}
}

func TestARequestIsOnRecordBeforeTheProviderAnswers(t *testing.T) {
	var h *harness
	seen := make(chan error, 1)
	h = build(t, func(p *plan) {
		p.provider.OnRequest = func(r provider.Recorded) {
			page, err := h.store.Archive().Exchanges("acme", record.ExchangeQuery{Limit: 1})
			for deadline := time.Now().Add(timeout); err == nil && len(page.Data) == 0 && time.Now().Before(deadline); {
				page, err = h.store.Archive().Exchanges("acme", record.ExchangeQuery{Limit: 1})
			}
			if err != nil || len(page.Data) == 0 {
				seen <- fmt.Errorf("nothing is on record: %w", err)
				return
			}
			x, err := h.store.Archive().Exchange("acme", page.Data[0].ID)
			if err == nil && (x.Outcome != record.OutcomeOpen || gemini.sent(string(x.RawRequest)) != gemini.sent(string(r.Body))) {
				err = fmt.Errorf("on record as %v: %s", x.Outcome, x.RawRequest)
			}
			seen <- err
		}
	})
	for _, s := range surfaces {
		h.post(s.path, s.body(`text "hi"`, false))
		if err := <-seen; err != nil {
			t.Errorf("%s: %v", s.name, err)
		}
		_, err := h.store.Archive().Erase(context.Background(), "acme", record.Selection{All: true}, false)
		ok(t, err)
		eventually(t, func() error {
			if n := len(h.records("acme")); n > 0 {
				return fmt.Errorf("%d exchanges are still there", n)
			}
			return nil
		})
	}
}

// The record is read the moment the end of the answer is in the client's hands.
func TestAnAnswerIsInTheStoreWhenItsEndArrives(t *testing.T) {
	h := build(t)
	for round := range 10 {
		for _, s := range generating {
			r := h.request(context.Background(), http.MethodPost, s.path, s.body(fmt.Sprintf(`events %d`, 1+20*round), true), "Authorization", "Bearer "+h.key)
			response, err := h.client.Do(r)
			ok(t, err)
			if x := h.record(response.Header.Get("X-Service-Exchange-ID")); x.Outcome != record.OutcomeOpen && x.Outcome != record.OutcomeComplete {
				t.Errorf("%s: at its first byte the exchange is %v", s.name, x.Outcome)
			}
			lines := bufio.NewReader(response.Body)
			received := ""
			for s.name == "gemini" || !strings.Contains(received, s.terminal()) {
				line, err := lines.ReadString('\n')
				if received += line; s.name == "gemini" && errors.Is(err, io.EOF) {
					break // nothing else ends its streams
				}
				ok(t, err)
			}
			x := h.record(response.Header.Get("X-Service-Exchange-ID"))
			rest, err := io.ReadAll(lines)
			ok(t, err)
			_ = response.Body.Close()
			if x.Outcome != record.OutcomeComplete || string(x.RawResponse) != received+string(rest) {
				t.Errorf("%s: with the terminal event seen, the record is %v and holds %d bytes of %d", s.name, x.Outcome, len(x.RawResponse), len(received)+len(rest))
			}
		}
		for _, s := range surfaces {
			r := h.request(context.Background(), http.MethodPost, s.path, s.body(`text "hi"`, false), "Authorization", "Bearer "+h.key)
			response, err := h.client.Do(r)
			ok(t, err)
			x := h.record(response.Header.Get("X-Service-Exchange-ID"))
			if a := read(response); x.Outcome != record.OutcomeComplete || string(x.RawResponse) != a.body {
				t.Errorf("%s: with the head seen, the record is %v with %s", s.name, x.Outcome, x.RawResponse)
			}
		}
	}
}

func TestARecordSaysWhatTheFormatShows(t *testing.T) {
	h := build(t)
	for _, s := range surfaces {
		for _, stream := range []bool{false, true} {
			if stream && s.name == "embeddings" {
				continue
			}
			before := time.Now()
			body := s.body(`text "hi"; usage input=100 cached=40 output=9 reasoning=3`, stream)
			if stream && s.name == "chat" {
				body = with(body, `"stream_options":{"include_usage":true}`)
			}
			a := h.post(s.path, body, "User-Agent", "story/1", "X-Api-Key", callersOwnKey)
			x := h.record(a.exchange())
			if x.Outcome != record.OutcomeComplete || x.Status != 200 || x.Account != "acme" || !strings.HasPrefix(x.KeyID, "key_") ||
				x.Surface != s.name || x.Format != s.name || x.Stream != stream || x.ModelAsked != s.model || x.ModelSent != s.model || x.ModelServed == "" {
				t.Errorf("%s stream=%t: %+v", s.name, stream, x.ExchangeInfo)
			}
			if x.Started.Before(before.Add(-time.Second)) || x.FirstByte.Before(x.Started) || x.LastByte.Before(x.FirstByte) || x.LastByte.After(time.Now()) {
				t.Errorf("%s stream=%t: started %v, first byte %v, last byte %v", s.name, stream, x.Started, x.FirstByte, x.LastByte)
			}
			if s.name != "embeddings" {
				want := record.UsageInfo{InputUncached: 60, CacheRead: 40, Output: 9, Reasoning: 3}
				if s.name == "messages" {
					want.Reasoning = x.Usage.Reasoning // shown by newer versions only
				}
				if x.Usage != want || x.FinishReason == "" || x.ResponseID == "" {
					t.Errorf("%s stream=%t: usage %+v, finish %q, id %q", s.name, stream, x.Usage, x.FinishReason, x.ResponseID)
				}
			} else if x.Usage.InputUncached == 0 {
				t.Errorf("embeddings: usage %+v", x.Usage)
			}
			lines := strings.Join(headerLines(x), "\n")
			if !strings.Contains(lines, "User-Agent: story/1") {
				t.Errorf("%s: the headers on record are %s", s.name, lines)
			}
			h.noSecrets("the record", lines)
		}
	}
}

// Most hosts of the Chat format tell usage on a stream only to clients that ask for it.
func TestAStreamWithoutUsageHasAMarkedEstimateOnRecord(t *testing.T) {
	h, metrics, log := observed(t, nil)
	asked := func(script string, members ...string) *record.Exchange {
		t.Helper()
		body := chat.body(script, true)
		for _, m := range members {
			body = with(body, m)
		}
		a := h.post(chat.path, body, "X-Service-Chat-Key", "k")
		if got := string(h.upstream().Body); got != body {
			t.Errorf("the provider was sent %s for %s", got, body)
		}
		x := h.settled(a.exchange())
		if string(x.RawResponse) != a.body {
			t.Errorf("on record is %s, the client got %s", x.RawResponse, a.body)
		}
		if estimated := int64(len(body)/4 + 1); x.Usage.Estimated && x.Usage.InputUncached != estimated {
			t.Errorf("usage %+v, want %d of input", x.Usage, estimated)
		}
		return x
	}
	const words = `text "one two three four five six seven eight nine ten"`
	exact := asked(words+"; usage input=100 output=9", `"stream_options":{"include_usage":true}`)
	if exact.Usage != (record.UsageInfo{InputUncached: 100, Output: 9}) || h.show(exact.Session).Usage.Estimated {
		t.Errorf("with usage from the provider: %+v", exact.Usage)
	}
	about := asked(words + "; usage input=100 output=9")
	if out := about.Usage.Output; !about.Usage.Estimated || out < 5 || out > 20 {
		t.Errorf("ten words without usage: %+v", about.Usage)
	}
	if empty := asked(`text ""`); empty.Usage.Output != 0 {
		t.Errorf("an empty answer: %+v", empty.Usage)
	}
	failed := h.post(chat.path, chat.body("error 400", true))
	if x := h.settled(failed.exchange()); x.Usage != (record.UsageInfo{}) {
		t.Errorf("an answer that failed: %+v", x.Usage)
	}
	total := h.show(exact.Session).Usage
	if !total.Estimated || total.Output != exact.Usage.Output+about.Usage.Output {
		t.Errorf("the session has %+v", total)
	}
	eventually(t, func() error {
		if got := metrics()[`mneme_tokens_total{kind="output",provider="openai",surface="chat"}`]; got != float64(total.Output) {
			return fmt.Errorf("%v tokens of output are counted, want %d", got, total.Output)
		}
		return nil
	})
	if n := strings.Count(log.String(), `"tokens_estimated":true`); n != 2 {
		t.Errorf("%d lines of the log mark an estimate, want 2", n)
	}
}

func TestRefusedRequestsOfKnownCallersAreOnRecord(t *testing.T) {
	h := build(t)
	for _, s := range surfaces {
		for name, body := range map[string]string{
			"no JSON":           `{"model":`,
			"unknown model":     strings.Replace(s.body("", false), s.model, "nobody-knows-this", 1),
			"no model":          `{}`,
			"two models":        with(s.body("", false), `"model":"claude-opus-4-8"`),
			"not even an array": `"text"`,
		} {
			if name == "no model" && s.name == "gemini" {
				continue // its path has one
			}
			a := h.post(s.path, body)
			if a.status < 400 || a.status >= 500 {
				t.Errorf("%s, %s: %d %s", s.name, name, a.status, a.body)
			}
			errorOf(t, s, a)
			x := h.record(a.exchange())
			if x.Outcome != record.OutcomeRefused || x.Status != a.status || string(x.RawRequest) != body || string(x.RawResponse) != a.body || x.Error == nil {
				t.Errorf("%s, %s: on record as %+v with %q", s.name, name, x.ExchangeInfo, x.RawRequest)
			}
		}
	}
	if n := len(h.provider.Requests()); n != 0 {
		t.Errorf("%d requests reached the provider", n)
	}
}

func TestCaptureCanBeOff(t *testing.T) {
	h := build(t, func(p *plan) { p.server.CaptureOff = true })
	for _, s := range generating {
		for _, stream := range []bool{false, true} {
			a := h.post(s.path, s.body(`text "hi"`, stream))
			if a.status != 200 || a.header.Get("X-Service-Capture") != "off" || a.cut != nil {
				t.Errorf("%s: %d %v", s.name, a.status, a.header)
			}
		}
	}
	if n := len(h.records("")); n != 0 {
		t.Errorf("%d exchanges are on record", n)
	}
}

func TestAFullStoreRefusesExchangesOrLetsThemPass(t *testing.T) {
	t.Run("wait", func(t *testing.T) {
		h := buildOnFullDisk(t, store.Wait)
		before := len(h.provider.Requests())
		for _, s := range surfaces {
			a := h.post(s.path, s.body(`text "hi"`, false))
			_, message := errorOf(t, s, a)
			if a.status < 500 || !strings.Contains(message, "free some space") {
				t.Errorf("%s: %d %s", s.name, a.status, a.body)
			}
		}
		if n := len(h.provider.Requests()) - before; n != 0 {
			t.Errorf("%d requests reached the provider", n)
		}
	})
	t.Run("shed", func(t *testing.T) {
		h := buildOnFullDisk(t, store.Shed)
		for _, s := range surfaces {
			if a := h.post(s.path, s.body(`text "hi"`, false)); a.status != 200 || a.header.Get("X-Service-Capture") != "shed" {
				t.Errorf("%s: %d %v", s.name, a.status, a.header)
			}
		}
	})
}

// buildOnFullDisk starts a harness and then lets the place of its store seem to lie on a volume without room, which /proc
// is: a real one, that others write to and remove from at the same time, would be full at one moment and not at the next.
func buildOnFullDisk(t *testing.T, pressure store.Pressure) *harness {
	place := filepath.Join(t.TempDir(), "store")
	lead := func(to string) {
		fresh := place + ".new"
		ok(t, os.Symlink(to, fresh))
		ok(t, os.Rename(fresh, place))
	}
	h := build(t, func(p *plan) {
		lead(p.store.Dir)
		p.store.Dir, p.store.MinFreeDisk, p.store.OnPressure = place, 1, pressure
	})
	data, err := os.Readlink(place)
	ok(t, err)
	lead("/proc")
	t.Cleanup(func() { lead(data) }) // before the store is closed
	eventually(t, func() error {     // the store looks at its volume from time to time only
		a := h.post(chat.path, chat.body(`text "hi"`, false))
		if a.status == 200 && a.header.Get("X-Service-Capture") == "" {
			return errors.New("the store goes on as if there were room")
		}
		return nil
	})
	return h
}
