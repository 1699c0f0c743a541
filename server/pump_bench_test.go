package server_test

import (
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"
)

const benchEvent = "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"gpt-4.1\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"word\"},\"finish_reason\":null}]}\n\n"

// pacedStream is a stream on which the provider sends the next event when the client has the one before it, so that each
// is read, noted, written and flushed alone. Neither end allocates anything.
type pacedStream struct {
	client net.Conn
	next   chan struct{}
	buffer [4 << 10]byte
}

func startPacedStream(t testing.TB) *pacedStream {
	s := &pacedStream{next: make(chan struct{})}
	chunk := []byte(fmt.Sprintf("%x\r\n%s\r\n", len(benchEvent), benchEvent))
	up := newUpstream(t, func(c *upstreamCall) {
		c.chunked()
		for {
			select {
			case <-s.next:
				_, _ = c.Write(chunk)
			case <-c.gone:
				return
			}
		}
	})
	h := build(t, up.serves)
	s.client = h.dial()
	ok(t, s.client.SetDeadline(time.Time{}))
	_, err := io.WriteString(s.client, h.raw(chat, chat.body("", true)))
	ok(t, err)
	s.next <- struct{}{}
	head := ""
	for !strings.HasSuffix(head, benchEvent+"\r\n") {
		n, err := s.client.Read(s.buffer[:])
		ok(t, err)
		head += string(s.buffer[:n])
	}
	return s
}

// event takes one event the whole way.
func (s *pacedStream) event(t testing.TB) {
	s.next <- struct{}{}
	for want := len(benchEvent) + len("aa\r\n\r\n"); want > 0; {
		n, err := s.client.Read(s.buffer[:])
		if err != nil {
			t.Fatal(err)
		}
		want -= n
	}
}

// BenchmarkEvent is the whole way of one event: the provider's socket, the pump with its capture, the client's socket.
func BenchmarkEvent(b *testing.B) {
	s := startPacedStream(b)
	b.ReportAllocs()
	b.SetBytes(int64(len(benchEvent)))
	for b.Loop() {
		s.event(b)
	}
}

// What a stream allocates is for its beginning and end, and for the parts of its record: nothing for an event.
func TestAnEventAllocatesNothing(t *testing.T) {
	s := startPacedStream(t)
	allocations := func(events int) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range events {
			s.event(t)
		}
		runtime.ReadMemStats(&after)
		return after.Mallocs - before.Mallocs
	}
	// Others in this process allocate by the clock: the database looks for compactions all the time. The shorter a round,
	// the less of that falls into it.
	const rounds, events = 60, 100
	allocations(events)
	least := uint64(events)
	for range rounds {
		least = min(least, allocations(events))
	}
	t.Logf("%d allocations in %d events", least, events)
	if least >= events/2 {
		t.Errorf("%d allocations in %d events", least, events)
	}
}
