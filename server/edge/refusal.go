package edge

import (
	"bytes"
	"strconv"
	"time"

	"github.com/cloudwego/hertz/pkg/protocol/consts"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/crossing"
)

// hertz itself answers requests that it cannot read, in plain text: those over a limit, malformed, or too slow. It has
// no option to change that text, so its answer is replaced where it is written, on the connection, before any handler
// has begun.

// WriteBinary is how hertz writes heads and bodies.
func (c *connection) WriteBinary(b []byte) (int, error) {
	if c.handling.Load() || c.fault == "" && bytes.HasPrefix(b, continueLine) {
		return c.Conn.WriteBinary(b)
	}
	if c.refused || c.closed.Load() {
		return len(b), nil // the rest of hertz's own text, or its answer to a request that we have cut
	}
	c.refused = true
	_, err := c.Conn.WriteBinary(c.refusal(statusOf(b)))
	return len(b), err
}

// Flush sends a refusal and lets the client finish: it may still be sending, and closing the connection then would
// discard the answer.
func (c *connection) Flush() error {
	err := c.Conn.Flush()
	if c.refused && err == nil {
		c.linger()
	}
	return err
}

// continueLine answers "Expect: 100-continue", after which the request goes on.
var continueLine = []byte("HTTP/1.1 100 ")

// statusOf returns the status of a response head.
func statusOf(head []byte) int {
	_, rest, _ := bytes.Cut(head, []byte{' '})
	text, _, _ := bytes.Cut(rest, []byte{' '})
	status, err := strconv.Atoi(string(text))
	if err != nil {
		return consts.StatusBadRequest
	}
	return status
}

// refusal returns a whole response, in the shape of the requested surface.
func (c *connection) refusal(status int) []byte {
	if c.fault != "" {
		status = consts.StatusBadRequest
	} else if status == consts.StatusBadRequest && time.Since(time.Unix(0, c.since.Load())) >= c.all.timeout {
		status = consts.StatusRequestTimeout // hertz cannot distinguish a chunked body that does not arrive from a malformed one
	}
	e := codec.Errorf(codec.KindInvalidRequest, "This is not a request that can be read: its head or the framing of its body is malformed.")
	if c.fault != "" {
		e = malformedHead(c.fault)
	}
	switch status {
	case consts.StatusRequestEntityTooLarge:
		e = TooLarge(c.all.limits.body)
	case consts.StatusRequestHeaderFieldsTooLarge:
		e = codec.Errorf(codec.KindTooLarge, "The request's head has more bytes than this proxy reads (limits.header_bytes).")
	case consts.StatusRequestTimeout:
		e = codec.Errorf(codec.KindTimeout, "The request did not arrive within %v.", c.all.timeout)
	}
	surface := c.surface
	if surface == codec.FormatUnknown {
		surface = c.surfaceAsked()
	}
	body := crossing.ClientCodec(surface).AppendError(nil, e, &codec.AnswerOptions{})
	out := []byte("HTTP/1.1 " + strconv.Itoa(status) + " " + consts.StatusMessage(status) +
		"\r\nContent-Type: application/json\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n")
	return append(out, body...)
}

// TooLarge returns the error for a body over the limit.
func TooLarge(limit int64) *codec.Error {
	return codec.Errorf(codec.KindTooLarge, "The body has more than %d bytes, the limit of this proxy (limits.body_bytes).", limit)
}

// surfaceAsked returns the surface of a request of which hertz has read the head or nothing at all. At this point
// hertz's own request cannot be used, except for the raw target.
func (c *connection) surfaceAsked() codec.Format {
	target := c.rc.Request.Header.RequestURI()
	if len(target) <= 1 {
		head, err := c.Conn.Peek(min(c.Conn.Len(), mostOfLine))
		if err != nil {
			return codec.Chat
		}
		_, rest, _ := bytes.Cut(head, []byte{' '})
		target, _, _ = bytes.Cut(rest, []byte{' '})
	}
	path, _, _ := bytes.Cut(target, []byte{'?'})
	return c.all.surface(path)
}

// mostOfLine is how much of a request line is examined for the surface.
const mostOfLine = 64

// linger reads and discards what the client is still sending, for some time.
func (c *connection) linger() {
	c.closeWrite()
	deadline := time.Now().Add(lingerTime)
	for left := c.all.limits.body; left > 0 && time.Now().Before(deadline) && !c.closed.Load(); {
		_ = c.Conn.SetReadTimeout(time.Until(deadline))
		if _, err := c.Conn.Peek(1); err != nil {
			return
		}
		n := c.Conn.Len()
		left -= int64(n)
		if c.Conn.Skip(n) != nil || c.Conn.Release() != nil {
			return
		}
	}
}

// lingerTime is long enough for a client to notice an answer while it is sending.
const lingerTime = 5 * time.Second
