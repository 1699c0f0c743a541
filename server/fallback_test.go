package server_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/store/record"
)

// standIn is a model of another provider for each surface, whose format the surface has to be translated to.
var standIn = map[string]string{chat.name: messages.model, responses.name: messages.model, messages.name: chat.model, gemini.name: messages.model}

// owner is the provider of a surface's own model.
func (s surface) owner() string {
	switch s.name {
	case messages.name:
		return "anthropic"
	case gemini.name:
		return "gemini"
	}
	return "openai"
}

// full is a provider's answer with a body.
func full(status int, header, body string) string {
	return fmt.Sprintf("HTTP/1.1 %d x\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n%s\r\n%s", status, len(body), header, body)
}

// errorBody is an error in the form of the surface's own provider.
func (s surface) errorBody(kind, message string) string {
	if s.name == messages.name {
		return fmt.Sprintf(`{"type":"error","error":{"type":"%s","message":"%s"}}`, kind, message)
	}
	if s.name == gemini.name {
		status := map[string]string{"rate_limit_error": "RESOURCE_EXHAUSTED", "api_error": "INTERNAL", "overloaded_error": "UNAVAILABLE", "authentication_error": "UNAUTHENTICATED", "invalid_request_error": "INVALID_ARGUMENT"}[kind]
		return fmt.Sprintf(`{"error":{"code":400,"message":"%s","status":"%s"}}`, message, status)
	}
	return fmt.Sprintf(`{"error":{"message":"%s","type":"%s","param":null,"code":null}}`, message, kind)
}

// ill builds a harness in which the surface's own provider answers as serve says, and all others are well. asked counts the
// requests that it gets.
func ill(t *testing.T, s surface, serve func(*upstreamCall), changes ...func(*plan)) (h *harness, asked *atomic.Int32) {
	asked = new(atomic.Int32)
	up := newUpstream(t, func(c *upstreamCall) {
		asked.Add(1)
		serve(c)
	})
	return build(t, append([]func(*plan){func(p *plan) {
		up.servesAs(p, s.owner())
		p.router.Fallbacks = []router.Fallback{{Model: s.model, To: []string{standIn[s.name]}}}
	}}, changes...)...), asked
}

func TestAnotherModelReplacesOneWhoseProviderCannotAnswer(t *testing.T) {
	for _, s := range generating {
		var illness atomic.Pointer[func(*upstreamCall)]
		h, asked := ill(t, s, func(c *upstreamCall) { (*illness.Load())(c) })
		for name, serve := range map[string]func(*upstreamCall){
			"a limit": func(c *upstreamCall) {
				c.write(full(429, "Retry-After: 60\r\n", s.errorBody("rate_limit_error", "slow down")))
			},
			"a fault":                     func(c *upstreamCall) { c.write(full(500, "", s.errorBody("api_error", "oops"))) },
			"overload":                    func(c *upstreamCall) { c.write(full(529, "", s.errorBody("overloaded_error", "full"))) },
			"a refused key":               func(c *upstreamCall) { c.write(full(401, "", s.errorBody("authentication_error", "who?"))) },
			"a page":                      func(c *upstreamCall) { c.write(full(200, "", "<html>")) },
			"no HTTP":                     func(c *upstreamCall) { c.write("ICY 200 OK\r\n\r\n") },
			"no answer":                   func(*upstreamCall) {},
			"an end before the beginning": func(c *upstreamCall) { c.stream("") },
		} {
			illness.Store(&serve)
			for _, stream := range []bool{false, true} {
				what := fmt.Sprintf("%s, %s, stream=%t", s.name, name, stream)
				before := asked.Load()
				a := h.post(s.path, s.body(`text "I stand in"`, stream))
				if a.status != 200 || !strings.Contains(a.body, "stand") || a.cut != nil || stream && !strings.Contains(a.body, s.terminal()) {
					t.Errorf("%s: %d %v %s", what, a.status, a.cut, a.body)
					continue
				}
				if got := a.header.Get("X-Service-Fallback"); got != standIn[s.name] {
					t.Errorf("%s: the client is told of %q", what, got)
				}
				x := h.record(a.exchange())
				if x.Outcome != record.OutcomeComplete || x.ModelAsked != s.model || x.ModelSent != standIn[s.name] || x.Provider == s.owner() || x.Format == x.Surface || x.Error != nil {
					t.Errorf("%s: on record as %v, %s sent as %s to %s in %s, %v", what, x.Outcome, x.ModelAsked, x.ModelSent, x.Provider, x.Format, x.Error)
				}
				if n := len(x.Attempts); n != 2 || x.Attempts[0].Provider != s.owner() || x.Attempts[0].Failure == "" ||
					x.Attempts[1].Provider != x.Provider || x.Attempts[1].Model != standIn[s.name] || x.Attempts[1].Failure != "" {
					t.Errorf("%s: %d attempts are on record: %+v", what, n, x.Attempts)
				}
				if n := asked.Load() - before; n != 1 {
					t.Errorf("%s: the model's own provider was asked %d times", what, n)
				}
				h.noSecrets(what, a.body)
			}
		}
	}
}

