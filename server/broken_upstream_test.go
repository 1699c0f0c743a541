package server_test

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/store/record"
)

// lastEvent is the last frame of a stream.
func lastEvent(stream string) string {
	frames := strings.Split(strings.TrimRight(strings.ReplaceAll(stream, "\r\n", "\n"), "\n"), "\n\n")
	return frames[len(frames)-1]
}

// endsWithError checks that a stream ends with the surface's own error event, as its SDKs look for it, and by no means
// as if it were finished.
func endsWithError(t *testing.T, s surface, what string, a *answer) {
	t.Helper()
	last := lastEvent(a.body)
	name, data, _ := strings.Cut(last, "\n")
	if s.name == "chat" || s.name == "gemini" {
		data = last
	}
	data = strings.TrimPrefix(data, "data: ")
	shaped := false
	switch s.name {
	case "chat":
		shaped = member(data, "error", "message") != ""
	case "gemini":
		shaped = member(data, "error", "message") != "" && member(data, "error", "status") != ""
	case "responses":
		shaped = strings.HasPrefix(name, "event: ") && (member(data, "type") == "error" && member(data, "message") != "" ||
			member(data, "type") == "response.failed" && member(data, "response", "error", "message") != "")
	case "messages":
		shaped = name == "event: error" && member(data, "type") == "error" && member(data, "error", "message") != ""
	}
	if !shaped {
		t.Errorf("%s, %s: the stream does not end with the surface's error event:\n%s", s.name, what, last)
	}
	if strings.Contains(a.body, s.terminal()) {
		t.Errorf("%s, %s: the stream looks finished:\n%s", s.name, what, a.body)
	}
	if a.cut == nil {
		t.Errorf("%s, %s: the stream has a clean end:\n%s", s.name, what, a.body)
	}
}

func TestAStreamThatBreaksEndsVisiblyBroken(t *testing.T) {
	onEveryTransport(t, aStreamThatBreaksEndsVisiblyBroken)
}

func aStreamThatBreaksEndsVisiblyBroken(t *testing.T, on transportPlan) {
	h := build(t, on)
	for _, s := range generating {
		for _, script := range []string{
			`events 20; cut after=4 how=abort`,
			`events 20; cut after=4 how=clean`,
			`events 20; cut after=4 how=mid`,
			`events 20; cut after=4 how=reset`,
			`events 20; cut how=abort`,
			`events 20; cut how=clean`,
			`events 20; cut how=mid`,
			`events 20; cut after=4 how=mid; crlf`,
			`events 20; cut after=4 how=mid; one-byte`,
			`events 20; error-inside overloaded after=4`,
			`events 20; error-inside overloaded`,
		} {
			a := h.post(s.path, s.body(script, true))
			if a.status != 200 {
				t.Errorf("%s, %s: %d %s", s.name, script, a.status, a.body)
				continue
			}
			endsWithError(t, s, script, a)
			x := h.record(a.exchange())
			if x.Outcome != record.OutcomeUpstreamError || x.Status != 200 || string(x.RawResponse) != a.body || x.Error == nil {
				t.Errorf("%s, %s: on record as %v with %d bytes of %d", s.name, script, x.Outcome, len(x.RawResponse), len(a.body))
			}
			h.noSecrets("the answer", a.body)
		}
	}
}

func TestAnAnswerThatBreaksBeforeItsFirstByteIsAnErrorWithAStatus(t *testing.T) {
	h := build(t, func(p *plan) { p.router.Breaker = router.Breaker{Failures: 1000, Pause: time.Second} }) // all of them fail
	for _, s := range surfaces {
		for script, want := range map[string]int{
			`text "hello world"; cut how=abort`: 502,
			`text "hello world"; cut how=clean`: 502,
			`text "hello world"; cut how=mid`:   502,
			`text "hello world"; cut how=reset`: 502,
			`reset`:                             502,
			`garbage`:                           502,
			`html 200`:                          502,
			`html 503`:                          0,
			`redirect 302`:                      502,
			`redirect 307`:                      502,
			`body 200 "not json"`:               502,
			`body 500 ""`:                       0,
		} {
			for _, stream := range []bool{false, true} {
				if strings.Contains(script, "cut") && (stream || s.name == "embeddings") || s.name == "embeddings" && stream {
					continue
				}
				what := fmt.Sprintf("%s, stream=%t, %s", s.name, stream, script)
				a := h.post(s.path, s.body(script, stream))
				if want != 0 && a.status != want || a.status < 500 || a.cut != nil {
					t.Errorf("%s: %d %v %s", what, a.status, a.cut, a.body)
				}
				if _, message := errorOf(t, s, a); message == "" || strings.Contains(message, "<html") {
					t.Errorf("%s: says %q", what, message)
				}
				x := h.record(a.exchange())
				if x.Outcome != record.OutcomeUpstreamError || x.Status != a.status || string(x.RawResponse) != a.body || x.Error == nil {
					t.Errorf("%s: on record as %v, %d, %s", what, x.Outcome, x.Status, x.RawResponse)
				}
			}
		}
	}
}

