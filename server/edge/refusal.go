package edge

import (
	"bytes"
	"strconv"

	"github.com/cloudwego/hertz/pkg/protocol/consts"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/crossing"
)

// hertz itself answers requests that it cannot read, in plain text: those over a limit, malformed, or too slow. It has
// no option to change that text, so its answer is replaced where it is written, on the connection, before any handler
// has begun.

// WriteBinary is how hertz writes heads and bodies.
func (c *connection) WriteBinary(b []byte) (int, error) {
	if c.handling.Load() {
		return c.wire.WriteBinary(b)
	}
	if c.refused || c.closed.Load() {
		return len(b), nil // the rest of hertz's own text, or its answer to a request that we have cut
	}
	c.refused, c.lingers = true, true
	_, err := c.wire.WriteBinary(c.refusal(statusOf(b)))
	return len(b), err
}

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

// refusal returns a whole response, in the shape of the requested surface, for a request whose head cannot be read.
func (c *connection) refusal(status int) []byte {
	e := errMalformed
	switch {
	case c.fault != "":
		status, e = consts.StatusBadRequest, malformedHead(c.fault)
	case c.full:
		status, e = consts.StatusServiceUnavailable, ErrNoMemory
	case status == consts.StatusRequestHeaderFieldsTooLarge:
		e = errHeadTooLarge
	case status == consts.StatusRequestTimeout:
		e = c.tooSlow()
	}
	body := crossing.ClientCodec(c.surfaceAsked()).AppendError(nil, e, &codec.AnswerOptions{})
	out := []byte("HTTP/1.1 " + strconv.Itoa(status) + " " + consts.StatusMessage(status) +
		"\r\nContent-Type: application/json\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n")
	if e.RetryAfter > 0 {
		out = append(out, "Retry-After: "+strconv.Itoa(wholeSeconds(e.RetryAfter))+"\r\n"...)
	}
	out = append(out, "Content-Length: "+strconv.Itoa(len(body))+"\r\n\r\n"...)
	return append(out, body...)
}

// tooSlow returns the error for a request that has not arrived in time.
func (c *connection) tooSlow() *codec.Error {
	return codec.Errorf(codec.KindTimeout, "The request did not arrive within %v.", c.all.timeout)
}

// surfaceAsked returns the surface of a request whose head cannot be read, at least not to its end.
func (c *connection) surfaceAsked() codec.Format {
	target := c.rc.Request.Header.RequestURI()
	if len(target) <= 1 {
		head, err := c.wire.Peek(min(c.Len(), mostOfLine))
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
