package edge

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/netip"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cloudwego/hertz/pkg/app"

	"github.com/mnemeproxy/mneme/codec"
)

// connection is one client's connection, as hertz reads and writes it. It shows hertz the heads of requests only: their
// bodies are read by the handlers that ask for them (see body.go). It judges heads more strictly than hertz, and gives
// hertz's own answers the shape of the surface (see refusal.go). hertz reports when a request on it begins and ends (see
// Start and Finish).
type connection struct {
	wire
	all    *connections
	client netip.Prefix            // the client it counts for; invalid for a unix socket
	raw    syscall.RawConn         // the socket
	cancel context.CancelFunc      // ends the context of the connection, and so that of the current request
	abort  context.CancelCauseFunc // ends only the context of requests

	closed    atomic.Bool  // by us
	asked     atomic.Bool  // a request has arrived on it
	timed     atomic.Bool  // reading ends with an error at the end of the time for a request
	handling  atomic.Bool  // a handler runs, or its answer is being sent; otherwise the connection waits for a request or reads one
	answering atomic.Bool  // the handler has returned: the client may have its answer and send the next request
	since     atomic.Int64 // when it started to wait for a request, or that began, in Unix nanoseconds
	answers   *Budget      // the budget that the answer being sent holds room of; nil for none
	room      int64        // in bytes
	admitted  *admission   // left by the current request once its answer has been sent; nil for none
	ahead     lookout
	number    uint64 // among the watched departures

	// What follows belongs to the goroutine that serves the connection.
	rc       *app.RequestContext
	request  Request
	response Response
	body     body
	version  bool   // the request line names a version other than HTTP/1.1 and HTTP/1.0
	fault    string // the fault in the head of the request being read; "" for none
	full     bool   // there is no memory for the head
	refused  bool
	inHead   bool // hertz is reading the head of a request
	lines    int  // bytes of it that judgeLines has checked
	lingers  bool // the client may still be sending when the connection ends
}

type connectionKey struct{}

// connectionOf returns the connection of a request.
func connectionOf(ctx context.Context) *connection {
	conn, _ := ctx.Value(connectionKey{}).(*connection)
	return conn
}

// close ends the connection and cancels the current request.
func (c *connection) close() {
	if !c.closed.Swap(true) {
		c.cancel()
		_ = c.Conn.Close()
	}
}

// Close is called by hertz when it is done. The client may still be sending, so that [transport.end] closes the connection.
func (*connection) Close() error { return nil }

// closeWriter is a connection whose write side can be closed alone.
type closeWriter interface{ CloseWrite() error }

// closeWrite ends our side: the client sees the end of the answer and may go on sending.
func (c *connection) closeWrite() {
	if conn, ok := c.Conn.(closeWriter); ok {
		_ = conn.CloseWrite()
	}
}

// HandleSpecificError keeps hertz from logging how connections end.
func (c *connection) HandleSpecificError(error, string) bool { return true }

// Peek waits for n bytes of a head.
func (c *connection) Peek(n int) ([]byte, error) {
	if c.closed.Load() {
		return nil, net.ErrClosed
	}
	for c.Len() < n {
		if err := c.await(n); err != nil {
			return nil, err
		}
	}
	if c.inHead {
		if err := c.judgeLines(); err != nil {
			return nil, err
		}
	}
	return c.wire.Peek(n)
}

// await reads once, with room for n bytes. Once a part of a request has arrived, the rest must within the time for one.
func (c *connection) await(n int) error {
	if c.Len() > 0 {
		c.limitTime()
	}
	err := c.fill(n)
	c.full = errors.Is(err, ErrNoMemory)
	return err
}

// limitTime ends reading at the end of the time for a request.
func (c *connection) limitTime() {
	if !c.timed.Load() && !c.buffered {
		c.timed.Store(true)
		_ = c.SetReadDeadline(time.Unix(0, c.since.Load()).Add(c.all.timeout))
	}
}

func (c *connection) endTime() {
	if c.timed.Load() {
		_ = c.SetReadDeadline(time.Time{})
		c.timed.Store(false)
	}
}

