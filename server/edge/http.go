package edge

import (
	"bytes"
	"context"
	"net/http"
	"net/url"
)

// RequestOf returns the request of a net/http handler under [ServeHTTP].
func RequestOf(ctx context.Context) *Request { return &connectionOf(ctx).request }

// ResponseOf returns the response of a net/http handler under [ServeHTTP].
func ResponseOf(ctx context.Context) *Response { return &connectionOf(ctx).response }

// ServeHTTP runs a net/http handler.
func ServeHTTP(ctx context.Context, in *Request, out *Response, handler http.Handler) {
	r := in.asHTTP()
	r.URL = &url.URL{Path: in.Path(), RawQuery: in.Query()}
	if body := in.Body(); len(body) > 0 {
		r.ContentLength, r.Body = int64(len(body)), readCloser{bytes.NewReader(body)}
	}
	w := &responseWriter{out: out, head: in.rc.IsHead(), header: make(http.Header), status: http.StatusOK}
	handler.ServeHTTP(w, r.WithContext(ctx))
	w.end()
}

type readCloser struct{ *bytes.Reader }

func (readCloser) Close() error { return nil }

// completeAnswer is the size up to which an answer of a net/http handler is sent in one piece, with its length.
const completeAnswer = 64 << 10

// responseWriter is the response for a net/http handler: buffered while it is small, streamed once it is flushed or
// grows. The body of an answer to HEAD is dropped, because the client would read it as the next answer. If the handler
// panics, the answer is visibly cut, see recoverPanics.
type responseWriter struct {
	out     *Response
	head    bool // the request's method is HEAD
	header  http.Header
	status  int
	touched bool
	body    []byte
	stream  *Stream
}

func (w *responseWriter) Header() http.Header { return w.header }

func (w *responseWriter) WriteHeader(status int) {
	if !w.touched {
		w.touched, w.status = true, status
	}
}

func (w *responseWriter) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if w.head {
		return len(p), nil
	}
	if w.stream == nil {
		w.body = append(w.body, p...)
		if len(w.body) < completeAnswer {
			return len(p), nil
		}
		return len(p), w.FlushError()
	}
	if _, err := w.stream.Write(p); err != nil {
		return 0, err
	}
	return len(p), w.stream.Flush()
}

// FlushError sends what is buffered, and streams the rest.
func (w *responseWriter) FlushError() error {
	if w.head {
		return nil
	}
	if w.stream == nil {
		w.WriteHeader(http.StatusOK)
		w.setHead()
		w.stream = w.out.Stream()
		if _, err := w.stream.Write(w.body); err != nil {
			return err
		}
		w.body = nil
	}
	return w.stream.Flush()
}

func (w *responseWriter) setHead() {
	w.out.SetStatus(w.status)
	for name, values := range w.header {
		w.out.Del(name)
		for _, value := range values {
			w.out.Add(name, value)
		}
	}
	w.out.SetContentType(w.header.Get("Content-Type"))
}

// end sends what is left.
func (w *responseWriter) end() {
	if w.touched && w.stream == nil {
		w.setHead()
		w.out.SetBody(w.body)
	}
}
