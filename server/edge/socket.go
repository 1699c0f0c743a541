package edge

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/sse"
)

// Socket is a WebSocket (RFC 6455) on the connection of the request that asked for it. Messages are read by one goroutine;
// any may send.
type Socket struct {
	in   *Request
	conn *socketConn
	ws   *websocket.Conn

	mu sync.Mutex // held to send a message
}

// WantsSocket reports whether the client asks to go on in the WebSocket protocol.
func (r *Request) WantsSocket() bool {
	return slices.ContainsFunc(strings.Split(r.Header("Upgrade"), ","), func(protocol string) bool {
		return strings.EqualFold(strings.TrimSpace(protocol), "websocket")
	})
}

// Sizes of a socket's own buffers. What is larger is not copied.
const (
	socketReads  = pieceSize
	socketWrites = 1 << 10
)

// Upgrade accepts the client's handshake, or returns the error to answer it with. The socket is open until the handler
// calls [Socket.End], which it must before it returns.
func (s *Server) Upgrade(in *Request, out *Response) (*Socket, *codec.Error) {
	in.conn.ahead.forbid(in.conn) // the socket reads
	k := &Socket{in: in, conn: &socketConn{connection: in.conn}}
	refused, err := k.handshake(in.asHTTP())
	if refused != "" {
		return nil, codec.Errorf(codec.KindInvalidRequest, "This is not a WebSocket handshake: %s", strings.TrimPrefix(refused, "websocket: "))
	}
	out.Stream().Abort() // the connection ends with the handler
	if err == nil {
		err = k.conn.flush()
	}
	if err != nil {
		in.conn.close()
		return nil, codec.Errorf(codec.KindInvalidRequest, "The client has left.")
	}
	k.ws.SetPingHandler(func(data string) error {
		_ = k.ws.WriteControl(websocket.PongMessage, []byte(data), time.Time{})
		return k.conn.flush()
	})
	k.ws.SetCloseHandler(func(int, string) error { return nil }) // Close answers it
	return k, nil
}

// handshake answers a client's, or says what is wrong with it.
func (k *Socket) handshake(r *http.Request) (refused string, err error) {
	upgrader := websocket.Upgrader{
		ReadBufferSize: socketReads, WriteBufferSize: socketWrites, EnableCompression: true,
		CheckOrigin: func(*http.Request) bool { return true }, // a page cannot send the header that authenticates
		Error:       func(_ http.ResponseWriter, _ *http.Request, _ int, reason error) { refused = reason.Error() },
	}
	k.ws, err = upgrader.Upgrade(hijacked{k.conn}, r, nil)
	return refused, err
}

// socketIdle is how long a client may send nothing, not even a ping.
const socketIdle = time.Hour

// ErrSocketEnded means that the client has left, or has broken the protocol.
var ErrSocketEnded = errors.New("the socket has ended")

// Read returns the next message. Its memory is taken from a share as it arrives. An error that is a [*codec.Error] is
// about the message alone; any other means that there are no more.
func (k *Socket) Read(s *Share) ([]byte, error) {
	if err := k.conn.limitRead(socketIdle); err != nil {
		return nil, err
	}
	kind, from, err := k.ws.NextReader()
	if err != nil {
		return nil, errors.Join(ErrSocketEnded, err)
	}
	if err := k.conn.limitRead(k.conn.all.timeout); err != nil {
		return nil, err
	}
	if kind != websocket.TextMessage {
		return nil, codec.Errorf(codec.KindInvalidRequest, "Messages are text here: this one is binary.")
	}
	message, err := ReadAll(s, messageReader{from}, -1, k.conn.all.limits.body)
	if known := new(codec.Error); err == nil || errors.As(err, &known) {
		return message, err
	}
	return nil, errors.Join(ErrSocketEnded, err)
}

// messageReader tells the end of a message from that of the connection.
type messageReader struct{ from io.Reader }

func (r messageReader) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return n, ErrSocketEnded
	}
	return n, err
}

// compressFrom is the size from which a message is compressed, if the client reads that: less is not worth the work.
const compressFrom = 4 << 10

// Send sends messages, together.
func (k *Socket) Send(messages ...[]byte) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, message := range messages {
		if err := k.write(message); err != nil {
			return err
		}
	}
	return k.conn.flush()
}

func (k *Socket) write(message []byte) error {
	if len(message) < compressFrom {
		return k.conn.writeText(message)
	}
	k.ws.EnableWriteCompression(true)
	return k.ws.WriteMessage(websocket.TextMessage, message)
}

// Codes for [Socket.Close].
const (
	CloseNormal  = websocket.CloseNormalClosure
	CloseGoAway  = websocket.CloseGoingAway
	CloseByFault = websocket.CloseInternalServerErr
)

// farewellTime is how long a client that takes nothing delays the end of its socket.
const farewellTime = time.Second

// Close says goodbye, and ends Read. The connection ends when the handler returns.
func (k *Socket) Close(code int) {
	k.conn.interrupt()
	_ = k.conn.Conn.SetWriteDeadline(time.Now().Add(farewellTime))
	_ = k.ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, ""), time.Time{})
	_ = k.conn.flushLast()
}

