package edge

import (
	"net"
	"sync/atomic"
	"testing"
	"time"
)

// swept is a connection that is looked at once.
type swept struct {
	net.Conn
	closed atomic.Bool
}

func (s *swept) Close() error {
	s.closed.Store(true)
	return nil
}

func TestConnectionsAreClosedWhenTheirTimeIsOver(t *testing.T) {
	const timeout = time.Minute
	now := time.Now()
	for _, c := range []struct {
		name    string
		state   func(*connection)
		age     time.Duration
		writing time.Duration
		closed  bool
	}{
		{name: "one that asks for nothing", age: timeout + 1, closed: true},
		{name: "one that has just been opened", age: timeout - 1},
		{name: "one whose request has a deadline", state: func(c *connection) { c.timed.Store(true) }, age: timeout + 1},
		{name: "one whose request is being handled", state: func(c *connection) { c.handling.Store(true) }, age: timeout + 1},
		{name: "one that does not take its answer", state: func(c *connection) { c.handling.Store(true) }, writing: timeout + 1, closed: true},
		{name: "one that takes its answer", state: func(c *connection) { c.handling.Store(true) }, writing: timeout - 1},
	} {
		all, wire := &connections{timeout: timeout}, new(swept)
		conn := &connection{all: all, cancel: func() {}}
		conn.Conn = wire
		conn.since.Store(now.Add(-c.age).UnixNano())
		if c.writing != 0 {
			conn.writing.Store(now.Add(-c.writing).UnixNano())
		}
		if c.state != nil {
			c.state(conn)
		}
		all.open.Store(conn, struct{}{})
		all.sweep(now)
		if wire.closed.Load() != c.closed {
			t.Errorf("%s: closed is %t", c.name, wire.closed.Load())
		}
	}
}

func TestAClientThatHasItsAnswerMaySendAWholeRequestBeforeWeAreDone(t *testing.T) {
	all := &connections{limits: connectionLimits{head: 1 << 10, body: 4 << 20}}
	conn := &connection{all: all}
	if most := conn.mayBeAhead(); most != readAheadLimit {
		t.Errorf("behind a request that is being handled %d bytes may come", most)
	}
	conn.answering.Store(true)
	if most := conn.mayBeAhead(); most != 4<<20+1<<10 {
		t.Errorf("behind an answer %d bytes may come", most)
	}
}

func TestMemoryIsReturnedWhenABurstHasEnded(t *testing.T) {
	budget, now, returned := NewBudget(1<<30, nil), time.Now(), 0
	b := &bursts{budget: budget}
	look := func(seconds int) {
		for range seconds {
			now = now.Add(time.Second)
			if b.look(now) {
				returned++
			}
		}
	}
	expect := func(what string, want int) {
		t.Helper()
		if returned != want {
			t.Errorf("%s: memory was returned %d times, not %d", what, returned, want)
		}
	}
	look(60)
	expect("without requests", 0)
	budget.Take(burstBytes / 4)
	budget.Give(burstBytes / 4)
	look(60)
	expect("after a few", 0)
	for range 10 {
		budget.Take(burstBytes)
		look(1)
		budget.Give(burstBytes)
	}
	expect("in a burst", 0)
	look(10)
	expect("after it", 1)
	look(60)
	expect("when the store is done", 2)
	look(600)
	expect("much later", 2)
}
