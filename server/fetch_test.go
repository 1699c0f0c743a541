package server_test

import (
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
)

// Clients name pictures and documents by URL. Only the provider may fetch them: what the proxy can reach is not for
// clients, nor what answers to its address. Providers' addresses come from the operator alone, and no redirect of theirs
// is followed.
func TestTheProxyFetchesNoURLOfAClient(t *testing.T) {
	tripwire, err := net.Listen("tcp", "127.0.0.1:0")
	ok(t, err)
	var connections atomic.Int32
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := tripwire.Accept()
			if err != nil {
				return
			}
			connections.Add(1)
			_ = conn.Close()
		}
	}()
	h := build(t)
	origin := "http://" + tripwire.Addr().String()
	bodies := map[string][]string{
		chat.name: {
			`{"model":"%s","messages":[{"role":"user","content":[{"type":"text","text":"what is this?"},{"type":"image_url","image_url":{"url":"%s/a.png"}}]}]}`,
			`{"model":"%s","messages":[{"role":"user","content":[{"type":"file","file":{"file_data":"%s/a.pdf","filename":"a.pdf"}}]}]}`,
		},
		responses.name: {
			`{"model":"%s","input":[{"type":"message","role":"user","content":[{"type":"input_image","image_url":"%s/a.png"}]}]}`,
			`{"model":"%s","input":[{"type":"message","role":"user","content":[{"type":"input_file","file_url":"%s/a.pdf"}]}]}`,
		},
		messages.name: {
			`{"model":"%s","max_tokens":9,"messages":[{"role":"user","content":[{"type":"image","source":{"type":"url","url":"%s/a.png"}}]}]}`,
			`{"model":"%s","max_tokens":9,"messages":[{"role":"user","content":[{"type":"document","source":{"type":"url","url":"%s/a.pdf"}}]}]}`,
		},
		embeddings.name: {`{"model":"%s","input":["%s/a.png"]}`},
	}
	reached := 0
	for _, s := range surfaces {
		for _, body := range bodies[s.name] {
			for _, model := range []string{"gpt-4.1", "gpt-5.5", "claude-opus-4-8", "gemini-3.8-flash", "deepseek-v4-pro", embeddings.model} {
				a := h.post(s.path, fmt.Sprintf(body, model, origin))
				if a.status != 200 && a.status != 400 {
					t.Errorf("%s to %s: %d %s", s.name, model, a.status, a.body)
				}
				if a.status == 200 && strings.Contains(string(h.upstream().Body), origin) {
					reached++
				}
			}
		}
	}
	if reached < 10 {
		t.Errorf("only %d requests took the URL to a provider", reached)
	}
	_ = h.stop()
	_ = tripwire.Close()
	<-done
	if n := connections.Load(); n != 0 {
		t.Errorf("the proxy made %d connections to an address that clients named", n)
	}
}
