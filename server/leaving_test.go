package server_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/store/record"
)

// What an idle stream may hold with all three parties in this process: the proxy and its store, the provider and the client
// of the test, who have a goroutine and some KiB of it. Measured are 2 goroutines and 49 KiB, with TLS 3 and 74.
// A harness has some goroutines of its own that come and go.
const (
	idleGoroutines  = 4
	idleHeap        = 96 << 10
	housesOwnChange = 10
)

// openStream is a client in the middle of a streamed answer.
type openStream struct {
	conn     net.Conn
	body     io.Reader
	exchange string
	received string
}

func (h *harness) openStream(s surface, body string) *openStream {
	h.t.Helper()
	conn := h.dial()
	_, err := io.WriteString(conn, h.raw(s, body))
	ok(h.t, err)
	response, err := http.ReadResponse(bufio.NewReaderSize(conn, 512), nil)
	ok(h.t, err)
	opened := &openStream{conn: conn, body: response.Body, exchange: response.Header.Get("X-Service-Exchange-ID")}
	opened.received = readEvents(h.t, opened.body, 1)
	return opened
}

// Half of the clients are gone within a moment, as when a machine full of agents goes down. The others notice nothing,
// nothing stays behind of those who left, and every exchange is on record as what it was.
func TestHalfOfManyClientsLeaveAtOnce(t *testing.T) {
	onEveryTransport(t, halfOfManyClientsLeaveAtOnce)
}

func halfOfManyClientsLeaveAtOnce(t *testing.T, on transportPlan) {
	n, _ := idleStreams(t)
	n = min(n, 1000)
	up := newEvents(t)
	h := build(t, on, func(p *plan) { leadTo(p, up.URL()) })
	before := holding()
	streams := make([]*openStream, n)
	for i := range streams {
		streams[i] = h.openStream(chat, chat.body("", true))
	}
	open := holding()
	goroutines, heap := (open.goroutines-before.goroutines)/n, (open.bytes-before.bytes)/int64(n)
	t.Logf("%d streams: %d goroutines and %d KiB each, with the client and the provider", n, goroutines, heap>>10)
	if goroutines > idleGoroutines || heap > idleHeap {
		t.Errorf("bounds are %d goroutines and %d KiB", idleGoroutines, idleHeap>>10)
	}

	leave, stay := streams[:n/2], streams[n/2:]
	for _, s := range leave {
		ok(t, s.conn.Close())
	}
	eventually(t, func() error {
		if left := len(up.open()); left != len(stay) {
			return fmt.Errorf("%d streams are open at the provider, not %d", left, len(stay))
		}
		return nil
	})
	for _, conn := range up.open() {
		up.send(conn)
		up.finish(conn)
	}
	for _, s := range stay {
		rest, err := io.ReadAll(s.body)
		ok(t, err)
		if s.received += string(rest); !strings.HasSuffix(s.received, doneEvent) || strings.Count(s.received, "data: ") != 4 {
			t.Fatalf("a client that stayed received %q", s.received)
		}
		ok(t, s.conn.Close())
	}

	for i, s := range streams {
		x, want := h.settled(s.exchange), record.OutcomeComplete
		if i < len(leave) {
			want = record.OutcomeClientClosed
		}
		if x.Outcome != want || string(x.RawResponse) != s.received {
			t.Fatalf("stream %d is on record as %v with %q, its client had %q", i, x.Outcome, x.RawResponse, s.received)
		}
	}
	if on := len(h.records("acme")); on != n {
		t.Errorf("%d exchanges are on record, not %d", on, n)
	}
	eventually(t, func() error {
		if now := holding(); now.goroutines > before.goroutines+housesOwnChange {
			return fmt.Errorf("%d goroutines are left, %d were before", now.goroutines, before.goroutines)
		}
		return nil
	})
}

// held is what this process holds.
type held struct {
	goroutines int
	bytes      int64 // of the heap in use, and of stacks
}

func holding() held {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return held{runtime.NumGoroutine(), int64(m.HeapAlloc + m.StackInuse)}
}
