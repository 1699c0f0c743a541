package server_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/server"
	"github.com/mnemeproxy/mneme/store/record"
)

// begin starts a drain and returns once the server takes no more connections. The channel gives what Run returned.
func (h *harness) beginDrain() <-chan error {
	h.t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- h.stop() }()
	eventually(h.t, func() error {
		conn, err := h.connect(context.Background())
		if err == nil {
			_ = conn.Close()
			return errors.New("the server still takes connections")
		}
		return nil
	})
	if !h.proxy.Draining() {
		h.t.Error("the listener is closed and the server is not draining")
	}
	return ended
}

func TestADrainLetsOpenAnswersFinish(t *testing.T) { onEveryTransport(t, aDrainLetsOpenAnswersFinish) }

func aDrainLetsOpenAnswersFinish(t *testing.T, on transportPlan) {
	for _, s := range generating {
		t.Run(s.name, func(t *testing.T) {
			h := build(t, on)
			whole, stream := s.body(`text "hi"; delay header=300ms`, false), s.body(`events 30; delay 10ms`, true)
			answers := make(chan *answer, 2)
			for _, body := range []string{whole, stream} {
				go func() { answers <- h.outcome(s.path, body) }()
			}
			h.await(2)
			ended := h.beginDrain()
			for range 2 {
				a := <-answers
				if a.status != 200 || a.cut != nil {
					t.Errorf("%d %v %s", a.status, a.cut, a.body)
				}
				if x := h.record(a.exchange()); x.Outcome != record.OutcomeComplete || string(x.RawResponse) != a.body {
					t.Errorf("on record as %v", x.Outcome)
				}
			}
			if err := <-ended; err != nil {
				t.Errorf("the server ended with %v", err)
			}
		})
	}
}

func TestADrainEndsUnfinishedAnswersInTheSurfacesOwnWay(t *testing.T) {
	onEveryTransport(t, aDrainEndsUnfinishedAnswersInTheSurfacesOwnWay)
}

func aDrainEndsUnfinishedAnswersInTheSurfacesOwnWay(t *testing.T, on transportPlan) {
	h := build(t, on, func(p *plan) {
		p.server.DrainTimeout = 50 * time.Millisecond
		p.server.AbortWithin(timeout)
	})
	type cut struct {
		surface
		stream bool
		answer *answer
	}
	cuts := make(chan cut)
	open := 0
	for _, s := range surfaces {
		for _, stream := range []bool{false, true} {
			if stream && s.name == "embeddings" {
				continue
			}
			script := `delay header=1h`
			if stream {
				script = `events 9; delay 1h first=1ms; burst 3`
			}
			open++
			go func() { cuts <- cut{s, stream, h.outcome(s.path, s.body(script, stream))} }()
		}
	}
	h.await(int64(open))
	eventually(t, func() error { // the streams have begun
		begun := 0
		for _, x := range h.records("acme") {
			if x.Stream {
				begun++
			}
		}
		if begun < len(generating) {
			return errors.New("not all streams are on record")
		}
		return nil
	})
	ended := h.beginDrain()
	for range open {
		c := <-cuts
		switch {
		case c.stream && c.answer.status == 200:
			endsWithError(t, c.surface, "the drain", c.answer)
		default:
			if _, message := errorOf(t, c.surface, c.answer); c.answer.status < 500 || !strings.Contains(message, "shutting down") {
				t.Errorf("%s: %d %q", c.name, c.answer.status, message)
			}
		}
		x := h.record(c.answer.exchange())
		if x.Outcome != record.OutcomeStopped || string(x.RawResponse) != c.answer.body {
			t.Errorf("%s stream=%t: on record as %v with %q and not %q", c.name, c.stream, x.Outcome, x.RawResponse, c.answer.body)
		}
	}
	if err := <-ended; !errors.Is(err, server.ErrAborted) {
		t.Errorf("the server ended with %v", err)
	}
}

