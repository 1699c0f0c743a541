package edge

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// RequestOf returns the request of a net/http handler under [ServeHTTP].
func RequestOf(ctx context.Context) *Request { return &connectionOf(ctx).request }

// ResponseOf returns the response of a net/http handler under [ServeHTTP].
func ResponseOf(ctx context.Context) *Response { return &connectionOf(ctx).response }

// ServeHTTP runs a net/http handler. What it reads of the body is taken from a share.
func ServeHTTP(ctx context.Context, in *Request, out *Response, handler http.Handler, s *Share) {
	r := in.asHTTP()
	r.URL = &url.URL{Path: in.Path(), RawQuery: in.Query()}
	if length := in.conn.body.length; length != 0 {
		in.conn.body.charged = &chargedBody{body: &in.conn.body, share: s, returned: time.Now()}
		r.ContentLength, r.Body = length, in.conn.body.charged
	}
	w := &responseWriter{out: out, head: in.rc.IsHead(), header: make(http.Header), status: http.StatusOK}
	handler.ServeHTTP(w, r.WithContext(ctx))
	w.end()
}

// chargedBody is the body for a net/http handler. What the handler reads it may keep, and it makes more of it: JSON that
// is decoded takes several times its bytes.
type chargedBody struct {
	*body
	share    *Share
	read     int64 // since the last call of forget
	kept     int64 // the most that was read between two calls of it: the handler may keep a buffer of that size
	returned time.Time
}

// decodedCost is what a handler holds for each byte that it has read.
const decodedCost = 4

// Read reads from the client. The time that the handler takes between two calls does not count as the client's.
func (b *chargedBody) Read(p []byte) (int, error) {
	b.conn.endTime()
	b.conn.since.Add(int64(time.Since(b.returned)))
	n, err := b.body.Read(p)
	b.returned = time.Now()
	b.read += int64(n)
	if full := b.charge(); full != nil {
		b.status = http.StatusServiceUnavailable
		return 0, b.end(full)
	}
	return n, err
}

func (b *chargedBody) charge() error {
	return b.share.Take(decodedCost*b.read + b.kept - b.share.Taken())
}

// Close implements [io.Closer].
func (*chargedBody) Close() error { return nil }

// ForgetBody says that the handler no longer holds what it has read of the body.
func (r *Request) ForgetBody() {
	if b := r.conn.body.charged; b != nil {
		b.kept, b.read = max(b.kept, b.read), 0
		_ = b.charge()
	}
}

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
