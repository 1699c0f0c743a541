package server

import (
	"fmt"
	"net/http"
	"runtime/debug"

	"github.com/cloudwego/hertz/pkg/app"

	"github.com/mnemeproxy/mneme/codec"
)

// wholeAnswer is the size up to which an answer of a net/http handler is sent in one piece, with its length.
const wholeAnswer = 64 << 10

// responseWriter is hertz' response for a net/http handler: collected while it is small, streamed once it is flushed or
// grows. Of an answer to HEAD the body is dropped: the client would take it for the next answer.
type responseWriter struct {
	rc      *app.RequestContext
	header  http.Header
	status  int
	touched bool
	body    []byte
	stream  *streamWriter
}

func (w *responseWriter) Header() http.Header { return w.header }

func (w *responseWriter) WriteHeader(status int) {
	if !w.touched {
		w.touched, w.status = true, status
	}
}

func (w *responseWriter) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if w.rc.IsHead() {
		return len(p), nil
	}
	if w.stream == nil {
		w.body = append(w.body, p...)
		if len(w.body) < wholeAnswer {
			return len(p), nil
		}
		return len(p), w.FlushError()
	}
	if _, err := w.stream.Write(p); err != nil {
		return 0, err
	}
	return len(p), w.stream.Flush()
}

// FlushError sends what has been collected, and what comes as it comes.
func (w *responseWriter) FlushError() error {
	if w.rc.IsHead() {
		return nil
	}
	if w.stream == nil {
		w.WriteHeader(http.StatusOK)
		w.head()
		w.stream = &streamWriter{response: &w.rc.Response, conn: w.rc.GetWriter(), chunked: w.rc.Request.Header.IsHTTP11()}
		w.rc.Response.HijackWriter(w.stream)
		if _, err := w.stream.Write(w.body); err != nil {
			return err
		}
		w.body = nil
	}
	return w.stream.Flush()
}

func (w *responseWriter) head() {
	w.rc.Response.SetStatusCode(w.status)
	for name, values := range w.header {
		w.rc.Response.Header.Del(name)
		for _, value := range values {
			w.rc.Response.Header.Add(name, value)
		}
	}
	w.rc.Response.Header.SetContentType(w.header.Get("Content-Type"))
}

// end sends what is left. A handler that gave up leaves an answer that is visibly cut.
func (w *responseWriter) end(s *Server) {
	if fault := recover(); fault != nil {
		if fault != http.ErrAbortHandler { //nolint:errorlint // the very value that handlers give up with
			s.log.Error("panic in a request", "path", printable(w.rc.Path()), "panic", fmt.Sprint(fault), "stack", string(debug.Stack()))
		}
		w.rc.SetConnectionClose()
		if w.stream != nil {
			w.stream.abort()
			return
		}
		s.answerError(w.rc, codec.Chat, codec.Errorf(codec.KindInternal, "The proxy failed on this request. It is logged."), "")
		return
	}
	if w.touched && w.stream == nil {
		w.head()
		w.rc.Response.SetBodyRaw(w.body)
	}
}