func TestADrainDoesNotWaitForIdleConnections(t *testing.T) {
	onEveryTransport(t, aDrainDoesNotWaitForIdleConnections)
}

func aDrainDoesNotWaitForIdleConnections(t *testing.T, on transportPlan) {
	h := build(t, on)
	conn := h.dial()
	if a := exchangeOn(t, conn, h.raw(chat, chat.body(`text "hi"`, true))); a.status != 200 {
		t.Fatal(a.status)
	}
	silent := h.dial()
	if err := <-h.beginDrain(); err != nil {
		t.Error(err)
	}
	isClosed(t, conn)
	isClosed(t, silent)
}

// Clients may connect in the very moment in which everything is closed.
func TestNoConnectionOutlivesTheDrain(t *testing.T) {
	onEveryTransport(t, noConnectionOutlivesTheDrain)
}

func noConnectionOutlivesTheDrain(t *testing.T, on transportPlan) {
	h := build(t, on)
	var dialing sync.WaitGroup
	dialed := make(chan net.Conn, 10_000)
	for range 4 {
		dialing.Go(func() {
			for len(dialed) < cap(dialed)-4 {
				conn, err := h.connect(context.Background())
				if err != nil {
					return
				}
				dialed <- conn
			}
		})
	}
	eventually(t, func() error {
		if len(dialed) < 20 {
			return errors.New("nobody connects")
		}
		return nil
	})
	ok(t, h.stop())
	dialing.Wait()
	close(dialed)
	for conn := range dialed {
		isClosed(t, conn)
		_ = conn.Close()
	}
}

func TestReadinessFailsDuringTheDrain(t *testing.T) {
	h := build(t)
	if a := h.do(http.MethodGet, "/readyz", ""); a.status != 200 {
		t.Errorf("ready: %d", a.status)
	}
	if h.proxy.Draining() {
		t.Error("draining before it was told to stop")
	}
	ok(t, h.stop())
	if !h.proxy.Draining() {
		t.Error("not draining when it has ended")
	}
}

// A server that is asked to stop before, while or after it begins to serve ends all the same.
func TestAServerCanBeStoppedAtAnyMoment(t *testing.T) {
	h := build(t)
	for i := range 50 {
		s, err := server.New(server.Options{Listen: []string{"127.0.0.1:0"}, Engine: server.Over(h.store)})
		ok(t, err)
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(i)*20*time.Microsecond)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			if err := s.Run(ctx); err != nil {
				t.Error(err)
			}
		}()
		closed(t, "the end of the server", ended)
		cancel()
	}
}

