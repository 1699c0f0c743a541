package edge

import (
	"context"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/cloudwego/hertz/pkg/app"
	"github.com/cloudwego/hertz/pkg/network"
)

// Request is a client's request. It and the bytes it returns are valid until its handler returns.
type Request struct {
	rc   *app.RequestContext
	conn *connection
}

// Method returns the request's method.
func (r *Request) Method() string { return string(r.rc.Method()) }

// Path returns the requested path, with its dots, repeated slashes and escapes resolved.
func (r *Request) Path() string { return string(r.rc.Path()) }

// Route returns the path as it was given to [Server.Handle].
func (r *Request) Route() string { return r.rc.FullPath() }

// Param returns the path segment that matches a name in the route.
func (r *Request) Param(name string) string { return r.rc.Param(name) }

// Query returns the raw query of the target.
func (r *Request) Query() string { return string(r.rc.URI().QueryString()) }

// Host returns the requested host.
func (r *Request) Host() string { return string(r.rc.Host()) }

// Header returns the value of a header, "" if there is none.
func (r *Request) Header(name string) string { return r.rc.Request.Header.Get(name) }

// HasHeader reports whether a header has a value.
func (r *Request) HasHeader(name string) bool { return len(r.rc.Request.Header.Peek(name)) > 0 }

// EachHeader calls f with each header; the names are canonical.
func (r *Request) EachHeader(f func(name, value []byte)) { r.rc.Request.Header.VisitAll(f) }

// ContentType returns the type of the body.
func (r *Request) ContentType() string { return string(r.rc.Request.Header.ContentType()) }

// Client returns what a connection counts for, as logs name it: the client's address, or its /64 of IPv6.
func (r *Request) Client() string { return clientName(r.rc.RemoteAddr()) }

func clientName(remote net.Addr) string {
	if client := clientOf(remote); client.IsValid() {
		return client.String()
	}
	return "unix socket"
}

// Response is the client's response. It is sent when the handler has returned, or as a [Stream].
type Response struct {
	rc      *app.RequestContext
	conn    *connection
	instead network.Writer // takes a streamed answer in the client's place; nil: the client does
}

// Set sets a header to one value.
func (r *Response) Set(name, value string) { r.rc.Response.Header.Set(name, value) }

// Add adds a value to a header.
func (r *Response) Add(name, value string) { r.rc.Response.Header.Add(name, value) }

// Del removes a header.
func (r *Response) Del(name string) { r.rc.Response.Header.Del(name) }

// Status returns the status, 200 if none has been set.
func (r *Response) Status() int { return r.rc.Response.StatusCode() }

// SetStatus sets the status.
func (r *Response) SetStatus(status int) { r.rc.Response.SetStatusCode(status) }

// ContentType returns the type that was set.
func (r *Response) ContentType() string { return string(r.rc.Response.Header.ContentType()) }

// SetContentType sets the type.
func (r *Response) SetContentType(contentType string) {
	r.rc.Response.Header.SetContentType(contentType)
}

// SetRetryAfter sets the client's wait in whole seconds: the one form of the header that every client reads
// (docs/wire/clients.md).
func (r *Response) SetRetryAfter(wait time.Duration) {
	r.Set("Retry-After", strconv.Itoa(wholeSeconds(wait)))
}

// SetBody sets the whole body, replacing any earlier one. It is not copied, and must not change until it has been sent.
func (r *Response) SetBody(body []byte) {
	r.rc.Response.ResetBody()
	r.rc.Response.SetBodyRaw(body)
}

// SetText answers with plain text.
func (r *Response) SetText(status int, text string) {
	r.SetStatus(status)
	r.SetContentType("text/plain; charset=utf-8")
	r.SetBody([]byte(text))
}

// Body returns the body that was set.
func (r *Response) Body() []byte { return r.rc.Response.Body() }

// CloseConnection ends the connection after the answer.
func (r *Response) CloseConnection() { r.rc.SetConnectionClose() }

// GiveWhenSent returns n bytes to a budget when the client has received the answer, which may be long after the handler
// has returned. A request can use one budget.
func (r *Response) GiveWhenSent(b *Budget, n int64) { r.conn.answers, r.conn.room = b, n }

// Stream begins an answer of unknown length. Until the first call of Write or [Stream.Abort] nothing is sent, and the
// response can still be replaced.
func (r *Response) Stream() *Stream {
	if r.instead != nil {
		return &Stream{rc: r.rc, conn: r.instead, bare: true}
	}
	if body := &r.conn.body; body.err == nil && !body.isShort() {
		r.CloseConnection()
	}
	return &Stream{rc: r.rc, conn: r.rc.GetWriter(), chunked: r.rc.Request.Header.IsHTTP11()}
}

// Printable truncates and cleans a client's text for an error message.
func Printable(text string) string {
	const most = 100
	out := make([]byte, 0, most)
	for i := range len(text) {
		if len(out) == most {
			return string(out) + "…"
		}
		c := text[i]
		if c < 0x20 || c >= 0x7f {
			c = '?'
		}
		out = append(out, c)
	}
	return string(out)
}

// asHTTP returns the request for net/http, without its body.
func (r *Request) asHTTP() *http.Request {
	h := &http.Request{
		Method: r.Method(), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: make(http.Header), Host: r.Host(), Body: http.NoBody, RemoteAddr: r.Client(),
	}
	r.EachHeader(func(name, value []byte) { h.Header.Add(string(name), string(value)) })
	return h
}

// Handler answers a request. The request and the response are valid until it returns. ctx ends when the client leaves,
// or with the cause [ErrDraining] when the server aborts open requests.
type Handler func(ctx context.Context, in *Request, out *Response)
