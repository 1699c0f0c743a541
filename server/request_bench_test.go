package server_test

import (
	"bytes"
	"net"
	"strconv"
	"testing"
	"time"
)

const benchAnswer = `{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"gpt-4.1-2025","choices":[{"index":0,"message":{"role":"assistant","content":"All is well."},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":4,"total_tokens":14}}`

// startRequests returns one client's connection to a proxy whose provider answers every request with benchAnswer, and what takes
// one request the whole way. Neither end allocates anything.
func startRequests(t testing.TB, changes ...func(*plan)) (request func()) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	ok(t, err)
	answer := []byte("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nX-Request-Id: req_1\r\nContent-Length: " + strconv.Itoa(len(benchAnswer)) + "\r\n\r\n" + benchAnswer)
	served := make(chan struct{})
	go func() {
		defer close(served)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				buffer := make([]byte, 16<<10)
				for got := 0; ; {
					n, err := conn.Read(buffer[got:])
					if err != nil {
						return
					}
					if got += n; bytes.HasSuffix(buffer[:got], []byte("}]}")) {
						got = 0
						_, _ = conn.Write(answer)
					}
				}
			}()
		}
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		<-served
	})
	h := build(t, append(changes, func(p *plan) { leadTo(p, "http://"+listener.Addr().String()) })...)
	client := h.dial()
	ok(t, client.SetDeadline(time.Time{}))
	wire, buffer := []byte(h.raw(chat, chat.body("", false))), make([]byte, 16<<10)
	return func() {
		if _, err := client.Write(wire); err != nil {
			t.Fatal(err)
		}
		for got := 0; ; {
			n, err := client.Read(buffer[got:])
			if err != nil {
				t.Fatal(err)
			}
			if got += n; bytes.HasSuffix(buffer[:got], []byte(benchAnswer)) {
				return
			}
		}
	}
}

func captureOff(p *plan) { p.server.CaptureOff = true }

// BenchmarkRequest is the whole way of a small request and its answer.
func BenchmarkRequest(b *testing.B) {
	for name, change := range map[string]func(*plan){"capture": func(*plan) {}, "no capture": captureOff} {
		b.Run(name, func(b *testing.B) {
			request := startRequests(b, change)
			b.ReportAllocs()
			for b.Loop() {
				request()
			}
		})
	}
}
