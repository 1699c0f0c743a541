package router

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"testing"

	"github.com/mnemeproxy/mneme/codec"
)

// instant is an upstream that answers at once, to measure what this package adds to net/http.
type instant struct {
	header Header
	answer []byte
}

func (u *instant) do(_ context.Context, out outgoing) (incoming, error) {
	_ = out.body.open()
	return incoming{status: http.StatusOK, header: u.header, body: io.NopCloser(bytes.NewReader(u.answer))}, nil
}

func (*instant) close() {}

// clientHeader is about what an SDK sends.
var clientHeader = fields(
	"User-Agent: claude-cli/2.1.328", "Anthropic-Version: 2023-06-01", "Anthropic-Beta: a-1,b-2", "X-App: cli", "X-Stainless-Lang: js",
	"X-Stainless-Os: Linux", "Accept: application/json", "Accept-Encoding: gzip", "Content-Length: 2048", "Content-Type: application/json",
	"Authorization: Bearer k", "Connection: keep-alive", "Host: localhost",
)

func BenchmarkPlace(b *testing.B) {
	r := newRouter(b, Config{Providers: map[string]ProviderConfig{"mistral": {}, "qwen": {}, "voyage": {}, "xai": {}}})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.Place("deepseek-v4-pro"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkTarget(b *testing.B) {
	r := newRouter(b, Config{})
	p := place(b, r, "claude-opus-4-8")
	b.ReportAllocs()
	for b.Loop() {
		if t := r.Target(p); t.MaxOutput == 0 {
			b.Fatal("no target")
		}
	}
}

// BenchmarkDo is one call of 2 KB with a short answer: over loopback with net/http below, and without it.
func BenchmarkDo(b *testing.B) {
	h := listen(b, func(_ *host, _ int, c *conn) {
		for c.request() != nil {
			c.write(streamHead)
			c.chunk("data: x\n\n")
			c.chunk("")
		}
	})
	call := &Call{Format: codec.Messages, Stream: true, Header: clientHeader, Body: make([]byte, 2048), Query: "beta=true"}
	buf := make([]byte, 4096)
	run := func(b *testing.B, p *Provider) {
		b.ReportAllocs()
		for b.Loop() {
			reply, err := p.Do(b.Context(), call)
			if err != nil {
				b.Fatal(err)
			}
			for err := error(nil); !errors.Is(err, io.EOF); {
				if _, err = reply.Body.Read(buf); err != nil && !errors.Is(err, io.EOF) {
					b.Fatal(err)
				}
			}
			_ = reply.Body.Close()
		}
	}
	config := Config{Providers: map[string]ProviderConfig{"anthropic": {BaseURL: h.url(), APIKey: "k"}}}
	b.Run("loopback", func(b *testing.B) { run(b, newRouter(b, config).Provider("anthropic")) })
	b.Run("without network", func(b *testing.B) {
		p := newRouter(b, config).Provider("anthropic")
		p.endpoints[0].upstream = &instant{answer: []byte("data: x\n\n")}
		run(b, p)
	})
}

// endless is an answer that never ends and never waits.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return min(len(p), 100), nil }
func (endless) Close() error               { return nil }

func newEndless(tb testing.TB) *Body {
	p := newRouter(tb, compatible("http://127.0.0.1:1/v1")).Provider("host")
	body := &Body{endpoint: p.endpoints[0], from: endless{}}
	body.watch.begin(tb.Context(), p.firstByte, p.idle)
	tb.Cleanup(func() { _ = body.Close() })
	return body
}

// BenchmarkRead is what a read of a stream costs beyond the read itself.
func BenchmarkRead(b *testing.B) {
	body, buf := newEndless(b), make([]byte, 4096)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := body.Read(buf); err != nil {
			b.Fatal(err)
		}
	}
}

func TestReadingAStreamAllocatesNothing(t *testing.T) {
	body, buf := newEndless(t), make([]byte, 4096)
	if n := testing.AllocsPerRun(1000, func() { _, _ = body.Read(buf) }); n != 0 {
		t.Errorf("%v allocations per read", n)
	}
}

func TestPlacingAModelAllocatesNothing(t *testing.T) {
	r := newRouter(t, Config{})
	if n := testing.AllocsPerRun(100, func() { _, _ = r.Place("gpt-5.5") }); n != 0 {
		t.Errorf("%v allocations per placement", n)
	}
}