func TestNoFallbackIsUsedForAnInvalidRequest(t *testing.T) {
	for _, s := range generating {
		h, asked := ill(t, s, func(c *upstreamCall) { c.write(full(400, "", s.errorBody("invalid_request_error", "no such thing"))) })
		for _, stream := range []bool{false, true} {
			a := h.post(s.path, s.body("", stream))
			if a.status != 400 || a.body != s.errorBody("invalid_request_error", "no such thing") || a.header.Get("X-Service-Fallback") != "" {
				t.Errorf("%s: %d %s", s.name, a.status, a.body)
			}
		}
		if asked.Load() != 2 || len(h.provider.Requests()) != 0 {
			t.Errorf("%s: %d requests went to the provider, %d elsewhere", s.name, asked.Load(), len(h.provider.Requests()))
		}
	}
}

func TestNoFallbackIsUsedOnceTheAnswerHasBegun(t *testing.T) {
	h, _ := ill(t, chat, func(c *upstreamCall) {
		first, _, _ := strings.Cut(chatStream, "\n\n")
		c.chunked()
		c.chunk(first + "\n\n")
	})
	a := h.post(chat.path, chat.body("", true))
	endsWithError(t, chat, "cut", a)
	if len(h.provider.Requests()) != 0 || a.header.Get("X-Service-Fallback") != "" {
		t.Error("another model was asked behind the first byte")
	}
}

// A stream may begin with its error, which says the same as a status would have.
func TestAStreamThatBeginsWithAnErrorFallsBackToAnotherModel(t *testing.T) {
	h, _ := ill(t, messages, func(c *upstreamCall) {
		c.stream("event: error\ndata: " + messages.errorBody("overloaded_error", "full") + "\n\n")
	})
	a := h.post(messages.path, messages.body(`text "I stand in"`, true))
	if a.status != 200 || !strings.Contains(a.body, messages.terminal()) || a.header.Get("X-Service-Fallback") == "" {
		t.Errorf("%d %s", a.status, a.body)
	}
	if x := h.record(a.exchange()); len(x.Attempts) != 2 || x.Attempts[0].Failure != "overloaded" || x.Attempts[0].Status != 200 {
		t.Errorf("on record with %+v", x.Attempts)
	}
}

func TestWhenAllFallbacksFailTheClientGetsTheErrorOfItsModel(t *testing.T) {
	for _, s := range generating {
		h, _ := ill(t, s, func(c *upstreamCall) {
			c.write(full(529, "Retry-After: 7\r\n", s.errorBody("overloaded_error", "come back later")))
		})
		for _, stream := range []bool{false, true} {
			a := h.post(s.path, s.body("error 400", stream)) // the stand-in does not understand it
			_, message := errorOf(t, s, a)
			if a.status < 500 || message != "come back later" || a.header.Get("Retry-After") != "7" || a.header.Get("X-Service-Fallback") != "" {
				t.Errorf("%s: %d %s %v", s.name, a.status, a.body, a.header)
			}
			x := h.record(a.exchange())
			if x.Provider != s.owner() || x.ModelSent != s.model || len(x.Attempts) != 2 || x.Attempts[1].Failure == "" || string(x.RawResponse) != a.body {
				t.Errorf("%s: on record at %s as %s with %+v", s.name, x.Provider, x.ModelSent, x.Attempts)
			}
		}
	}
}

