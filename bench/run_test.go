package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/server/command"
)

// measured is the report of a run, with what it printed.
func measured(t *testing.T, run *Run) (report *Report, said string) {
	t.Helper()
	var out, people bytes.Buffer
	if err := run.Run(t.Context(), &command.Env{Out: &out, Err: &people, Version: "v0.0.0-test"}); err != nil {
		t.Fatal(err, people.String())
	}
	if strings.Contains(people.String(), "\r") {
		t.Errorf("progress is drawn where nobody sees it: %q", people.String())
	}
	report, err := readReport(filepath.Join(run.Out, "report.json"))
	if err != nil {
		t.Fatal(err)
	}
	return report, out.String()
}

// The whole command, with processes, in the smallest run there is: every surface, complete and streamed, same format
// and crossed, through a floor and through mneme, and every answer right.
func TestLanesAreAnsweredWholeAndRight(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	names := []string{"chat", "chat-stream", "messages-on-chat", "responses-on-messages", "chat-on-gemini", "tools-crossed", "agent-crossed", "embeddings"}
	run := Run{Lanes: names, Targets: []string{"direct", "pump", "mneme"}, Rounds: 1, Scale: 1e-9, Out: dir}
	report, _ := measured(t, &run)
	if len(report.Lanes) != len(names) {
		t.Fatalf("%d lanes were reported of %d", len(report.Lanes), len(names))
	}
	_, exact := scheduled(os.Getpid()) // else so little work may be less than a tick of the clock
	for i := range report.Lanes {
		l := &report.Lanes[i]
		for _, name := range run.Targets {
			round := l.result(name).Rounds[0]
			if round.Requests != l.Connections || round.failures() > 0 {
				t.Errorf("%s through %s: %d of %d answers were complete and correct; the first other one: %s", l.Lane, name, round.Requests, l.Connections, round.Example)
			}
			if name != targetDirect && (exact && round.CPURequest <= 0 || round.PeakMemory <= 0) {
				t.Errorf("%s through %s: no CPU time or no memory was read: %+v", l.Lane, name, round)
			}
		}
	}
	page, err := os.ReadFile(filepath.Join(dir, "report.html"))
	if err != nil {
		t.Fatal(err)
	}
	for _, reference := range []string{"src=", "href=", "url(", "@import"} {
		if bytes.Contains(page, []byte(reference)) {
			t.Errorf("the report is not one file: it holds %s", reference)
		}
	}
}

func TestAPacedStreamTellsHowLongItsEventsTraveled(t *testing.T) {
	t.Parallel()
	fleet, err := startFleet("test", []string{"direct"}, "")
	if err != nil {
		t.Fatal(err)
	}
	defer fleet.stop()
	l, _ := findLane("chat-stream-paced")
	l.connections, l.script, l.events = 2, "events 41 ; stamped ; delay 1ms", 41
	w := load{lane: &l, address: fleet.upstream, requests: 2, request: newRequest(&l, fleet.upstream, bearer(serviceKey))}
	connections, err := dial(t.Context(), &w)
	if err != nil {
		t.Fatal(err)
	}
	got := w.run(t.Context(), connections)
	for _, c := range connections {
		c.close()
	}
	if got.requests != 2 || got.event.TotalCount() != 2*3 {
		t.Errorf("%d answers with %d stamped events, want 2 with 6: %s", got.requests, got.event.TotalCount(), got.example)
	}
}

// answering is a target that answers every request with the same bytes, after hold.
func answering(t *testing.T, answer string, hold func(request int)) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	t.Cleanup(func() {
		_ = listener.Close()
		<-served
	})
	go func() {
		defer close(served)
		for n := 0; ; {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serveConn(conn, answer, func() { hold(n); n++ })
		}
	}()
	return listener.Addr().String()
}

func serveConn(conn net.Conn, answer string, hold func()) {
	defer conn.Close()
	buffer := make([]byte, 64<<10)
	for {
		if _, err := conn.Read(buffer); err != nil {
			return
		}
		hold()
		if _, err := io.WriteString(conn, answer); err != nil {
			return
		}
		if !strings.HasSuffix(answer, "0\r\n\r\n") {
			return // a broken answer is one that the connection ends with
		}
	}
}

func chunked(frames ...string) string {
	var b strings.Builder
	b.WriteString("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
	for _, f := range frames {
		b.WriteString(hexadecimal(len(f)) + "\r\n" + f + "\r\n")
	}
	return b.String()
}

func hexadecimal(n int) string {
	const digits = "0123456789abcdef"
	return string([]byte{digits[n>>8&15], digits[n>>4&15], digits[n&15]})
}

func TestAnswersThatAreNotWholeAndRightAreCounted(t *testing.T) {
	t.Parallel()
	const hello, world, done = "data: {\"delta\":{\"content\":\"hello\"}}\n\n", "data: {\"delta\":{\"content\":\" world\"}}\n\n", "data: [DONE]\n\n"
	const end = "0\r\n\r\n"
	for name, test := range map[string]struct {
		answer                  string
		right, truncated, wrong int
	}{
		"right":                       {answer: chunked(hello, world, done) + end, right: 3},
		"without its terminal event":  {answer: chunked(hello, world) + end, truncated: 3},
		"without the end of its body": {answer: chunked(hello, world, done), truncated: 3},
		"with an event missing":       {answer: chunked(hello, done) + end, wrong: 3},
		"with an event twice":         {answer: chunked(hello, hello, world, done) + end, wrong: 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := lane{surface: codec.Chat, stream: true, connections: 1, script: "text"}
			address := answering(t, test.answer, func(int) {})
			w := load{lane: &l, address: address, requests: 3, want: &saying{text: []byte("hello world")}, request: newRequest(&l, address, "")}
			c := newConnection(address, &l, w.request, w.want)
			defer c.close()
			got := w.run(t.Context(), []*connection{c})
			if got.requests != test.right || got.truncated != test.truncated || got.wrong != test.wrong || got.errors != 0 {
				t.Errorf("%d right, %d truncated, %d wrong, %d other errors (%s)", got.requests, got.truncated, got.wrong, got.errors, got.example)
			}
		})
	}
}

