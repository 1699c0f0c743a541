package server_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// idleStreams is how many streams are held open. `make idle` holds 5,000, and then the figures are held to what is
// promised of them. In a test among others times say nothing, and the memory of a few streams only that it is of the right
// size.
func idleStreams(t *testing.T) (n int, measured bool) {
	text := os.Getenv("MNEME_IDLE_STREAMS")
	if text == "" {
		return 200, false
	}
	n, err := strconv.Atoi(text)
	ok(t, err)
	return n, true
}

// What is asked of idle streams: memory of the whole process, from its start, with requests of a kilobyte; memory of each
// with a long prompt, which it must not keep; and what an event takes on its way through.
const (
	idleTotal   = 220_000_000
	idleLong    = 260_000
	fewBytes    = 1 << 20 // of each where only a few are open, and the heap and the race detector count: no whole body for each
	idleLatency = 20 * time.Millisecond
)

// events is a provider whose streams bring an event whenever the test says so.
type events struct {
	mu      sync.Mutex
	streams []net.Conn // that the proxy has not closed
	serving sync.WaitGroup
	net.Listener
}

func newEvents(t *testing.T) *events {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	ok(t, err)
	e := &events{Listener: listener}
	e.serving.Go(e.accept)
	t.Cleanup(func() {
		_ = listener.Close()
		e.end()
		e.serving.Wait()
	})
	return e
}

// URL is the provider's origin.
func (e *events) URL() string { return "http://" + e.Addr().String() }

func (e *events) accept() {
	for {
		conn, err := e.Accept()
		if err != nil {
			return
		}
		e.serving.Go(func() {
			defer conn.Close()
			request, err := http.ReadRequest(bufio.NewReader(conn))
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, request.Body)
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n") // so that no request takes the connection while it is closed
			e.mu.Lock()
			e.streams = append(e.streams, conn)
			e.mu.Unlock()
			e.send(conn)
			_, _ = io.Copy(io.Discard, conn) // until the proxy closes it
			e.mu.Lock()
			defer e.mu.Unlock()
			e.streams = slices.DeleteFunc(e.streams, func(c net.Conn) bool { return c == conn })
		})
	}
}

// send writes an event that tells when it was written.
func (e *events) send(to net.Conn) {
	writeChunk(to, fmt.Sprintf("data: {\"id\":\"x\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"%d\"}}]}\n\n", time.Now().UnixNano()))
}

// finish ends a stream as a provider does that has said all, and its connection.
func (e *events) finish(to net.Conn) {
	writeChunk(to, "data: {\"id\":\"x\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n"+doneEvent)
	_, _ = io.WriteString(to, "0\r\n\r\n")
	_ = to.Close()
}

const doneEvent = "data: [DONE]\n\n"

func writeChunk(to io.Writer, text string) { _, _ = fmt.Fprintf(to, "%x\r\n%s\r\n", len(text), text) }

func (e *events) open() []net.Conn {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.streams)
}

func (e *events) end() {
	for _, conn := range e.open() {
		_ = conn.Close()
	}
}

// listenTo is a client with one open stream; it tells how long each event took.
func listenTo(conn net.Conn, took chan<- time.Duration) {
	in := bufio.NewReaderSize(conn, 512)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		_, text, found := strings.Cut(line, `"content":"`)
		if !found {
			continue
		}
		text, _, _ = strings.Cut(text, `"`)
		if sent, err := strconv.ParseInt(text, 10, 64); err == nil {
			took <- time.Duration(time.Now().UnixNano() - sent)
		}
	}
}

