package router

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mnemeproxy/mneme/codec"
)

// everything is what a hostile or careless client may send.
func everything() Header {
	return fields(
		"User-Agent: claude-cli/2.1.328", "Idempotency-Key: i1", "Content-Type: text/plain", "Accept: */*", "Accept-Encoding: gzip, br",
		"Anthropic-Version: 2026-10-21", "Anthropic-Beta: a-1,b-2", "Anthropic-Workspace-Id: w1", "X-App: cli", "X-Claude-Code-Session-Id: s1",
		"Openai-Organization: org1", "Openai-Project: proj1", "Openai-Beta: b", "X-Client-Request-Id: c1", "X-Codex-Turn-State: t", "Session-Id: s2", "Originator: codex_exec",
		"X-Stainless-Lang: js",
		"Authorization: Bearer service-key", "X-Api-Key: client-key", "X-Goog-Api-Key: client-key", "X-Service-Api-Key: service-key", "X-Service-Chat-Key: chat",
		"X-Service-External-Session-Id: x", "Cookie: a=b", "X-Forwarded-For: 10.0.0.1", "Forwarded: for=10.0.0.1", "Via: 1.1 me", "Proxy-Authorization: Basic secret",
		"Connection: keep-alive, X-App", "Keep-Alive: 5", "Te: trailers", "Trailer: X", "Transfer-Encoding: chunked", "Upgrade: websocket", "Content-Length: 7", "Content-Encoding: zstd",
		"Host: evil.example", "Expect: 100-continue", "Origin: https://x", "Traceparent: 00-1-2-01", "Tracestate: v", "X-Custom: secret",
	)
}

func TestOnlyListedHeadersGoUpstream(t *testing.T) {
	r := newRouter(t, Config{Providers: map[string]ProviderConfig{"host": {BaseURL: "http://127.0.0.1:1/v1"}}})
	for _, x := range []struct {
		provider string
		format   codec.Format
		want     []string
	}{
		{"anthropic", codec.Messages, []string{
			"Accept: application/json", "Accept-Encoding: identity", "Anthropic-Beta: a-1,b-2", "Anthropic-Version: 2026-10-21", "Anthropic-Workspace-Id: w1",
			"Content-Type: application/json", "Idempotency-Key: i1", "User-Agent: claude-cli/2.1.328", "X-Api-Key: server", "X-App: cli",
			"X-Claude-Code-Session-Id: s1", "X-Stainless-Lang: js",
		}},
		{"openai", codec.Responses, []string{
			"Accept: application/json", "Accept-Encoding: identity", "Authorization: Bearer server", "Content-Type: application/json", "Idempotency-Key: i1",
			"Openai-Beta: b", "Openai-Organization: org1", "Openai-Project: proj1", "Originator: codex_exec", "Session-Id: s2", "User-Agent: claude-cli/2.1.328",
			"X-Client-Request-Id: c1", "X-Codex-Turn-State: t", "X-Stainless-Lang: js",
		}},
		{"gemini", codec.Gemini, []string{
			"Accept: application/json", "Accept-Encoding: identity", "Content-Type: application/json", "Idempotency-Key: i1", "User-Agent: claude-cli/2.1.328",
			"X-Goog-Api-Key: server",
		}},
		{"deepseek", codec.Messages, []string{
			"Accept: application/json", "Accept-Encoding: identity", "Anthropic-Beta: a-1,b-2", "Anthropic-Version: 2026-10-21", "Content-Type: application/json",
			"Idempotency-Key: i1", "User-Agent: claude-cli/2.1.328", "X-Api-Key: server",
		}},
		{"host", codec.Chat, []string{
			"Accept: application/json", "Accept-Encoding: identity", "Authorization: Bearer server", "Content-Type: application/json", "Idempotency-Key: i1",
			"User-Agent: claude-cli/2.1.328",
		}},
	} {
		p := r.Provider(x.provider)
		got := p.headers.build(&Call{Format: x.format, Header: everything()}, p.Credential(x.format, "server"))
		if diff := cmp.Diff(x.want, lines(got)); diff != "" {
			t.Errorf("%s in %v (-wanted +got):\n%s", x.provider, x.format, diff)
		}
	}
}

func TestAClientsHeaderIsNotChanged(t *testing.T) {
	p := newRouter(t, Config{}).Provider("anthropic")
	h := everything()
	p.headers.build(&Call{Format: codec.Messages, Stream: true, Header: h}, p.Credential(codec.Messages, "k"))
	if diff := cmp.Diff(everything(), h); diff != "" {
		t.Error(diff)
	}
}

func TestMissingHeadersGetTheirDefaults(t *testing.T) {
	r := newRouter(t, Config{UserAgent: "mneme/1.2"})
	got := r.Provider("anthropic").headers.build(&Call{Format: codec.Messages, Stream: true}, Credential{})
	want := []string{
		"Accept: text/event-stream", "Accept-Encoding: identity", "Anthropic-Version: 2023-06-01", "Content-Type: application/json", "User-Agent: mneme/1.2",
	}
	if diff := cmp.Diff(want, lines(got)); diff != "" {
		t.Error(diff)
	}
}