// What others open in the moment in which a server closes its listeners stays open.
func TestAServerThatEndsClosesItsResources(t *testing.T) {
	h := build(t)
	opening, ended := context.WithCancel(context.Background())
	var others sync.WaitGroup
	for range 4 {
		others.Go(func() {
			for opening.Err() == nil {
				file, err := os.Open(os.DevNull)
				if err == nil {
					runtime.Gosched()
					err = file.Close()
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 100 {
		s, err := server.New(server.Options{Listen: []string{"127.0.0.1:0"}, Engine: server.Over(h.store)})
		ok(t, err)
		ctx, stop := context.WithCancel(context.Background())
		stop()
		ok(t, s.Run(ctx))
	}
	ended()
	others.Wait()
}

// A request that comes on an open connection while the server drains is told to come again.
func TestARequestDuringTheDrainIsAskedToRetry(t *testing.T) {
	onEveryTransport(t, aRequestDuringTheDrainIsAskedToRetry)
}

func aRequestDuringTheDrainIsAskedToRetry(t *testing.T, on transportPlan) {
	finish := make(chan struct{})
	up := newUpstream(t, func(c *upstreamCall) {
		first, rest, _ := strings.Cut(chatStream, "\n\n")
		c.chunked()
		c.chunk(first + "\n\n")
		select {
		case <-finish:
			c.chunk(rest)
			c.chunk("")
		case <-c.gone:
		}
	})
	h := build(t, on, up.serves)
	busy := h.dial()
	_, err := io.WriteString(busy, h.raw(chat, chat.body("", true)))
	ok(t, err)
	open, err := http.ReadResponse(bufio.NewReader(busy), nil)
	ok(t, err)
	late := h.dial() // has begun its request when the drain begins, and ends it later
	request := h.raw(messages, messages.body("", true))
	_, err = io.WriteString(late, request[:20])
	ok(t, err)
	eventually(t, func() error {
		if held := h.proxy.Held(); held != 20 {
			return fmt.Errorf("of the late request %d bytes have been read", held)
		}
		return nil
	})
	ended := h.beginDrain()
	_, err = io.WriteString(late, request[20:])
	ok(t, err)
	response, err := http.ReadResponse(bufio.NewReader(late), nil)
	ok(t, err)
	a := read(response)
	if kind, message := errorOf(t, messages, a); a.status < 500 || !strings.Contains(message, "shutting down") || a.header.Get("Retry-After") == "" || !response.Close {
		t.Errorf("%d %s %q %v", a.status, kind, message, a.header)
	}
	close(finish)
	if a := read(open); a.cut != nil || !strings.Contains(a.body, chat.terminal()) {
		t.Errorf("the open stream ended with %v", a.cut)
	}
	ok(t, <-ended)
}

// Load balancers look at readiness now and then. Until they have, requests come and are served.
func TestReadinessFailsBeforeTheDrain(t *testing.T) { onEveryTransport(t, readinessBeforeTheDrain) }

func readinessBeforeTheDrain(t *testing.T, on transportPlan) {
	// What is asked has to come before the delay is over. Where it does not, because the machine has no time for it, it is
	// asked of a proxy that waits longer.
	for delay := 100 * time.Millisecond; ; delay *= 2 {
		late, err := servedDuringTheDelay(t, on, delay)
		if err != nil && late && delay < timeout {
			continue
		}
		ok(t, err)
		return
	}
}

// servedDuringTheDelay tells a proxy to stop that then waits for so long, and asks it meanwhile. late tells that the delay
// was over before all had been asked.
func servedDuringTheDelay(t *testing.T, on transportPlan, delay time.Duration) (late bool, err error) {
	h := build(t, on, func(p *plan) { p.server.DrainDelay = delay })
	idle := h.dial()
	if a := exchangeOn(t, idle, "GET /readyz HTTP/1.1\r\nHost: proxy\r\n\r\n"); a.status != 200 {
		t.Fatal(a.status)
	}
	told, ended := time.Now(), make(chan error, 1)
	go func() { ended <- h.stop() }()
	err = h.servesThoughNotReady(idle)
	late = time.Since(told) >= delay
	isClosed(t, idle)
	ok(t, <-ended)
	return late, err
}

// servesThoughNotReady waits until readiness is down, and asks for an answer then, on a new connection and on one that is open.
func (h *harness) servesThoughNotReady(open net.Conn) error {
	is := func(status int, a *answer, err error) error {
		if err == nil && (a.status != status || a.cut != nil) {
			err = errors.Join(fmt.Errorf("%d %s, not %d", a.status, a.body, status), a.cut)
		}
		return err
	}
	for !h.proxy.Draining() {
		runtime.Gosched()
	}
	a, err := h.attempt(http.MethodGet, "/readyz", "")
	if err = is(http.StatusServiceUnavailable, a, err); err != nil {
		return err
	}
	a, err = h.attempt(http.MethodPost, chat.path, chat.body(`text "hi"`, true), "Authorization", "Bearer "+h.key)
	if err = is(http.StatusOK, a, err); err != nil {
		return err
	}
	a, err = askOn(open, "GET /healthz HTTP/1.1\r\nHost: proxy\r\n\r\n")
	return is(http.StatusOK, a, err)
}