// Thousands of agents wait on streams that say nothing most of the time. Each of them costs little, and what does come
// is not late.
func TestIdleStreamsCostLittle(t *testing.T) {
	n, measured := idleStreams(t)
	idle := openIdle(t, n, 1<<10, measured)
	latencies := make([]time.Duration, 0, 10*n)
	for range 10 {
		for i, conn := range idle.up.open() {
			idle.up.send(conn)
			if i%50 == 49 {
				time.Sleep(settling(measured) / 200)
			}
		}
		latencies = append(latencies, awaitEvents(t, idle.took, n)...)
	}
	slices.Sort(latencies)
	p50, p99 := latencies[len(latencies)/2], latencies[len(latencies)*99/100]
	t.Logf("%d idle streams with 1 KiB of prompt: %d MB, of which %d were there at the start, and %d KB each; an event takes %v (p50), %v (p99)",
		n, idle.total/1e6, idle.start/1e6, idle.each/1e3, p50.Round(10*time.Microsecond), p99.Round(10*time.Microsecond))
	if idle.each > fewBytes || measured && (idle.total > idleTotal || p99 > idleLatency) {
		t.Errorf("asked are %d MB and %v; %d KB of each of a few streams", idleTotal/1_000_000, idleLatency, fewBytes/1000)
	}
}

// A stream that has begun keeps nothing of its prompt.
func TestIdleStreamsKeepNoPrompts(t *testing.T) {
	n, measured := idleStreams(t)
	n = max(n/10, 20)
	idle := openIdle(t, n, 200<<10, measured)
	t.Logf("%d idle streams with 200 KiB of prompt: %d MB, of which %d were there at the start, and %d KB each", n, idle.total/1e6, idle.start/1e6, idle.each/1e3)
	if measured && idle.each > idleLong {
		t.Errorf("asked are %d KB of each", idleLong/1000)
	}
}

// idling are open streams of a program, with its memory in bytes.
type idling struct {
	up                 *events
	took               chan time.Duration
	start, total, each int64
}

// openIdle opens streams whose requests have so many bytes of new words.
func openIdle(t *testing.T, n, prompt int, measured bool) *idling {
	t.Helper()
	idle := &idling{up: newEvents(t), took: make(chan time.Duration, 4*n)}
	p := startProgram(t, t.TempDir(), idle.up)
	idle.start = p.resident(t)
	var clients []net.Conn
	var listening sync.WaitGroup
	t.Cleanup(func() {
		for _, conn := range clients {
			_ = conn.Close()
		}
		listening.Wait()
	})
	for i := range n {
		conn, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", strings.TrimPrefix(p.url, "http://"))
		ok(t, err)
		clients = append(clients, conn)
		body := chat.body(newWords(i, prompt), true)
		_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: proxy\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
			chat.path, programsKey, len(body), body)
		ok(t, err)
		listening.Go(func() { listenTo(conn, idle.took) })
		if len(clients)%100 == 0 { // as agents come, not all in the same instant
			awaitEvents(t, idle.took, 100)
		}
	}
	awaitEvents(t, idle.took, n%100)
	time.Sleep(settling(measured))
	idle.total = p.resident(t)
	idle.each = (idle.total - idle.start) / int64(n)
	return idle
}

// newWords is a text that no other stream has said.
func newWords(stream, size int) string {
	var text strings.Builder
	for word := uint32(stream)*7919 + 1; text.Len() < size; {
		word = word*1664525 + 1013904223
		fmt.Fprintf(&text, "w%x ", word)
	}
	return text.String()[:size]
}

// settling is how long memory has to settle before it is measured.
func settling(measured bool) time.Duration {
	if measured {
		return 10 * time.Second
	}
	return 0
}

func awaitEvents(t *testing.T, took <-chan time.Duration, n int) []time.Duration {
	t.Helper()
	all := make([]time.Duration, n)
	for i := range all {
		select {
		case all[i] = <-took:
		case <-time.After(timeout):
			t.Fatalf("%d of %d events came", i, n)
		}
	}
	return all
}

// resident is the memory of the program, in bytes.
func (p *program) resident(t *testing.T) int64 { return p.memory(t, "VmRSS:") }

// memory is a figure of /proc.
func (p *program) memory(t *testing.T, name string) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.process.Process.Pid))
	if err != nil {
		t.Error(err)
		return 0
	}
	_, rest, _ := strings.Cut(string(text), name)
	var kilobytes int64
	if fields := strings.Fields(rest); len(fields) > 0 {
		kilobytes, _ = strconv.ParseInt(fields[0], 10, 64)
	}
	return kilobytes << 10
}
