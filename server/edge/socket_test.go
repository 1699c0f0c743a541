package edge

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/cloudwego/hertz/pkg/app"

	"github.com/mnemeproxy/mneme/bench/cputime"
	"github.com/mnemeproxy/mneme/codec/sse"
)

// discarded is a connection whose client takes everything.
type discarded struct{ net.Conn }

func (discarded) Write(p []byte) (int, error) { return len(p), nil }

func newDiscarded() *connection {
	return &connection{wire: wire{Conn: discarded{}, memory: NewBudget(1<<20, nil)}}
}

func socketEventsTo(t testing.TB, conn *connection) *Stream {
	t.Helper()
	k := &Socket{conn: &socketConn{connection: conn}}
	r := &http.Request{Method: http.MethodGet, Header: http.Header{
		"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Version": {"13"}, "Sec-Websocket-Key": {"dGhlIHNhbXBsZSBub25jZQ=="},
		"Sec-Websocket-Extensions": {"permessage-deflate"},
	}}
	if refused, err := k.handshake(r); refused != "" || err != nil {
		t.Fatal(refused, err)
	}
	events := &socketEvents{socket: k, hear: func(f *sse.Frame) []byte { return f.Data }}
	return &Stream{rc: new(app.RequestContext), conn: events, bare: true}
}

const aDelta = `event: response.output_text.delta
data: {"type":"response.output_text.delta","sequence_number":17,"item_id":"msg_1","output_index":0,"content_index":0,"delta":"Hello, ","logprobs":[]}

`

func TestAnEventOnASocketAllocatesNothing(t *testing.T) {
	stream, event := socketEventsTo(t, newDiscarded()), []byte(aDelta)
	if n := testing.AllocsPerRun(1000, func() { send(t, stream, event) }); n > 0 {
		t.Errorf("an event allocates %v times", n)
	}
}

// sent keeps what a client of the socket gets.
type sent struct {
	net.Conn
	bytes []byte
}

func (s *sent) Write(p []byte) (int, error) {
	s.bytes = append(s.bytes, p...)
	return len(p), nil
}

func (*sent) SetReadDeadline(time.Time) error  { return nil }
func (*sent) SetWriteDeadline(time.Time) error { return nil }

func newSocket(t testing.TB, to net.Conn) *Socket {
	t.Helper()
	conn := &connection{wire: wire{Conn: to, memory: NewBudget(1<<20, nil)}}
	k := socketEventsTo(t, conn).conn.(*socketEvents).socket
	if err := k.conn.flush(); err != nil { // the handshake
		t.Fatal(err)
	}
	return k
}

func TestAMessageIsOneFrameOfItsLength(t *testing.T) {
	for _, size := range []int{0, 1, 125, 126, 127, compressFrom - 1} {
		to := new(sent)
		k := newSocket(t, to)
		to.bytes = nil
		message := bytes.Repeat([]byte("m"), size)
		if err := k.Send(message); err != nil {
			t.Fatal(err)
		}
		want := []byte{0x81, byte(size)}
		if size > 125 {
			want = []byte{0x81, 126, byte(size >> 8), byte(size)}
		}
		if want = append(want, message...); !bytes.Equal(to.bytes, want) {
			t.Errorf("a message of %d bytes begins with % x, want % x", size, to.bytes[:min(6, len(to.bytes))], want[:min(6, len(want))])
		}
	}
}

func TestNoMessageFollowsTheEndOfASocket(t *testing.T) {
	for _, size := range []int{5, compressFrom} {
		to := new(sent)
		k := newSocket(t, to)
		k.Close(CloseNormal)
		to.bytes = nil
		if err := k.Send(bytes.Repeat([]byte("m"), size)); err == nil || len(to.bytes) > 0 {
			t.Errorf("a message of %d bytes after the end is sent: %d bytes, error %v", size, len(to.bytes), err)
		}
	}
}

func send(t testing.TB, stream *Stream, event []byte) {
	if _, err := stream.Write(event); err != nil {
		t.Error(err)
	}
	if err := stream.Flush(); err != nil {
		t.Error(err)
	}
}

// overTCP is a connection to a client that reads everything.
func overTCP(b *testing.B) *connection {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	here, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	there, err := listener.Accept()
	if err != nil {
		b.Fatal(err)
	}
	_ = listener.Close()
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{there})
	}()
	b.Cleanup(func() { _ = here.Close(); <-read; _ = there.Close() })
	return &connection{wire: wire{Conn: here, memory: NewBudget(1<<20, nil)}}
}

func eventsOfAStream(to *connection) *Stream {
	to.handling.Store(true)
	return &Stream{rc: new(app.RequestContext), conn: to, chunked: true, started: true}
}

// BenchmarkAnEventOnASocketBesideAStream gives what an event on a WebSocket takes of the processor as a share of one on a
// stream: without a system call, and over TCP. They take turns, so that the machine is the same for both.
func BenchmarkAnEventOnASocketBesideAStream(b *testing.B) {
	for name, to := range map[string]func() *connection{"discarded": newDiscarded, "TCP": func() *connection { return overTCP(b) }} {
		b.Run(name, func(b *testing.B) {
			streams := [2]*Stream{socketEventsTo(b, to()), eventsOfAStream(to())}
			var used [2]time.Duration
			event, round := []byte(aDelta), 0
			b.ReportAllocs()
			for b.Loop() {
				side := round % 2
				round++
				before := cputime.Used()
				for range 2000 {
					send(b, streams[side], event)
				}
				used[side] += cputime.Used() - before
			}
			b.ReportMetric(float64(used[0])*float64(round/2)/float64(max(used[1], 1))/float64(max((round+1)/2, 1)), "socket/stream")
		})
	}
}
