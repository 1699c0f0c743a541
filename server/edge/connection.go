package edge

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/cloudwego/hertz/pkg/app"
	hertzerrors "github.com/cloudwego/hertz/pkg/common/errors"
	"github.com/cloudwego/hertz/pkg/network"
	polling "github.com/cloudwego/netpoll"

	"github.com/mnemeproxy/mneme/codec"
)

// connection is one client's connection, between hertz and its transport. It counts the memory of a request while it is
// read, allocates for what has arrived rather than for what a client announces, and gives hertz's own answers the shape
// of the surface (see refusal.go). hertz reports when a request on it begins and ends (see Start and Finish).
type connection struct {
	network.Conn
	all    *connections
	client netip.Prefix            // the client it counts for; invalid for a unix socket
	cancel context.CancelFunc      // ends the context of the connection, and so that of the current request
	abort  context.CancelCauseFunc // ends only the context of requests

	closed    atomic.Bool  // by us; what netpoll still has of it must not be read
	asked     atomic.Bool  // a request has arrived on it
	handling  atomic.Bool  // a handler runs, or its answer is being sent; otherwise the connection waits for a request or reads one
	answering atomic.Bool  // the handler has returned: the client may have its answer and send the next request
	since     atomic.Int64 // when it started to wait or read, in Unix nanoseconds
	consumed  atomic.Int64 // bytes of the request being read that hertz has consumed
	answers   *Budget      // the budget that the answer being sent holds room of; nil for none
	room      int64        // in bytes
	admitted  *admission   // left by the current request once its answer has been sent; nil for none

	// What follows belongs to the goroutine that serves the connection.
	rc       *app.RequestContext
	request  Request
	response Response
	chunk    chunkLine
	surface  codec.Format // of the request being read, once known
	version  bool         // the request line names a version other than HTTP/1.1 and HTTP/1.0
	fault    string       // the fault in the head or the trailers of the request being read; "" for none
	refused  bool
	inHead   bool // hertz is reading the head of a request
	lines    int  // bytes of it that judgeLines has checked

	watch *watch // nil on netpoll, which itself reports when a client has left
}

type connectionKey struct{}

// connectionOf returns the connection of a request.
func connectionOf(ctx context.Context) *connection {
	conn, _ := ctx.Value(connectionKey{}).(*connection)
	return conn
}

// forHertz returns the connection that hertz reads and writes.
func (c *connection) forHertz() network.Conn {
	if c.watch == nil {
		return c
	}
	return &blockingConnection{c}
}

// close ends the connection. It cancels the current request first: netpoll only really closes a connection, and stops
// reading from it, when its handler has returned.
func (c *connection) close() {
	c.closed.Store(true)
	c.cancel()
	_ = c.Close()
}

// closeWrite ends our side: the client sees the end of the answer and may go on sending. Only the goroutine that serves
// the connection may call it; while that runs, netpoll keeps the file open.
func (c *connection) closeWrite() {
	if c.watch != nil {
		_ = c.watch.socket.CloseWrite()
		return
	}
	closeWritePolled(c.Conn)
}

// held returns how much memory the client's bytes take that no handler has asked for yet.
func (c *connection) held() int64 {
	var waiting int64
	if c.watch != nil {
		waiting = c.watch.waiting.Load()
	} else {
		waiting = int64(c.Conn.Len())
	}
	if c.handling.Load() {
		return waiting // the body counts in the byte budget
	}
	return waiting + c.consumed.Load()
}

// ahead returns how many bytes the client may send after the current request. A client that has its answer may send
// another request before we are done with this one.
func (c *connection) ahead() int64 {
	if c.answering.Load() {
		return max(readAhead, int64(c.all.limits.head)+c.all.limits.body)
	}
	return readAhead
}

// HandleSpecificError keeps hertz from logging how connections end.
func (c *connection) HandleSpecificError(error, string) bool { return true }