func TestFallbacksAreUsedInOrder(t *testing.T) {
	refused := newUpstream(t, func(*upstreamCall) {})
	h, _ := ill(t, chat, func(*upstreamCall) {}, func(p *plan) {
		refused.servesAs(p, "anthropic")
		p.router.Fallbacks[0].To = []string{messages.model, "gemini-3.8-flash", "deepseek-v4-pro"}
	})
	a := h.post(chat.path, chat.body(`text "third time lucky"`, true))
	if a.status != 200 || a.header.Get("X-Service-Fallback") != "gemini-3.8-flash" {
		t.Fatalf("%d %s", a.status, a.body)
	}
	var went []string
	for _, attempt := range h.record(a.exchange()).Attempts {
		went = append(went, attempt.Provider+" "+attempt.Failure)
	}
	if got := strings.Join(went, ", "); got != "openai cut, anthropic cut, gemini " {
		t.Errorf("the attempts went to %s", got)
	}
}

// The client pays for its own key, and gave it for one provider.
func TestAClientsOwnCredentialStaysWithItsProvider(t *testing.T) {
	elsewhere := new(atomic.Int32)
	other := newUpstream(t, func(*upstreamCall) { elsewhere.Add(1) })
	models := make(chan string, 10)
	h, asked := ill(t, chat, func(c *upstreamCall) {
		models <- c.request.Header.Get("Authorization")
		c.write(full(503, "", chat.errorBody("server_error", "down")))
	}, func(p *plan) {
		other.servesAs(p, "anthropic")
		p.router.Fallbacks[0].To = []string{messages.model, "gpt-4o"}
	})
	a := h.post(chat.path, chat.body("", false), "X-Service-API-Key", h.key, "Authorization", "Bearer "+callersOwnKey)
	if a.status != 503 || elsewhere.Load() != 0 || asked.Load() != 2 {
		t.Errorf("%d, the other provider was asked %d times, its own %d times", a.status, elsewhere.Load(), asked.Load())
	}
	for range 2 {
		if got := <-models; got != "Bearer "+callersOwnKey {
			t.Errorf("asked with %q", got)
		}
	}
}

func TestWithoutAChainThereIsNoFallback(t *testing.T) {
	h, _ := ill(t, chat, func(c *upstreamCall) { c.write(full(500, "", chat.errorBody("server_error", "down"))) },
		func(p *plan) { p.router.Fallbacks = nil })
	a := h.post(chat.path, chat.body("", false))
	if a.status != 500 || a.body != chat.errorBody("server_error", "down") || len(h.provider.Requests()) != 0 {
		t.Errorf("%d %s", a.status, a.body)
	}
	x := h.record(a.exchange())
	if len(x.Attempts) != 1 || x.Attempts[0].Failure != router.FailureServerError.String() || x.Attempts[0].Status != 500 {
		t.Errorf("on record with %+v", x.Attempts)
	}
}

// Vectors of different models cannot be compared.
func TestEmbeddingsHaveNoFallback(t *testing.T) {
	h, _ := ill(t, chat, func(c *upstreamCall) { c.write(full(500, "", chat.errorBody("server_error", "down"))) }, func(p *plan) {
		p.router.Providers["gemini"] = router.ProviderConfig{Formats: []codec.Format{codec.Gemini, codec.Embeddings}}
		p.router.Fallbacks = []router.Fallback{{Model: embeddings.model, To: []string{"gemini-embedding-001"}}}
	})
	if a := h.post(embeddings.path, embeddings.body("", false)); a.status != 500 {
		t.Errorf("%d %s", a.status, a.body)
	}
}