func TestAKeyThatMarksOneRequestIsNotSentWithTheManyOfAList(t *testing.T) {
	p := newRouter(t, Config{}).Provider("openai")
	h := fields("Idempotency-Key: i1")
	if got := p.headers.build(&Call{Operation: Embed, Format: codec.Embeddings, Header: h}, Credential{}); got.Get("Idempotency-Key") != "" {
		t.Error(lines(got))
	}
	if got := p.headers.build(&Call{Format: codec.Chat, Header: h}, Credential{}); got.Get("Idempotency-Key") != "i1" {
		t.Error(lines(got))
	}
}

func TestTraceHeadersPassOnlyWhenAskedFor(t *testing.T) {
	h := fields("Traceparent: 00-1-2-01", "Tracestate: v")
	for _, on := range []bool{false, true} {
		got := newRouter(t, Config{TraceParent: on}).Provider("openai").headers.build(&Call{Format: codec.Chat, Header: h}, Credential{})
		if (got.Get("Traceparent") != "") != on || (got.Get("Tracestate") != "") != on {
			t.Errorf("with TraceParent %v: %v", on, lines(got))
		}
	}
}

func TestAHeaderThatWouldBreakTheRequestIsLeftOut(t *testing.T) {
	p := newRouter(t, Config{}).Provider("anthropic")
	got := p.headers.build(&Call{Format: codec.Messages, Header: fields("Anthropic-Beta: b-1", "Anthropic-Beta: a\r\nX-Evil: 1", "X-App: cli")}, Credential{})
	if got.Get("Anthropic-Beta") != "" || got.Get("X-App") != "cli" {
		t.Error(lines(got))
	}
}

func TestACredentialStandsInTheHeaderThatTheProviderReads(t *testing.T) {
	r := newRouter(t, Config{Providers: map[string]ProviderConfig{"mistral": {}}})
	for _, x := range []struct {
		provider string
		format   codec.Format
		want     string
	}{
		{"anthropic", codec.Messages, "X-Api-Key: k"},
		{"openai", codec.Chat, "Authorization: Bearer k"},
		{"openai", codec.Embeddings, "Authorization: Bearer k"},
		{"gemini", codec.Gemini, "X-Goog-Api-Key: k"},
		{"deepseek", codec.Chat, "Authorization: Bearer k"},
		{"deepseek", codec.Messages, "X-Api-Key: k"},
		{"mistral", codec.Chat, "Authorization: Bearer k"},
	} {
		p := r.Provider(x.provider)
		c := p.Credential(x.format, "k")
		if got := c.Header + ": " + c.Value; got != x.want {
			t.Errorf("%s %v: got %s, wanted %s", x.provider, x.format, got, x.want)
		}
		if !p.Credential(x.format, "").IsZero() {
			t.Errorf("%s %v: no key made a credential", x.provider, x.format)
		}
	}
}

func TestCredentialsDoNotPrint(t *testing.T) {
	config := Config{Providers: map[string]ProviderConfig{"openai": {APIKey: "sk-secret"}}}
	r := newRouter(t, config)
	for _, s := range []string{fmt.Sprintf("%v %+v %#v", config, config, config), fmt.Sprintf("%v %+v %s", r.Provider("openai"), place(t, r, "o1"), r.Provider("openai"))} {
		if strings.Contains(s, "secret") {
			t.Error(s)
		}
	}
	c := Credential{Header: "X-Api-Key", Value: "sk-secret"}
	for _, s := range []string{c.String(), fmt.Sprintf("%v %+v %#v %s %q", c, c, c, c, c), fmt.Sprintf("%+v", &Call{Credential: c})} {
		if strings.Contains(s, "secret") {
			t.Error(s)
		}
	}
}

func TestOnlyListedHeadersComeBack(t *testing.T) {
	for _, name := range []string{
		"Request-Id", "X-Request-Id", "X-Ds-Trace-Id", "Retry-After", "Retry-After-Ms", "X-Should-Retry", "X-Ratelimit-Remaining-Tokens",
		"Anthropic-Ratelimit-Requests-Reset", "Anthropic-Organization-Id", "Openai-Processing-Ms", "X-Codex-Turn-State",
	} {
		if !PassesDownstream(name) {
			t.Errorf("%s does not come back", name)
		}
	}
	for _, name := range []string{
		"Content-Type", "Set-Cookie", "Server", "Via", "Cf-Ray", "Date", "Connection", "Transfer-Encoding", "Content-Length", "Content-Encoding", "Strict-Transport-Security", "Alt-Svc",
		"X-Service-Exchange-Id", "Access-Control-Allow-Origin", "Www-Authenticate", "Location",
	} {
		if PassesDownstream(name) {
			t.Errorf("%s comes back", name)
		}
	}
}

// fields is a header of lines, "Name: value".
func fields(lines ...string) (h Header) {
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		h = append(h, Field{Name: name, Value: value})
	}
	return h
}

// lines is a header as sorted lines.
func lines(h Header) []string {
	var b strings.Builder
	_ = h.HTTP().Write(&b) // sorts by name
	return strings.Split(strings.TrimSuffix(b.String(), "\r\n"), "\r\n")
}