// End closes the socket for its handler, which returns then.
func (k *Socket) End(code int) {
	k.Close(code)
	k.conn.lingers = true // an end at once could discard what has been sent
}

// Do returns a request of a message on the socket, with the headers of its handshake. Events that it is answered with go to
// hear, and then to the client.
func (k *Socket) Do(message []byte, hear func(*sse.Frame) (event []byte)) *Detached {
	events := &socketEvents{socket: k, hear: hear}
	d := k.in.detach(events)
	n := int64(len(message))
	d.conn.body = body{conn: &d.conn, length: n, received: n, content: message, err: io.EOF}
	return d
}

// socketEvents takes a streamed answer, and sends each of its events as a message.
type socketEvents struct {
	socket  *Socket
	hear    func(*sse.Frame) []byte
	pending []byte
	frames  sse.Splitter
	frame   sse.Frame
}

// Malloc implements hertz's writer, as the next two do.
func (e *socketEvents) Malloc(n int) ([]byte, error) {
	from := len(e.pending)
	e.pending = slices.Grow(e.pending, n)[:from+n]
	return e.pending[from:], nil
}

// WriteBinary adds bytes. Whole events, as nearly all are, are not copied.
func (e *socketEvents) WriteBinary(p []byte) (int, error) {
	if len(e.pending) == 0 && bytes.HasSuffix(p, []byte("\n\n")) {
		return len(p), e.write(p)
	}
	e.pending = append(e.pending, p...)
	return len(p), nil
}

// Flush sends what has been written, which is whole events.
func (e *socketEvents) Flush() error {
	if len(e.pending) > 0 {
		if err := e.write(e.pending); err != nil {
			return err
		}
		if e.pending = e.pending[:0]; cap(e.pending) > mostPending {
			e.pending = nil
		}
	}
	return e.socket.conn.flush()
}

// write writes whole events as messages.
func (e *socketEvents) write(events []byte) error {
	k := e.socket
	k.mu.Lock()
	defer k.mu.Unlock()
	for e.frames = sse.Split(events); e.frames.Next(&e.frame); {
		if e.frame.Comment {
			continue
		}
		if err := k.write(e.hear(&e.frame)); err != nil {
			return err
		}
	}
	return nil
}

// mostPending is how much memory for events is kept for the next ones.
const mostPending = 64 << 10

// socketConn is the connection for the library: what it writes is sent by flush.
type socketConn struct {
	*connection
	out         sync.Mutex
	closed      bool       // the frame that closes the socket was sent
	in          sync.Mutex // guards the deadline
	interrupted bool
}

func (c *socketConn) Write(p []byte) (int, error) {
	c.out.Lock()
	defer c.out.Unlock()
	to, err := c.wire.Malloc(len(p))
	return copy(to, p), err
}

// writeText writes a short message as one frame. It does what the library's WriteMessage does, at the cost of an event of a
// stream. The sender holds the socket's mutex, so it is not inside of a message of the library; frames in between, such as
// pongs, are whole.
func (c *socketConn) writeText(message []byte) error {
	const finalText = 0x80 | websocket.TextMessage
	var head [4]byte
	size := 2
	if head[0], head[1] = finalText, byte(len(message)); len(message) > 125 {
		head[1], size = 126, 4
		binary.BigEndian.PutUint16(head[2:], uint16(len(message)))
	}
	c.out.Lock()
	defer c.out.Unlock()
	if c.closed {
		return websocket.ErrCloseSent
	}
	to, err := c.wire.Malloc(size + len(message))
	if err != nil {
		return err
	}
	copy(to, head[:size])
	copy(to[size:], message)
	return nil
}

func (c *socketConn) flush() error {
	c.out.Lock()
	defer c.out.Unlock()
	return c.wire.Flush()
}

// flushLast sends what is written, and refuses short messages from then on, as the library refuses long ones.
func (c *socketConn) flushLast() error {
	c.out.Lock()
	defer c.out.Unlock()
	c.closed = true
	return c.wire.Flush()
}

// SetWriteDeadline and SetDeadline do nothing: deadlines are those of [connections].
func (*socketConn) SetWriteDeadline(time.Time) error { return nil }
func (*socketConn) SetDeadline(time.Time) error      { return nil }

func (c *socketConn) limitRead(most time.Duration) error {
	c.in.Lock()
	defer c.in.Unlock()
	if c.interrupted {
		return context.Canceled
	}
	return c.SetReadDeadline(time.Now().Add(most))
}

func (c *socketConn) interrupt() {
	c.in.Lock()
	defer c.in.Unlock()
	c.interrupted = true
	_ = c.SetReadDeadline(time.Unix(1, 0))
}

// hijacked is the response for the library's handshake.
type hijacked struct{ conn *socketConn }

func (hijacked) Header() http.Header         { return make(http.Header) }
func (hijacked) Write(p []byte) (int, error) { return len(p), nil }
func (hijacked) WriteHeader(int)             {}

func (h hijacked) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return h.conn, bufio.NewReadWriter(bufio.NewReaderSize(h.conn, 0), bufio.NewWriterSize(h.conn, 0)), nil
}
