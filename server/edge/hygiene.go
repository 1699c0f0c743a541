package edge

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"runtime/debug"
	"strings"

	"github.com/cloudwego/hertz/pkg/app"
	"github.com/cloudwego/hertz/pkg/protocol"
	"github.com/cloudwego/hertz/pkg/protocol/consts"

	"github.com/mnemeproxy/mneme/codec"
)

// guard returns what every request passes on the way to its handler. Its frame stays on the stack for as long as a stream
// lasts, as those of handlers do, so it leaves the work to others.
func (s *Server) guard() app.HandlerFunc {
	return func(ctx context.Context, rc *app.RequestContext) {
		conn := connectionOf(ctx)
		defer conn.settleBody()
		defer s.recoverPanics(conn)
		s.begin(conn)
		if !s.rejectAmbiguous(conn) && !s.rejectTooLarge(conn) {
			rc.Next(ctx)
		}
	}
}

func (s *Server) begin(conn *connection) {
	conn.handling.Store(true)
	conn.asked.Store(true)
	conn.rc.Response.Header.Set("X-Content-Type-Options", "nosniff") // the declared content type is always right
	if conn.body.length == 0 {
		conn.arrived()
	}
	if s.Draining() {
		conn.rc.SetConnectionClose() // the next request reaches another server, or this one's successor
	}
}

// recoverPanics, deferred, confines a panic to the request that caused it. An answer that had begun is cut, never ended
// cleanly.
func (s *Server) recoverPanics(conn *connection) {
	fault := recover()
	if fault == nil {
		return
	}
	if fault != http.ErrAbortHandler { //nolint:errorlint // the very value that net/http handlers give up with
		s.log.Error("panic in a request", "path", Printable(conn.request.Path()), "panic", fmt.Sprint(fault), "stack", string(debug.Stack()))
	}
	conn.rc.SetConnectionClose()
	if w, ok := conn.rc.Response.GetHijackWriter().(*Stream); ok {
		w.Abort()
		return
	}
	s.opts.Fail(&conn.request, &conn.response, codec.Errorf(codec.KindInternal, "The proxy failed on this request. It is logged."))
}

// rejectAmbiguous refuses a request whose framing two readers could see differently, and reports whether it did.
func (s *Server) rejectAmbiguous(conn *connection) bool {
	rc := conn.rc
	if conn.version {
		s.reject(conn, codec.Errorf(codec.KindInvalidRequest, "HTTP/1.1 and HTTP/1.0 are spoken here."), consts.StatusHTTPVersionNotSupported)
		return true
	}
	fault := conn.fault
	switch {
	case fault != "":
	case rc.Response.StatusCode() == consts.StatusBadRequest: // set by hertz for requests without a route
		fault = "there is no Host, or no path"
	default:
		fault = misdirected(rc)
	}
	if fault != "" {
		s.reject(conn, malformedHead(fault), consts.StatusBadRequest)
		return true
	}
	if expect := rc.Request.Header.Peek("Expect"); len(expect) > 0 && !bytes.EqualFold(expect, []byte("100-continue")) {
		e := codec.Errorf(codec.KindInvalidRequest, "Nothing but 100-continue can be expected here.")
		s.reject(conn, e, consts.StatusExpectationFailed)
		return true
	}
	if asksToClose(rc.Request.Header.Peek("Connection")) {
		rc.SetConnectionClose()
	}
	return false
}

// rejectTooLarge refuses a request that announces a body over the limit, and reports whether it did.
func (s *Server) rejectTooLarge(conn *connection) bool {
	if conn.body.length <= s.opts.BodyBytes {
		return false
	}
	s.reject(conn, TooLarge(s.opts.BodyBytes), consts.StatusRequestEntityTooLarge)
	return true
}

func (s *Server) reject(conn *connection, e *codec.Error, status int) {
	s.opts.Fail(&conn.request, &conn.response, e)
	conn.response.SetStatus(status)
	conn.response.CloseConnection()
	conn.rc.Abort()
}

func malformedHead(fault string) *codec.Error {
	return codec.Errorf(codec.KindInvalidRequest, "The request's headers are malformed: %s.", fault)
}

// malformedTarget returns the fault of a target that a front proxy could resolve differently from hertz, or "". Dots,
// repeated slashes and escapes of other characters are resolved before a path is looked up (RFC 3986, section 6.2.2).
func malformedTarget(target []byte) string {
	path, _, _ := bytes.Cut(target, []byte{'?'})
	switch {
	case bytes.IndexByte(target, '#') >= 0:
		return "the target has a fragment"
	case !bytes.HasPrefix(path, []byte{'/'}) && !isAbsolute(path) && string(path) != "*":
		return "the target does not begin with a slash"
	case hasEscapedSlash(path) || bytes.IndexByte(path, '\\') >= 0:
		return "the path has an escaped slash, or a backslash"
	}
	return ""
}