// A target that stalls once makes those wait that were due meanwhile, and in open loop each of them counts.
func TestAStallCountsForAllThatWereDueMeanwhile(t *testing.T) {
	t.Parallel()
	const stall, rate, requests = 300 * time.Millisecond, 100, 30
	l := lane{surface: codec.Chat, connections: 1, script: "text"}
	answer := "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + "00e\r\n{\"content\":\"\"}\r\n0\r\n\r\n"
	address := answering(t, answer, func(n int) {
		if n == 0 {
			time.Sleep(stall)
		}
	})
	w := load{lane: &l, address: address, requests: requests, rate: rate, request: newRequest(&l, address, "")}
	c := newConnection(address, &l, w.request, nil)
	defer c.close()
	got := w.run(t.Context(), []*connection{c})
	if got.requests != requests {
		t.Fatalf("%d of %d answers: %s", got.requests, requests, got.example)
	}
	// Fifteen requests at least were due in the first half of the stall.
	if half := time.Duration(got.total.ValueAtQuantile(50)); half < stall/2 {
		t.Errorf("half of the requests are said to have taken less than %s, although the target stood still for %s", half, stall)
	}
}

func TestRequestsOfARunDifferUnlessTheyRepeat(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for i := range lanes {
		l := &lanes[i]
		r := newRequest(l, "host", "").copy()
		for n := range 30 {
			request := r.number(i+1, n)
			if before := seen[string(request)]; before != (l.repeats && n > 0) {
				t.Errorf("%s: that request %d was sent before is %v", l.Name, n, before)
			}
			seen[string(request)] = true
			_, body, _ := bytes.Cut(request, []byte("\r\n\r\n"))
			if !json.Valid(body) {
				t.Fatalf("%s: the body is no JSON: %.200s", l.Name, body)
			}
		}
	}
	l, _ := findLane("agent")
	if size := len(l.body()); size < 190_000 || size > 230_000 {
		t.Errorf("the agent's body has %d bytes", size)
	}
}

// An agent sends its session again with each request, and what is new at its end.
func TestEachRequestOfASessionContinuesTheOneBefore(t *testing.T) {
	t.Parallel()
	l, _ := findLane("agent-session")
	r := newRequest(&l, "host", "").copy()
	var before []byte
	for n := range 2 * agentTurns {
		request, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(r.number(1, n))))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(request.Body)
		if err != nil || !json.Valid(body) {
			t.Fatalf("request %d is not whole: %v", n, err)
		}
		if n%agentTurns == 0 {
			before = nil // another session
		}
		added := len(body) - len(before)
		if !bytes.HasPrefix(body, bytes.TrimSuffix(before, []byte("]}"))) || before != nil && (added < 10_000 || added > 11_000) {
			t.Errorf("request %d does not continue the one before with 10 KB: it has %d bytes more", n, added)
		}
		before = body
	}
}

// The requests of a session are sent by one connection in their order, because each repeats the answer to the one before.
func TestAConnectionSendsItsSessionInOrder(t *testing.T) {
	t.Parallel()
	l, _ := findLane("agent-session")
	w, begun, first, second := load{lane: &l}, atomic.Int64{}, turns{}, turns{}
	for n := range agentTurns {
		if a, b := w.next(&begun, &first), w.next(&begun, &second); a != n || b != agentTurns+n {
			t.Errorf("two connections send %d and %d in turn %d", a, b, n)
		}
	}
	if n := w.next(&begun, &first); n != 2*agentTurns {
		t.Errorf("the next session begins with %d", n)
	}
	if n := l.perRound(0.01); n != l.connections*agentTurns {
		t.Errorf("a short round has %d requests", n)
	}
}

func TestTheRelayEndsWithItsContext(t *testing.T) {
	t.Parallel()
	for name, serve := range map[string]func(context.Context, net.Listener, string) error{targetPump: relay, targetReverse: reverseProxy} {
		ctx, cancel := context.WithCancel(t.Context())
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- serve(ctx, listener, "127.0.0.1:1") }()
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := listener.Accept(); !errors.Is(err, net.ErrClosed) { // its port may be somebody else's by now
			t.Errorf("%s still listens: %v", name, err)
		}
	}
}

// What a lane leaves to be done is not done at the cost of the next: mneme starts over with an empty store.
func TestEachLaneHasAMnemeOfItsOwn(t *testing.T) {
	t.Parallel()
	fleet, err := startFleet("test", []string{"pump", "mneme"}, "")
	if err != nil {
		t.Fatal(err)
	}
	defer fleet.stop()
	pump, before := fleet.targets[0], fleet.targets[1]
	if err := fleet.renew(); err != nil {
		t.Fatal(err)
	}
	after := fleet.targets[1]
	if fleet.targets[0] != pump || after.Name != before.Name || after.process.pid == before.process.pid || after.mneme.data == before.mneme.data {
		t.Errorf("%+v follows %+v", after, before)
	}
	if _, err := os.Stat(before.mneme.data); !os.IsNotExist(err) {
		t.Errorf("the store of the lane before is still there: %v", err)
	}
	if _, err := before.process.cpu(); err == nil {
		t.Error("the mneme of the lane before still runs")
	}
}