// arrived ends the time for a request, which has been read whole. From then on it is noticed when the client leaves.
func (c *connection) arrived() {
	c.endTime()
	if !c.answering.Load() {
		c.ahead.allow(c)
	}
}

// judgeLines looks for folded lines in the received part of a head. hertz unfolds them in place, and then misjudges the
// length of a head whose last line is folded.
func (c *connection) judgeLines() error {
	if c.lines == c.Len() {
		return nil
	}
	c.lines = c.Len()
	text, err := c.wire.Peek(c.lines)
	if err != nil {
		return err
	}
	if hasFoldedLine(text) {
		c.fault = foldedLine
		return errMalformedHead
	}
	return nil
}

// errMalformedHead stops reading a request in its head; refusal says why.
var errMalformedHead = errors.New("the head is malformed")

// Skip is called by hertz for the head that it has parsed. The body is hidden from it.
func (c *connection) Skip(n int) error {
	if c.inHead {
		c.inHead = false
		c.judgeHead(n)
		c.body.hide(c)
	}
	return c.wire.Skip(n)
}

// judgeHead notes the faults of a head of n bytes.
func (c *connection) judgeHead(n int) {
	head := &c.rc.Request.Header
	if !head.IsHTTP11() {
		c.checkVersion(n)
	}
	if c.version {
		return
	}
	if c.fault = ambiguous(head.RawHeaders(), head.IsHTTP11(), c.all.single); c.fault == "" {
		c.fault = malformedTarget(head.RequestURI())
	}
}

// checkVersion checks the request line of a head that hertz has parsed: hertz takes any other version for HTTP/1.0.
func (c *connection) checkVersion(head int) {
	text, err := c.wire.Peek(head)
	if err != nil {
		return
	}
	line, _, _ := bytes.Cut(bytes.TrimLeft(text, "\r\n"), []byte{'\n'})
	c.version = !bytes.HasSuffix(bytes.TrimRight(line, "\r"), []byte(" HTTP/1.0"))
}

// settleBody decides, when the handler has returned, what becomes of a body that it has not read to its end: what is
// buffered is skipped, a short rest is skipped once the answer has been sent, and a longer one ends the connection.
func (c *connection) settleBody() {
	c.answering.Store(true)
	if c.body.skipBuffered() {
		return
	}
	if c.body.status != 0 && c.rc.Response.GetHijackWriter() == nil {
		c.answerUnread()
	}
	if !c.body.isShort() || c.rc.Response.ConnectionClose() {
		c.rc.SetConnectionClose()
		c.lingers = true
	}
}

// answerUnread makes the answer to a body that could not be read say so. A net/http handler sees only that its read
// failed.
func (c *connection) answerUnread() {
	if known := new(codec.Error); c.body.charged != nil && errors.As(c.body.err, &known) {
		c.all.fail(&c.request, &c.response, known)
	}
	c.response.SetStatus(c.body.status)
}

// Release is called by hertz when it no longer uses what it has read of a request.
func (c *connection) Release() error {
	c.ahead.forbid(c)
	return c.wire.Release()
}

// Flush sends what was written. Behind an answer it skips the rest of a short body.
func (c *connection) Flush() error {
	err := c.wire.Flush()
	if err == nil && c.answering.Load() && !c.lingers && c.body.err == nil {
		return c.body.skip(time.Now().Add(lingerTime))
	}
	return err
}

// linger reads and discards what the client is still sending, for some time: closing the connection at once would
// discard the answer.
func (c *connection) linger() {
	_ = c.Release()
	c.closeWrite()
	c.timed.Store(true)
	_ = c.SetReadDeadline(time.Now().Add(lingerTime))
	piece := newPiece()
	defer pieces.Put(piece)
	for left := c.all.limits.body + lingerBytes; left > 0; {
		n, err := c.Conn.Read((*piece)[:cap(*piece)])
		if err != nil {
			return
		}
		left -= int64(n)
	}
}

const (
	lingerTime  = 5 * time.Second // long enough for a client to notice an answer while it is sending
	lingerBytes = 1 << 20         // beyond the largest body: many clients look at the answer only behind theirs
)
