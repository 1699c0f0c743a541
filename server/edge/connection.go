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

// connection is one client's connection, between hertz and its transport. It counts what a request takes while it is
// being read, lets memory grow with what has come and not with what a client announces, and gives the answers that
// hertz gives by itself the shape of the surface (see refusal.go). hertz tells when a request on it begins and ends
// (see Start and Finish).
type connection struct {
	network.Conn
	all    *connections
	client netip.Prefix            // whom it counts for; invalid for a unix socket
	cancel context.CancelFunc      // ends the context of the connection, and with it that of the request being handled
	abort  context.CancelCauseFunc // ends the context of requests alone

	closed    atomic.Bool  // by us; what netpoll still has of it is not to be read
	asked     atomic.Bool  // a request has come on it
	handling  atomic.Bool  // a handler runs, or its answer is being sent; otherwise the connection waits for a request or reads one
	answering atomic.Bool  // the handler has returned: the client may have its answer, and send the next request
	since     atomic.Int64 // when it began to wait or to read, in Unix nanoseconds
	consumed  atomic.Int64 // bytes of the request being read that hertz has taken out of the buffer
	answers   *Budget      // of which the answer being sent takes room; nil for none
	room      int64        // in bytes
	admitted  *admission   // which the request being handled leaves once its answer has been sent; nil for none

	// What follows belongs to the goroutine that serves the connection.
	rc       *app.RequestContext
	request  Request
	response Response
	chunk    chunkLine
	surface  codec.Format // of the request being read, once that is known
	version  bool         // the request line names another version than HTTP/1.1 and HTTP/1.0
	fault    string       // what is wrong with the head, or the trailers, of the request being read; "" for nothing
	refused  bool
	inHead   bool // hertz reads the head of a request
	lines    int  // bytes of it that judgeLines has seen

	watch *watch // nil on netpoll, which tells by itself when a client has left
}

type connectionKey struct{}

// connectionOf is the connection that a request came on.
func connectionOf(ctx context.Context) *connection {
	conn, _ := ctx.Value(connectionKey{}).(*connection)
	return conn
}

// forHertz is what hertz reads and writes.
func (c *connection) forHertz() network.Conn {
	if c.watch == nil {
		return c
	}
	return &blockingConnection{c}
}

// close ends the connection. The request that is being handled is cancelled first: netpoll closes a connection for
// good, and stops reading from it, only when its handler has returned.
func (c *connection) close() {
	c.closed.Store(true)
	c.cancel()
	_ = c.Close()
}

// closeWrite ends our side: the client sees the end of what is sent to it, and may go on sending. It is for the
// goroutine that serves the connection, while which runs netpoll keeps the file open.
func (c *connection) closeWrite() {
	if c.watch != nil {
		_ = c.watch.socket.CloseWrite()
		return
	}
	closeWritePolled(c.Conn)
}

// held is how much memory the client's bytes take that no handler has asked for yet.
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

// ahead is how much the client may send, in bytes, after the request that is being handled. The client that has its answer
// may come with another request before we are done with this one.
func (c *connection) ahead() int64 {
	if c.answering.Load() {
		return max(readAhead, int64(c.all.limits.head)+c.all.limits.body)
	}
	return readAhead
}

// HandleSpecificError keeps hertz from logging how connections end.
func (c *connection) HandleSpecificError(error, string) bool { return true }

// Peek tells of a time-out in the same way on both transports, so that hertz answers it as one.
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
			return nil, err // hertz looks on at what it is given
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

// Len shows hertz no more of a head and of trailers than has been judged. Of trailers that is no more than a head may have:
// it would otherwise read any amount, each time from the start.
func (c *connection) Len() int {
	if c.chunk.last {
		return c.chunk.judged
	}
	if c.inHead && c.lines > 0 {
		return c.lines
	}
	return c.Conn.Len()
}

// judgeLines looks for folded lines in what has come of a head. hertz unfolds them where they stand, and then takes the
// head of a request whose last line is folded for shorter than it was.
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

