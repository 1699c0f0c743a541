package bench

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httputil"
	"strconv"
	"time"

	"github.com/mnemeproxy/mneme/bench/provider"
	"github.com/mnemeproxy/mneme/codec/sse"
)

// timeout bounds one exchange of the load: a target that hangs is an error, not the end of the run.
const timeout = 60 * time.Second

// connection is one client: it sends requests one after the other on one HTTP/1.1 connection, which is redialled if it
// breaks. It uses no HTTP library, because load and target share the processors.
type connection struct {
	address  string
	lane     *lane
	request  *request
	want     *saying
	conn     net.Conn
	in       *bufio.Reader
	splitter *sse.Splitter
	frame    sse.Frame
	said     saying
	body     bytes.Buffer
}

func newConnection(address string, l *lane, r *request, want *saying) *connection {
	size := 16 << 10
	if l.connections > 1000 {
		size = 4 << 10
	}
	c := &connection{address: address, lane: l, request: r.copy(), want: want, in: bufio.NewReaderSize(nil, size)}
	if l.stream {
		c.splitter = sse.NewSplitter(size, sse.MaxFrame)
	}
	return c
}

func (c *connection) close() {
	if c.conn != nil {
		_ = c.conn.Close()
		c.conn = nil
	}
}

// A reply is the outcome of one request.
type reply struct {
	sent   time.Time
	first  time.Time // first event of a stream, first byte of the body otherwise
	done   time.Time
	events int
}

var (
	errTruncated = errors.New("the answer ended before its end")
	errWrong     = errors.New("the answer differs from the provider's")
	errLeft      = errors.New("disconnected on purpose")
)

// do sends one request and reads the answer. delayed is called with the latency of each stamped event.
func (c *connection) do(ctx context.Context, seed, n int, delayed func(time.Duration)) (r reply, err error) {
	defer func() {
		if err != nil {
			c.close()
		}
	}()
	if c.conn == nil {
		var dialer net.Dialer
		if c.conn, err = dialer.DialContext(ctx, "tcp", c.address); err != nil {
			return r, err
		}
		c.in.Reset(c.conn)
	}
	if err := c.conn.SetDeadline(time.Now().Add(timeout + time.Duration(c.lane.events)*c.lane.gap)); err != nil {
		return r, err
	}
	r.sent = time.Now()
	if _, err := c.conn.Write(c.request.number(seed, n)); err != nil {
		return r, err
	}
	head, err := readHead(c.in)
	if err != nil {
		return r, err
	}
	body := c.bodyOf(head)
	c.said.reset()
	if c.lane.stream && head.status == 200 {
		err = c.readStream(body, &r, delayed)
	} else {
		err = c.readWhole(body, &r)
	}
	r.done = time.Now()
	r.events = c.said.deltas
	switch {
	case errors.Is(err, errLeft):
		c.close()
		return r, nil
	case head.status != 200:
		return r, fmt.Errorf("HTTP %d: %.300s", head.status, c.body.Bytes())
	case err != nil:
		return r, fmt.Errorf("%w: %w", errTruncated, err)
	case !c.said.ended:
		return r, errTruncated
	case c.want != nil && !c.said.matches(c.want, c.lane):
		return r, errWrong
	}
	if head.close {
		c.close()
	}
	return r, nil
}

func (c *connection) readStream(body io.Reader, r *reply, delayed func(time.Duration)) error {
	c.splitter.Reset()
	for {
		_, err := c.splitter.Read(body)
		at := time.Now()
		for c.splitter.Next(&c.frame) {
			if r.first.IsZero() {
				r.first = at
			}
			c.said.frame(c.lane.surface, &c.frame)
			if c.lane.stamped() {
				if sent, _, ok := provider.ReadStamp(c.frame.Data); ok {
					delayed(at.Sub(sent))
				}
			}
		}
		if leave := c.lane.leaveAfter; leave > 0 && c.said.deltas >= leave {
			return errLeft
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (c *connection) readWhole(body io.Reader, r *reply) error {
	c.body.Reset()
	_, err := c.body.ReadFrom(io.LimitReader(body, maxWhole))
	r.first = time.Now()
	c.said.whole(c.lane.surface, c.body.Bytes())
	return err
}

// maxWhole is larger than any complete answer of the lanes.
const maxWhole = 8 << 20

// A head has the parts of a response's head that the load needs.
type head struct {
	status  int
	length  int64 // -1: chunked, or until the connection ends
	chunked bool
	close   bool
}

func readHead(in *bufio.Reader) (h head, err error) {
	h.length = -1
	line, err := in.ReadSlice('\n')
	if err != nil {
		return h, err
	}
	if len(line) < len("HTTP/1.1 200") {
		return h, fmt.Errorf("no HTTP status line: %.40q", line)
	}
	if h.status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return h, fmt.Errorf("no HTTP status line: %.40q", line)
	}
	for {
		line, err = in.ReadSlice('\n')
		if err != nil {
			return h, err
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			return h, nil
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimSpace(value)
		switch {
		case bytes.EqualFold(name, []byte("Content-Length")):
			if h.length, err = strconv.ParseInt(string(value), 10, 64); err != nil {
				return h, err
			}
		case bytes.EqualFold(name, []byte("Transfer-Encoding")):
			h.chunked = bytes.EqualFold(value, []byte("chunked"))
		case bytes.EqualFold(name, []byte("Connection")):
			h.close = bytes.EqualFold(value, []byte("close"))
		}
	}
}

func (c *connection) bodyOf(h head) io.Reader {
	switch {
	case h.chunked:
		return &chunkedBody{in: c.in, chunks: httputil.NewChunkedReader(c.in)}
	case h.length >= 0:
		return &sizedBody{in: c.in, left: h.length}
	default:
		return c.in
	}
}

// chunkedBody also consumes the empty line after the last chunk, which the library's reader leaves unread.
type chunkedBody struct {
	in     *bufio.Reader
	chunks io.Reader
}

func (b *chunkedBody) Read(p []byte) (int, error) {
	n, err := b.chunks.Read(p)
	if errors.Is(err, io.EOF) {
		if line, short := b.in.ReadSlice('\n'); short != nil || len(bytes.TrimSpace(line)) > 0 {
			return n, io.ErrUnexpectedEOF
		}
	}
	return n, err
}

// sizedBody returns io.ErrUnexpectedEOF if the connection ends before all announced bytes have arrived.
type sizedBody struct {
	in   io.Reader
	left int64
}

func (b *sizedBody) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, io.EOF
	}
	n, err := b.in.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	if errors.Is(err, io.EOF) && b.left > 0 {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}
