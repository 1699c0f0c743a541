package server

import (
	"bytes"
	"context"
	"fmt"
	"runtime/debug"

	"github.com/cloudwego/hertz/pkg/app"
	"github.com/cloudwego/hertz/pkg/protocol/consts"

	"github.com/mnemeproxy/mneme/codec"
)

// contain keeps a panic to the request that caused it. An answer that had begun is cut, never ended cleanly.
func (s *Server) contain(ctx context.Context, rc *app.RequestContext) {
	conn := connectionOf(ctx)
	conn.handling.Store(true)
	rc.Response.Header.Set("X-Content-Type-Options", "nosniff") // no answer is anything but what it says
	defer conn.answering.Store(true)
	if s.Draining() {
		rc.SetConnectionClose() // what comes next finds another server, or this one's successor
	}
	defer func() {
		fault := recover()
		if fault == nil {
			return
		}
		s.log.Error("panic in a request", "path", printable(rc.Path()), "panic", fmt.Sprint(fault), "stack", string(debug.Stack()))
		rc.SetConnectionClose()
		if w, ok := rc.Response.GetHijackWriter().(*streamWriter); ok {
			w.abort()
			return
		}
		s.answerError(rc, errorShape(rc), codec.Errorf(codec.KindInternal, "The proxy failed on this request. It is logged."), "")
	}()
	rc.Next(ctx)
}

// edge turns away what must not get further: requests whose framing two readers could see differently.
func (s *Server) edge(ctx context.Context, rc *app.RequestContext) {
	if connectionOf(ctx).version {
		s.turnAway(rc, codec.Errorf(codec.KindInvalidRequest, "HTTP/1.1 and HTTP/1.0 are spoken here."), consts.StatusHTTPVersionNotSupported)
		return
	}
	fault := ambiguous(rc.Request.Header.RawHeaders(), rc.Request.Header.IsHTTP11())
	switch {
	case fault != "":
	case rc.Response.StatusCode() == consts.StatusBadRequest: // set by hertz for what it has no route for
		fault = "there is no Host, or no path"
	default:
		fault = misdirected(rc)
	}
	if fault != "" {
		s.turnAway(rc, codec.Errorf(codec.KindInvalidRequest, "The request's headers are malformed: %s.", fault), consts.StatusBadRequest)
		return
	}
	if expect := rc.Request.Header.Peek("Expect"); len(expect) > 0 && !bytes.EqualFold(expect, []byte("100-continue")) {
		e := codec.Errorf(codec.KindInvalidRequest, "Nothing but 100-continue can be expected here.")
		s.turnAway(rc, e, consts.StatusExpectationFailed)
		return
	}
	if asksToClose(rc.Request.Header.Peek("Connection")) {
		rc.SetConnectionClose()
	}
	rc.Next(ctx)
}

// misdirected says what is wrong with a target that names another host than the header, or "" (RFC 9112, section 3.2.2).
func misdirected(rc *app.RequestContext) string {
	target := rc.Request.Header.RequestURI()
	if len(target) > 0 && target[0] == '/' {
		return ""
	}
	_, rest, absolute := bytes.Cut(target, []byte("://"))
	host, _, _ := bytes.Cut(rest, []byte{'/'})
	if absolute && !bytes.EqualFold(host, rc.Request.Header.Host()) {
		return "the target names another host than Host"
	}
	return ""
}

// asksToClose finds close among the options of a Connection header, in any case, where hertz looks for that very text.
func asksToClose(options []byte) bool {
	for option := range bytes.SplitSeq(options, []byte{','}) {
		if bytes.EqualFold(bytes.TrimSpace(option), []byte("close")) {
			return true
		}
	}
	return false
}

func (s *Server) turnAway(rc *app.RequestContext, e *codec.Error, status int) {
	s.answerError(rc, errorShape(rc), e, "")
	rc.Response.SetStatusCode(status)
	rc.SetConnectionClose()
	rc.Abort()
}

// ambiguous says what is wrong with a request head that hertz accepted but that another reader could frame
// differently (RFC 9112, sections 2.2, 5.2, 6.1, 6.3, 11.2), or "".
func ambiguous(head []byte, http11 bool) string {
	var lengths, encodings, hosts int
	for len(head) > 0 {
		i := bytes.IndexByte(head, '\n')
		if i < 0 {
			i = len(head) - 1
		}
		line := head[:i]
		head = head[i+1:]
		if len(line) == 0 || line[len(line)-1] != '\r' {
			return "a line does not end in CR LF"
		}
		line = line[:len(line)-1]
		if len(line) == 0 {
			continue
		}
		if line[0] == ' ' || line[0] == '\t' {
			return "a line is folded"
		}
		name, value, _ := bytes.Cut(line, []byte{':'})
		if !isToken(name) {
			return "a header has no name, or one with characters that names do not have"
		}
		switch {
		case bytes.EqualFold(name, []byte("Content-Length")):
			lengths++
		case bytes.EqualFold(name, []byte("Transfer-Encoding")):
			encodings++
			if !http11 || !bytes.EqualFold(bytes.TrimSpace(value), []byte("chunked")) {
				return "the only transfer encoding is chunked"
			}
		case bytes.EqualFold(name, []byte("Host")):
			hosts++
		}
	}
	switch {
	case lengths > 1:
		return "Content-Length occurs twice"
	case encodings > 1:
		return "Transfer-Encoding occurs twice"
	case lengths > 0 && encodings > 0:
		return "Content-Length and Transfer-Encoding occur together"
	case hosts > 1:
		return "Host occurs twice"
	}
	return ""
}

// tokenBytes are the characters of a header's name (RFC 9110, section 5.6.2).
var tokenBytes = func() (set [256]bool) {
	for _, c := range []byte("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") {
		set[c] = true
	}
	return set
}()

func isToken(name []byte) bool {
	for _, c := range name {
		if !tokenBytes[c] {
			return false
		}
	}
	return len(name) > 0
}