// errMalformedHead ends the reading of a request after its head; refusal says why.
var errMalformedHead = errors.New("the head is malformed")

// Skip is called by hertz for what it has parsed: first the head, then the body, the trailers last.
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

// chunkedLength is what hertz calls the length of a body in chunks.
const chunkedLength = -1

// noteSurface keeps the surface that was asked, before hertz forgets the head of a request whose body is malformed.
func (c *connection) noteSurface() {
	if c.surface == codec.FormatUnknown {
		c.surface = c.surfaceAsked()
	}
}

// judgeHead notes what is wrong with a head of n bytes, so that nothing after it is waited for.
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

// judgeTrailers notes what is wrong with the trailers that have come, before hertz sees them: it takes more of them than
// of heads, and unfolds lines where they stand.
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

// checkVersion looks at the request line of a head that hertz is done with, and takes for HTTP/1.0 whatever version it
// names.
func (c *connection) checkVersion(head int) {
	text, err := c.Conn.Peek(head)
	if err != nil {
		return
	}
	line, _, _ := bytes.Cut(bytes.TrimLeft(text, "\r\n"), []byte{'\n'})
	c.version = !bytes.HasSuffix(bytes.TrimRight(line, "\r"), []byte(" HTTP/1.0"))
}

// ReadByte is what hertz reads the rest of the line before a chunk with, after the digits. The end of the line is held
// back until the chunk has come: hertz makes room for the whole of it then.
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

// chunkLine follows hertz through the line before a chunk: digits are peeked and skipped one by one, the rest is read
// byte by byte.
type chunkLine struct {
	peeked byte
	size   int64
	blanks int
	last   bool // the line of the last chunk has ended; trailers follow
	judged int  // bytes of the trailers
}

// mostBlanks is how many blanks may follow a size; some senders pad it.
const mostBlanks = 64

var errChunkLine = errors.New("the line before a chunk does not end")

// digit takes the byte that was peeked. hertz has seen that it is one, and stops at the sixteenth.
func (l *chunkLine) digit() {
	value, err := strconv.ParseUint(string(l.peeked), 16, 4)
	if err == nil && l.size < 1<<40 {
		l.size = l.size<<4 | int64(value)
	}
}

// next takes a byte after the digits. At the end of the line it gives the size of the chunk, else 0.
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

// peek gives bytes that have come, waiting for as many. On the standard transport room for all of them would be made
// before the first has come; there it grows with what comes.
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

// firstRoom is how much room a request gets on its client's word.
const firstRoom = 64 << 10

// blockingConnection is a connection of the standard transport, where nobody reads while a request is handled, so that
// nobody would see its client leave. hertz calls DetectConnectionClose when a handler begins and AbortBlockingRead when
// its answer is written.
type blockingConnection struct{ *connection }

// closeWriter is a connection of which one direction can be ended.
type closeWriter interface{ CloseWrite() error }

// watch is what reads while a request is handled.
type watch struct {
	socket  closeWriter
	waiting atomic.Int64 // bytes in the connection's buffer
	on      bool
	ended   chan struct{}
}

// DetectConnectionClose reads on after the request that is being handled, to the end of the connection, which cancels
// the request, or until there is more than a client may send ahead. What is read stays in the buffer for later.
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

// AbortBlockingRead ends the reading.
func (c *blockingConnection) AbortBlockingRead() {
	if !c.watch.on {
		return
	}
	c.watch.on = false
	_ = c.SetReadDeadline(time.Unix(1, 0))
	<-c.watch.ended
}

// Release frees what was read; nobody may be reading then. hertz comes here without AbortBlockingRead where an answer
// was cut.
func (c *blockingConnection) Release() error {
	c.AbortBlockingRead()
	return c.connection.Release()
}

// Flush gives the client as long as a read gives it: the standard transport knows no time-out for writing.
func (c *blockingConnection) Flush() error {
	_ = c.SetWriteTimeout(c.all.timeout)
	return c.connection.Flush()
}
