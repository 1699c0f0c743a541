package server_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/router"
)

// local adds a chat host of a test's own, which is asked for models that begin with "local-".
func local(t *testing.T, answer http.HandlerFunc) func(*plan) {
	host := httptest.NewServer(answer)
	t.Cleanup(host.Close)
	return func(p *plan) {
		p.router.Providers["local"] = router.ProviderConfig{BaseURL: host.URL + "/v1", APIKey: serverDefaultKey}
		p.router.Routes = []router.RouteRule{{Prefix: "local-", Provider: "local"}}
	}
}

// A host may answer whole or stream whatever it is asked for. The client gets what it asked for, and so says the record.
func TestTheClientGetsTheFormThatItAskedFor(t *testing.T) {
	const (
		whole  = `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"whole"},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":1,"total_tokens":10}}`
		stream = `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"wh"},"finish_reason":null}]}` + "\n\n" +
			"data: : keepalive\n\n" +
			`data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"ole"},"finish_reason":"stop"}]}` + "\n\n" +
			`data: {"id":"c","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":1,"total_tokens":10}}` + "\n\ndata: [DONE]\n\n"
	)
	h := build(t, local(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.Contains(string(body), "local-whole") {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, whole)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, stream)
	}))
	for _, s := range []surface{messages, responses} {
		for _, model := range []string{"local-whole", "local-stream"} {
			for _, streamed := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s from %s, streamed %v", s.name, model, streamed), func(t *testing.T) {
					a := h.post(s.path, strings.Replace(s.body("", streamed), s.model, model, 1))
					want := map[bool]string{false: "application/json", true: "text/event-stream"}[streamed]
					if a.status != http.StatusOK || a.cut != nil || !strings.HasPrefix(a.header.Get("Content-Type"), want) {
						t.Fatalf("%d %v %s\n%s", a.status, a.cut, a.header.Get("Content-Type"), a.body)
					}
					if streamed != strings.HasPrefix(a.body, "event: ") || !streamed && !strings.Contains(a.body, `"text":"whole"`) {
						t.Errorf("the answer is\n%s", a.body)
					}
					for _, end := range map[string][]string{"messages": {"message_stop"}, "responses": {"response.completed"}}[s.name] {
						if streamed != strings.Contains(a.body, end) {
							t.Errorf("it ends so:\n%s", a.body)
						}
					}
					x := h.record(a.exchange())
					if string(x.RawResponse) != a.body || !strings.HasPrefix(x.ResponseType, want) || x.Usage.InputUncached != 9 {
						t.Errorf("on record are %s, %+v and\n%s", x.ResponseType, x.Usage, x.RawResponse)
					}
				})
			}
		}
	}
}

// A failed token count is an error in the form of Messages, with the provider's status: a client that took it for a count would
// never shorten its conversation.
func TestAFailedTokenCountIsAnErrorOfMessages(t *testing.T) {
	for name, c := range map[string]struct {
		status, want int
		kind, body   string
	}{
		"not implemented": {501, 501, "text/plain", "not implemented"},
		"a page":          {503, 503, "text/html", "<html>busy</html>"},
		"no JSON":         {200, 502, "text/plain", "12 tokens"},
		"an error":        {400, 400, "application/json", `{"type":"error","error":{"type":"invalid_request_error","message":"no"}}`},
		"a count":         {200, 200, "application/json", `{"input_tokens":12}`},
	} {
		t.Run(name, func(t *testing.T) {
			host := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", c.kind)
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.body)
			}))
			defer host.Close()
			h := build(t, func(p *plan) {
				p.router.Providers["anthropic"] = router.ProviderConfig{BaseURL: host.URL, APIKey: serverDefaultKey}
			})
			a := h.post("/v1/messages/count_tokens", messages.body("", false))
			if a.status != c.want || !strings.HasPrefix(a.header.Get("Content-Type"), "application/json") || (a.status < 300) == (member(a.body, "error", "message") != "") || strings.Contains(a.body, "<html") {
				t.Errorf("%d %s %s", a.status, a.header.Get("Content-Type"), a.body)
			}
		})
	}
}