// Peek reports a time-out the same way on both transports, so that hertz answers it as one.
func (c *connection) Peek(n int) ([]byte, error) {
	if c.closed.Load() {
		return nil, net.ErrClosed
	}
	if c.fault != "" {
		return nil, errMalformedHead
	}
	if c.chunk.last && n > c.all.limits.head {
		return nil, hertzerrors.ErrHeaderTooLarge
	}
	p, err := c.peek(n)
	if errors.Is(err, polling.ErrReadTimeout) {
		err = &net.OpError{Op: "read", Net: "tcp", Err: os.ErrDeadlineExceeded}
	}
	switch {
	case err != nil:
	case c.chunk.last:
		if err = c.judgeTrailers(); err != nil {
			return nil, err // hertz uses the bytes it gets
		}
	case c.inHead:
		if err = c.judgeLines(); err != nil {
			return nil, err
		}
	}
	if n == 1 && err == nil {
		c.chunk.peeked = p[0]
	}
	return p, err
}

// Len shows hertz only what has been judged of a head or of trailers. For trailers that is at most the limit of a head:
// hertz would read any amount, each time from the start.
func (c *connection) Len() int {
	if c.chunk.last {
		return c.chunk.judged
	}
	if c.inHead && c.lines > 0 {
		return c.lines
	}
	return c.Conn.Len()
}

// judgeLines looks for folded lines in the received part of a head. hertz unfolds them in place, and then misjudges the
// length of a head whose last line is folded.
func (c *connection) judgeLines() error {
	if c.lines == c.Conn.Len() {
		return nil
	}
	c.lines = c.Conn.Len()
	text, err := c.Conn.Peek(c.lines)
	if err != nil {
		return err
	}
	if hasFoldedLine(text) {
		c.fault = foldedLine
		return errMalformedHead
	}
	return nil
}

// errMalformedHead stops reading a request after its head; refusal says why.
var errMalformedHead = errors.New("the head is malformed")

// Skip is called by hertz for what it has parsed: the head first, then the body, then the trailers.
func (c *connection) Skip(n int) error {
	switch {
	case c.consumed.Add(int64(n)) == int64(n):
		c.inHead = false
		c.judgeHead(n)
	case n == 1 && c.rc.Request.Header.ContentLength() == chunkedLength:
		c.noteSurface()
		c.chunk.digit()
	}
	return c.Conn.Skip(n)
}

// chunkedLength is hertz's value for the length of a chunked body.
const chunkedLength = -1

// noteSurface saves the requested surface before hertz discards the head of a request with a malformed body.
func (c *connection) noteSurface() {
	if c.surface == codec.FormatUnknown {
		c.surface = c.surfaceAsked()
	}
}

// judgeHead notes the faults of a head of n bytes, so that nothing after it is waited for.
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
	if c.fault != "" {
		c.noteSurface()
	}
}

// judgeTrailers notes the faults of the received trailers before hertz sees them: it accepts more in them than in
// heads, and unfolds lines in place.
func (c *connection) judgeTrailers() error {
	c.chunk.judged = min(c.Conn.Len(), c.all.limits.head)
	text, err := c.Conn.Peek(c.chunk.judged)
	if err != nil {
		return err
	}
	if c.fault = malformedTrailers(text); c.fault != "" {
		return errMalformedHead
	}
	return nil
}

// checkVersion checks the request line of a head that hertz has parsed: hertz takes any other version for HTTP/1.0.
func (c *connection) checkVersion(head int) {
	text, err := c.Conn.Peek(head)
	if err != nil {
		return
	}
	line, _, _ := bytes.Cut(bytes.TrimLeft(text, "\r\n"), []byte{'\n'})
	c.version = !bytes.HasSuffix(bytes.TrimRight(line, "\r"), []byte(" HTTP/1.0"))
}

// ReadByte is how hertz reads the rest of a chunk's size line after the digits. The end of the line is held back until
// the chunk has arrived, because hertz allocates room for all of it then.
func (c *connection) ReadByte() (byte, error) {
	if c.closed.Load() {
		return 0, net.ErrClosed
	}
	b, err := c.Conn.ReadByte()
	if err != nil {
		return b, err
	}
	c.consumed.Add(1)
	size, err := c.chunk.next(b)
	if err == nil && size > 0 && size <= c.all.limits.body {
		_, err = c.Peek(int(size))
	}
	return b, err
}

