package server_test

import (
	"bytes"
	"net"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/server"
)

// BenchmarkMiddleware is what stands before an exchange, on a connection that stays open: the head of a request is read and
// looked at, the request is admitted, its key is found, an answer of a few bytes goes back. The first is mostly what hertz and
// two sockets cost; each further one adds a part, and the difference is what that takes.
func BenchmarkMiddleware(b *testing.B) {
	for _, part := range []struct{ name, path string }{
		{"edge", "/bench/edge"},
		{"and admission", "/bench/admission"},
		{"and authentication", "/bench/authentication"},
	} {
		b.Run(part.name, func(b *testing.B) {
			h := build(b, func(p *plan) { p.prepare = (*server.Server).MountMiddleware })
			client := h.dial()
			ok(b, client.SetDeadline(time.Time{}))
			wire := []byte("GET " + part.path + " HTTP/1.1\r\nHost: proxy\r\nUser-Agent: bench\r\nAccept: */*\r\n" +
				"Content-Type: application/json\r\nAuthorization: Bearer " + h.key + "\r\n\r\n")
			buffer := make([]byte, 4<<10)
			b.ReportAllocs()
			for b.Loop() {
				askAgain(b, client, wire, buffer)
			}
		})
	}
}

// askAgain sends a request and reads the whole of its short answer, without an allocation.
func askAgain(t testing.TB, conn net.Conn, wire, buffer []byte) {
	if _, err := conn.Write(wire); err != nil {
		t.Fatal(err)
	}
	for got := 0; ; {
		n, err := conn.Read(buffer[got:])
		if err != nil {
			t.Fatal(err)
		}
		if got += n; bytes.HasSuffix(buffer[:got], []byte("passed")) {
			return
		}
	}
}
