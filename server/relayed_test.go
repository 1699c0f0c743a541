package server_test

import (
	"bufio"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/store"
)

// sayingMore is a provider that puts these lines into the head of every answer.
func sayingMore(t *testing.T, status int, contentType, lines string) *harness {
	return build(t, func(p *plan) {
		newUpstream(t, func(c *upstreamCall) {
			body := `{"error":{"message":"no"}}`
			if status == http.StatusOK {
				body = `{"id":"x","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}]}`
			}
			c.write(fmt.Sprintf("HTTP/1.1 %d x\r\nContent-Type: %s\r\nContent-Length: %d\r\nConnection: close\r\n%s\r\n%s", status, contentType, len(body), lines, body))
		}).serves(p)
		p.router.Retries = -1
	})
}

// What a provider says too much of is left out, and what clients act on is not.
func TestTheHeaderOfAProviderIsPassedOnWithinLimits(t *testing.T) {
	var many, long strings.Builder
	for i := range 200 {
		fmt.Fprintf(&many, "Openai-Field-%03d: %d\r\n", i, i)
	}
	for i := range 20 {
		fmt.Fprintf(&long, "Anthropic-Field-%03d: %s\r\n", i, strings.Repeat("x", 1000))
	}
	const wanted = "X-Request-Id: req_1\r\nRetry-After: 7\r\nX-Ratelimit-Remaining-Tokens: 12\r\nOpenai-Processing-Ms: 34\r\n"
	for name, lines := range map[string]string{"many": many.String() + wanted, "long": long.String() + wanted, "few": wanted} {
		for _, status := range []int{200, 400, 429} {
			h := sayingMore(t, status, "application/json", lines)
			a := h.post(chat.path, chat.body("", false))
			size, fields := 0, 0
			for name, values := range a.header {
				for _, value := range values {
					fields++
					size += len(name) + len(value)
				}
			}
			if a.status != status || fields > 90 || size > 10<<10 {
				t.Errorf("%s, %d: %d with %d fields of %d bytes", name, status, a.status, fields, size)
			}
			for line := range strings.SplitSeq(strings.TrimSpace(wanted), "\r\n") {
				name, value, _ := strings.Cut(line, ": ")
				if got := a.header.Get(name); got != value {
					t.Errorf("%s, %d: %s is %q", line, status, name, got)
				}
			}
		}
	}
}

// A browser that is led to an answer must not find a page in it.
func TestAnAnswerIsJSONWhateverItsProviderCallsIt(t *testing.T) {
	for said, want := range map[string]string{
		"text/html; charset=utf-7": "application/json", "image/svg+xml": "application/json", "": "application/json", "nonsense;": "application/json",
		"application/json; charset=utf-7": "application/json", "application/problem+json": "application/json",
		"application/json": "application/json", "application/json; charset=utf-8": "application/json; charset=utf-8", "Application/JSON;charset=UTF-8": "Application/JSON;charset=UTF-8",
	} {
		for _, status := range []int{200, 400} {
			h := sayingMore(t, status, said, "")
			a := h.post(chat.path, chat.body("", false))
			if got := a.header.Get("Content-Type"); a.status != status || got != want {
				t.Errorf("%q, %d: answered with %d %q", said, status, a.status, got)
			}
		}
	}
}

func TestNoAnswerIsToBeSniffed(t *testing.T) {
	h := build(t)
	h.key = h.createKey("acme", store.AllScopes)
	answers := map[string]*answer{
		"an answer": h.post(chat.path, chat.body("", false)), "a stream": h.post(messages.path, messages.body("", true)),
		"an error of a provider": h.post(chat.path, chat.body("error 400", false)), "a translated error": h.post(chat.path, strings.Replace(chat.body("error 400", false), chat.model, messages.model, 1)),
		"no such path": h.post("/v1/nothing", "{}"), "no key": h.post(chat.path, "{}", "Authorization", ""), "health": h.do(http.MethodGet, "/healthz", ""),
		"the memory": h.get("/stats"), "the models": h.do(http.MethodGet, "/v1/models", "", "Authorization", "Bearer "+h.key), "MCP": h.post("/mcp", "{}"),
	}
	conn := h.dial()
	if _, err := fmt.Fprint(conn, "POST /v1/messages HTTP/1.1\r\nHost: proxy\r\nContent-Length: nonsense\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	ok(t, err)
	answers["what is no request"] = read(response)
	for name, a := range answers {
		if got := a.header.Values("X-Content-Type-Options"); len(got) != 1 || got[0] != "nosniff" {
			t.Errorf("%s: %d with %v", name, a.status, got)
		}
	}
}
