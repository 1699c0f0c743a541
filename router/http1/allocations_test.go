//go:build !race

package http1

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"
)

// steady is a connection that serves the same answer for ever, without a system call.
type steady struct {
	net.Conn
	answer  []byte
	pending []byte
}

func (s *steady) Write(p []byte) (int, error) { s.pending = s.answer; return len(p), nil }
func (s *steady) Close() error                { return nil }
func (s *steady) Read(p []byte) (int, error) {
	n := copy(p, s.pending[:min(len(s.pending), 700)])
	s.pending = s.pending[n:]
	return n, nil
}

func TestAllocations(t *testing.T) {
	answer := "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nX-Request-Id: r\r\nDate: x\r\nTransfer-Encoding: chunked\r\n\r\n" +
		strings.Repeat("a\r\n0123456789\r\n", 1000) + "0\r\n\r\n"
	c := NewClient(Options{Host: "h", MaxIdle: 1, MaxHead: 1 << 10, Idle: time.Minute, Dial: func(context.Context, string, string) (net.Conn, error) {
		return &steady{answer: []byte(answer)}, nil
	}})
	defer c.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, buffer, reads := request(), make([]byte, 4096), 0
	n := testing.AllocsPerRun(100, func() {
		res, err := c.Do(ctx, r)
		if err != nil {
			t.Fatal(err)
		}
		for err == nil {
			_, err = res.Read(buffer)
			reads++
		}
	})
	t.Logf("%v allocations for a request and %d reads", n, reads/101)
	if n > 9 {
		t.Errorf("%v allocations for a request and %d reads", n, reads/101)
	}
}