func TestAProvidersOwnErrorsPassUnchanged(t *testing.T) {
	h := build(t)
	for _, s := range surfaces {
		for _, script := range []string{`error 400`, `error 404`, `error 429 retry-after=7`, `error 500`, `error 503`, `error 529`, `error-inside overloaded`} {
			for _, stream := range []bool{false, true} {
				if s.name == "embeddings" && (stream || strings.HasPrefix(script, "error-inside")) || stream && strings.HasPrefix(script, "error-inside") {
					continue
				}
				body := s.body(script, stream)
				want, a := h.direct(s, body), h.post(s.path, body)
				wait := want.header.Get("Retry-After") // Google says it in the body
				if a.status != want.status || a.body != want.body || wait != "" && a.header.Get("Retry-After") != wait {
					t.Errorf("%s, %s: %d %s\nthe provider says %d %s", s.name, script, a.status, a.body, want.status, want.body)
				}
				if x := h.record(a.exchange()); x.Outcome != record.OutcomeUpstreamError || x.Error == nil || x.Error.Message == "" || string(x.RawResponse) != a.body {
					t.Errorf("%s, %s: on record as %v %+v", s.name, script, x.Outcome, x.Error)
				}
			}
		}
	}
}

// leading are OpenAI, Anthropic and Google at an address.
func leading(base string) map[string]router.ProviderConfig {
	return map[string]router.ProviderConfig{
		"openai":    {BaseURL: base + "/v1", APIKey: serverDefaultKey},
		"anthropic": {BaseURL: base, APIKey: serverDefaultKey},
		"gemini":    {BaseURL: base + "/v1beta", APIKey: serverDefaultKey},
	}
}

// nobody listens there. A port that was free a moment ago might be taken by another test.
const nobody = "http://127.0.0.1:1"

// leadTo makes base the address of OpenAI, Anthropic and Google.
func leadTo(p *plan, base string) { maps.Copy(p.router.Providers, leading(base)) }

func TestAProviderThatCannotBeReachedIsNamed(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*testing.T, *plan)
		says   string
	}{
		"refused": {func(_ *testing.T, p *plan) { leadTo(p, nobody) }, "refuses connections"},
		"no host": {func(_ *testing.T, p *plan) { leadTo(p, "http://no-such-host.invalid") }, "resolve"},
		"no TLS": {func(t *testing.T, p *plan) {
			newUpstream(t, func(*upstreamCall) {}).serves(p)
			for _, name := range []string{"openai", "anthropic", "gemini"} {
				p.router.Providers[name] = https(p.router.Providers[name])
			}
		}, "TLS"},
	} {
		t.Run(name, func(t *testing.T) {
			h := build(t, func(p *plan) { test.change(t, p) })
			for _, s := range surfaces {
				a := h.post(s.path, s.body("", true))
				_, message := errorOf(t, s, a)
				if a.status != http.StatusBadGateway || !strings.Contains(message, test.says) && !(test.says == "resolve" && strings.Contains(message, "no host")) {
					t.Errorf("%s: %d %q", s.name, a.status, message)
				}
				if x := h.record(a.exchange()); x.Outcome != record.OutcomeUpstreamError || x.Status != a.status {
					t.Errorf("%s: on record as %v %d", s.name, x.Outcome, x.Status)
				}
			}
		})
	}
}

func https(c router.ProviderConfig) router.ProviderConfig {
	c.BaseURL = strings.Replace(c.BaseURL, "http://", "https://", 1)
	return c
}

func TestAProviderThatDoesNotBeginIsGivenUp(t *testing.T) {
	h := build(t, func(p *plan) { p.router.Timeouts.FirstByte = 50 * time.Millisecond })
	for _, s := range surfaces {
		for _, stream := range []bool{false, true} {
			if stream && s.name == "embeddings" {
				continue
			}
			a := h.post(s.path, s.body(`delay header=1h`, stream))
			_, message := errorOf(t, s, a)
			if a.status != http.StatusGatewayTimeout || !strings.Contains(message, "timeouts.first_byte") {
				t.Errorf("%s: %d %q", s.name, a.status, message)
			}
			if x := h.record(a.exchange()); x.Outcome != record.OutcomeUpstreamError {
				t.Errorf("%s: on record as %v", s.name, x.Outcome)
			}
		}
	}
	h.nothingOpen()
}

func TestAProviderThatFallsSilentIsGivenUp(t *testing.T) {
	for _, s := range generating {
		// The events before the silence have to be read within the limit. Where the machine has no time for that, a longer one
		// is tried.
		for idle := 50 * time.Millisecond; ; idle *= 2 {
			h := build(t, func(p *plan) { p.router.Timeouts.Idle = idle })
			a := h.post(s.path, s.body(`events 9; delay 1h first=1ms; burst 3`, true))
			if a.status == http.StatusGatewayTimeout && idle < timeout {
				continue
			}
			endsWithError(t, s, "silence", a)
			if !strings.Contains(lastEvent(a.body), "timeouts.idle") {
				t.Errorf("%s: %s", s.name, lastEvent(a.body))
			}
			if x := h.record(a.exchange()); x.Outcome != record.OutcomeUpstreamError || string(x.RawResponse) != a.body {
				t.Errorf("%s: on record as %v", s.name, x.Outcome)
			}
			h.nothingOpen()
			break
		}
	}
}

// nothingOpen waits until the provider has seen the end of every request.
func (h *harness) nothingOpen() {
	h.t.Helper()
	eventually(h.t, func() error {
		if n := h.provider.Open(); n > 0 {
			return fmt.Errorf("%d requests are still open at the provider", n)
		}
		return nil
	})
}

// A stream that lost its end must not be mended by what the format may leave out.
func TestAChatStreamWithoutItsDoneIsFinishedOnlyByAFinishReason(t *testing.T) {
	h := build(t)
	a := h.post(chat.path, chat.body(`text "hi"; omit done`, true))
	if x := h.record(a.exchange()); a.cut != nil || x.Outcome != record.OutcomeComplete {
		t.Errorf("without [DONE]: %v, on record as %v\n%s", a.cut, x.Outcome, a.body)
	}
	a = h.post(chat.path, chat.body(`text "hi"; omit done; omit finish`, true))
	endsWithError(t, chat, "without a finish reason", a)
}
