package edge

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cloudwego/hertz/pkg/network"
)

// holding is a client's connection that holds these bytes unread, one number for each look at it.
type holding struct {
	network.Conn
	bytes  []int
	closed bool
}

func (h *holding) Len() int {
	held := h.bytes[0]
	if len(h.bytes) > 1 {
		h.bytes = h.bytes[1:]
	}
	return held
}

func (h *holding) Close() error {
	h.closed = true
	return nil
}

// swept looks once at connections that may hold 100 bytes together, and tells which of them were closed.
func swept(held ...[]int) (closed []bool) {
	all := &connections{limits: connectionLimits{unread: 100}, timeout: time.Minute}
	conns := make([]*holding, len(held))
	for i := range conns {
		conns[i] = &holding{bytes: held[i]}
		conn := &connection{Conn: conns[i], all: all, cancel: func() {}}
		conn.since.Store(time.Now().UnixNano())
		all.open.Store(conn, struct{}{})
	}
	all.sweep(time.Now())
	for _, conn := range conns {
		closed = append(closed, conn.closed)
	}
	return closed
}

func TestAClientThatHasItsAnswerMaySendAWholeRequestBeforeWeAreDone(t *testing.T) {
	all := &connections{limits: connectionLimits{unread: 1 << 30, head: 1 << 10, body: 4 << 20}, timeout: time.Minute}
	for _, c := range []struct {
		what      string
		answering bool
		held      int
		closed    bool
	}{
		{"behind a request that is being handled", false, 2 << 20, true},
		{"a request, behind an answer", true, 2 << 20, false},
		{"more than a request, behind an answer", true, 5 << 20, true},
	} {
		wire := &holding{bytes: []int{c.held}}
		conn := &connection{Conn: wire, all: all, cancel: func() {}}
		conn.handling.Store(true)
		conn.answering.Store(c.answering)
		all.open.Store(conn, struct{}{})
		if all.sweep(time.Now()); wire.closed != c.closed {
			t.Errorf("%s: closed is %t", c.what, wire.closed)
		}
		all.open.Delete(conn)
	}
}

func TestTheConnectionsThatHoldTheMostAreClosedUntilTheRestIsWithinTheLimit(t *testing.T) {
	if got := swept([]int{40}, []int{70}, []int{50}); got[0] || !got[1] || got[2] {
		t.Errorf("of 40, 70 and 50 bytes, with 100 allowed, closed are %v", got)
	}
}

func TestAFloodThatEndsWhileItIsLookedAtIsNotHeldAgainstOthers(t *testing.T) {
	if got := swept([]int{1000, 0}, []int{20}, []int{0}); got[0] || got[1] || got[2] {
		t.Errorf("with the flood gone the others hold 20 bytes, and closed are %v", got)
	}
}

// looked is a client's connection that counts how often somebody looks at it.
type looked struct {
	network.Conn
	held, looks atomic.Int64
	closed      atomic.Bool
}

func (l *looked) Len() int {
	l.looks.Add(1)
	return int(l.held.Load())
}

func (l *looked) Close() error {
	l.closed.Store(true)
	return nil
}

// sweeping has one connection swept, in time that the test makes pass.
func sweeping(t *testing.T, test func(all *connections, wire *looked, conn *connection)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		all := startConnections(ctx, &Options{ReadTimeout: time.Hour, UnreadBytes: 1 << 30, HeaderBytes: 1 << 10, BodyBytes: 1 << 20})
		wire := new(looked)
		conn := &connection{Conn: wire, all: all, cancel: func() {}, abort: func(error) {}}
		conn.since.Store(time.Now().UnixNano())
		all.open.Store(conn, struct{}{})
		test(all, wire, conn)
		end()
		all.wait()
	})
}

func TestConnectionsThatAskForNothingAreSeldomLookedAt(t *testing.T) {
	sweeping(t, func(_ *connections, wire *looked, _ *connection) {
		time.Sleep(looksBeforeRest*sweepInterval + time.Millisecond)
		wire.looks.Store(0)
		time.Sleep(time.Minute)
		if looks := wire.looks.Load(); looks > int64(time.Minute/restInterval)+1 {
			t.Errorf("an idle connection was looked at %d times in a minute", looks)
		}
	})
}

func TestAFloodAfterARestIsSeenAsSoonAsAnyOther(t *testing.T) {
	sweeping(t, func(all *connections, wire *looked, conn *connection) {
		for range 3 {
			time.Sleep(time.Minute)
			all.Start(context.WithValue(t.Context(), connectionKey{}, conn), nil)
			all.Finish(context.WithValue(t.Context(), connectionKey{}, conn), nil)
		}
		time.Sleep(time.Minute + restInterval/4) // the next look of a resting sweeper is not near
		wire.held.Store(1)
		all.Start(context.WithValue(t.Context(), connectionKey{}, conn), nil)
		conn.handling.Store(true)
		time.Sleep(restInterval / 4)
		wire.held.Store(readAhead + 1)
		time.Sleep(sweepInterval + time.Millisecond)
		if !wire.closed.Load() {
			t.Error("the flood goes on")
		}
	})
}

// The first bytes may come while the sweeper is about to rest, when Start does not know yet that it has to wake it.
func TestARequestThatBeginsAsTheSweeperGoesToRestKeepsItAwake(t *testing.T) {
	wire := new(looked)
	all := &connections{limits: connectionLimits{unread: 1 << 30}, timeout: time.Hour}
	conn := &connection{Conn: wire, all: all, cancel: func() {}}
	conn.since.Store(time.Now().UnixNano())
	all.open.Store(conn, struct{}{})
	wire.held.Store(1)
	if pause := all.pause(looksBeforeRest); pause != sweepInterval || all.resting.Load() {
		t.Errorf("with a request begun the next look is in %v", pause)
	}
	wire.held.Store(0)
	if pause := all.pause(looksBeforeRest); pause != restInterval || !all.resting.Load() {
		t.Errorf("with no request the next look is in %v", pause)
	}
}
