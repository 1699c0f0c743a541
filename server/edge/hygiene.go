package edge

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"runtime/debug"

	"github.com/cloudwego/hertz/pkg/app"
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

// asksToClose reports whether a Connection header has the option close, in any case; hertz looks for the exact text.
func asksToClose(options []byte) bool {
	for option := range bytes.SplitSeq(options, []byte{','}) {
		if bytes.EqualFold(trimBlanks(option), []byte("close")) {
			return true
		}
	}
	return false
}

// limitConcurrency counts a request for the limit and the drain, or refuses it, and reports whether it did: new ones are
// refused during the drain. A request counts until its answer has been sent, not only until its handler returns.
func (s *Server) limitConcurrency(conn *connection) bool {
	refused := s.admission.enter()
	if refused == nil {
		conn.admitted = &s.admission
		return false
	}
	s.opts.Fail(&conn.request, &conn.response, refused)
	if refused == ErrDraining {
		conn.response.CloseConnection()
	}
	return true
}
