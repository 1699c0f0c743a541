package edge

import (
	"testing"
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