// chunkLine follows hertz through the size line of a chunk: digits are peeked and skipped one by one, the rest is read
// byte by byte.
type chunkLine struct {
	peeked byte
	size   int64
	blanks int
	last   bool // the line of the last chunk has ended; trailers follow
	judged int  // bytes of the trailers
}

// mostBlanks is how many blanks may follow a chunk size; some senders pad it.
const mostBlanks = 64

var errChunkLine = errors.New("the line before a chunk does not end")

// digit consumes the peeked byte. hertz has checked that it is a digit, and stops at the sixteenth.
func (l *chunkLine) digit() {
	value, err := strconv.ParseUint(string(l.peeked), 16, 4)
	if err == nil && l.size < 1<<40 {
		l.size = l.size<<4 | int64(value)
	}
}

// next consumes a byte after the digits. At the end of the line it returns the chunk size, else 0.
func (l *chunkLine) next(b byte) (size int64, err error) {
	if b == '\n' {
		size = l.size
		*l = chunkLine{last: size == 0}
		return size, nil
	}
	if l.blanks++; l.blanks > mostBlanks {
		return 0, errChunkLine
	}
	return 0, nil
}

// peek waits for n bytes and returns them. The standard transport would allocate room for all of them before the first
// has arrived; here the room grows with what arrives.
func (c *connection) peek(n int) ([]byte, error) {
	if c.watch == nil {
		return c.Conn.Peek(n)
	}
	for step := max(firstRoom, 2*c.Conn.Len()); step < n; step = 2 * c.Conn.Len() {
		if _, err := c.Conn.Peek(step); err != nil {
			return nil, err
		}
		c.watch.waiting.Store(int64(c.Conn.Len()))
	}
	p, err := c.Conn.Peek(n)
	c.watch.waiting.Store(int64(c.Conn.Len()))
	return p, err
}

// firstRoom is how many bytes a request gets on its client's word.
const firstRoom = 64 << 10

// blockingConnection is a connection of the standard transport, on which nothing reads while a request is handled, so
// that nothing would notice its client leave. hertz calls DetectConnectionClose when a handler begins and
// AbortBlockingRead when its answer is written.
type blockingConnection struct{ *connection }

// closeWriter is a connection whose write side can be closed alone.
type closeWriter interface{ CloseWrite() error }

// watch reads while a request is handled.
type watch struct {
	socket  closeWriter
	waiting atomic.Int64 // bytes in the connection's buffer
	on      bool
	ended   chan struct{}
}

// DetectConnectionClose reads on after the current request, until the end of the connection, which cancels the request,
// or until the client has sent as much as it may send ahead. The bytes stay in the buffer for later.
func (c *blockingConnection) DetectConnectionClose() {
	_ = c.SetReadDeadline(time.Time{})
	c.watch.on, c.watch.ended = true, make(chan struct{})
	go c.await(c.watch.ended)
}

func (c *blockingConnection) await(ended chan<- struct{}) {
	defer close(ended)
	for {
		n := c.Conn.Len()
		c.watch.waiting.Store(int64(n))
		if int64(n) > c.ahead() {
			c.close()
			return
		}
		if _, err := c.Conn.Peek(n + 1); err != nil {
			var timeout net.Error
			if !errors.As(err, &timeout) || !timeout.Timeout() {
				c.cancel()
			}
			return
		}
	}
}

// AbortBlockingRead stops the reading.
func (c *blockingConnection) AbortBlockingRead() {
	if !c.watch.on {
		return
	}
	c.watch.on = false
	_ = c.SetReadDeadline(time.Unix(1, 0))
	<-c.watch.ended
}

// Release frees what was read; nothing may be reading then. If an answer was cut, hertz calls it without
// AbortBlockingRead.
func (c *blockingConnection) Release() error {
	c.AbortBlockingRead()
	return c.connection.Release()
}

// Flush applies the read timeout to writes: the standard transport has no write timeout.
func (c *blockingConnection) Flush() error {
	_ = c.SetWriteTimeout(c.all.timeout)
	return c.connection.Flush()
}