// isAbsolute reports whether a target names a scheme and a host (RFC 9112, section 3.2.2).
func isAbsolute(target []byte) bool {
	scheme, _, found := bytes.Cut(target, []byte("://"))
	return found && (bytes.EqualFold(scheme, []byte("http")) || bytes.EqualFold(scheme, []byte("https")))
}

func hasEscapedSlash(path []byte) bool {
	for {
		i := bytes.IndexByte(path, '%')
		if i < 0 || len(path) < i+3 {
			return false
		}
		switch string(path[i+1 : i+3]) {
		case "2f", "2F", "5c", "5C":
			return true
		}
		path = path[i+1:]
	}
}

// misdirected returns the fault of a target that names another host than the header, or "" (RFC 9112, section 3.2.2).
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

// asksToClose reports whether a Connection header has the option close, in any case; hertz looks for the exact text.
func asksToClose(options []byte) bool {
	for option := range bytes.SplitSeq(options, []byte{','}) {
		if bytes.EqualFold(trimBlanks(option), []byte("close")) {
			return true
		}
	}
	return false
}

// ambiguous returns the fault of a request head that hertz accepted but another reader could frame differently (RFC
// 9112, sections 2.2, 5.2, 6.1, 6.3, 11.2), or "". Two credentials are ambiguous too.
func ambiguous(head []byte, http11 bool, single []string) string {
	var lengths, encodings int
	var seen uint64 // those of single
	for len(head) > 0 {
		name, value, rest, fault := nextField(head)
		if fault != "" {
			return fault
		}
		head = rest
		switch {
		case len(name) == 0: // the end
		case bytes.EqualFold(name, []byte("Content-Length")):
			lengths++
		case bytes.EqualFold(name, []byte("Transfer-Encoding")):
			encodings++
			if !http11 || !bytes.EqualFold(trimBlanks(value), []byte("chunked")) {
				return "the only transfer encoding is chunked"
			}
		default:
			for i, one := range single {
				if len(one) != len(name) || !strings.EqualFold(one, string(name)) {
					continue
				}
				if seen&(1<<i) != 0 {
					return one + " occurs twice"
				}
				seen |= 1 << i
			}
		}
	}
	switch {
	case lengths > 1:
		return "Content-Length occurs twice"
	case encodings > 1:
		return "Transfer-Encoding occurs twice"
	case lengths > 0 && encodings > 0:
		return "Content-Length and Transfer-Encoding occur together"
	}
	return ""
}

// malformedTrailer returns the fault of a line behind the last chunk of a body, or "" (RFC 9112, section 7.1.2).
func malformedTrailer(line []byte) string {
	name, value, _, fault := nextField(line)
	switch {
	case fault != "":
		return fault
	case len(name) == 0: // the end
		return ""
	case name[0] == '0':
		return "a trailer has a name that begins with a zero" // some readers take it for another chunk
	case protocol.IsBadTrailer(name):
		return "a trailer has a name that belongs into the head"
	case bytes.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
		return "a trailer has a control character"
	}
	return ""
}

const foldedLine = "a line is folded"

// hasFoldedLine reports whether a line of a head begins with a blank, in the part that has arrived.
func hasFoldedLine(text []byte) bool {
	text = bytes.TrimLeft(text, "\r\n") // allowed before a request line
	for {
		end := bytes.IndexByte(text, '\n')
		if end < 0 || end+1 == len(text) {
			return false
		}
		text = text[end+1:]
		switch text[0] {
		case ' ', '\t':
			return true
		case '\r', '\n': // the end
			return false
		}
	}
}

// nextField splits off the first line of a head or of trailers. The empty line at the end has no name.
func nextField(text []byte) (name, value, rest []byte, fault string) {
	line, rest, ended := bytes.Cut(text, []byte{'\n'})
	if !ended || len(line) == 0 || line[len(line)-1] != '\r' {
		return nil, nil, nil, "a line does not end in CR LF"
	}
	line = line[:len(line)-1]
	if len(line) == 0 {
		return nil, nil, rest, ""
	}
	if line[0] == ' ' || line[0] == '\t' {
		return nil, nil, nil, foldedLine
	}
	name, value, found := bytes.Cut(line, []byte{':'})
	if !found || !isToken(name) {
		return nil, nil, nil, "a header has no name, or one with characters that names do not have"
	}
	return name, value, rest, ""
}

// trimBlanks removes spaces and tabs around a value; no other white space is allowed there (RFC 9110, section 5.6.3).
func trimBlanks(value []byte) []byte { return bytes.Trim(value, " \t") }

// tokenBytes are the characters of a header name (RFC 9110, section 5.6.2).
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
