package edge

import (
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/cloudwego/hertz/pkg/app"
)

// Request is what a client asks. It is valid until its handler returns, and so are the bytes that it gives.
type Request struct {
	rc   *app.RequestContext
	conn *connection
}

// Method is the request's method.
func (r *Request) Method() string { return string(r.rc.Method()) }

// Path is the path that was asked, with its dots, repeated slashes and escapes resolved.
func (r *Request) Path() string { return string(r.rc.Path()) }

// Route is the path as it was given to [Server.Handle].
func (r *Request) Route() string { return r.rc.FullPath() }

// Param is the segment of the path that a name of the route stands for.
func (r *Request) Param(name string) string { return r.rc.Param(name) }

// Query is the query of the target as it was sent.
func (r *Request) Query() string { return string(r.rc.URI().QueryString()) }

// Host is the host that was asked.
func (r *Request) Host() string { return string(r.rc.Host()) }

// Header is the value of a header, "" where there is none.
func (r *Request) Header(name string) string { return r.rc.Request.Header.Get(name) }

// HasHeader reports whether a header has a value.
func (r *Request) HasHeader(name string) bool { return len(r.rc.Request.Header.Peek(name)) > 0 }

// EachHeader calls f with each header; the names are canonical.
func (r *Request) EachHeader(f func(name, value []byte)) { r.rc.Request.Header.VisitAll(f) }

// ContentType is the type of the body.
func (r *Request) ContentType() string { return string(r.rc.Request.Header.ContentType()) }

// Body is the body as it was sent, within the limit. It is not to be changed.
func (r *Request) Body() []byte { return r.rc.Request.Body() }

// Client is what a connection counts for, as logs name it: the client's address, or its /64 of IPv6.
func (r *Request) Client() string { return clientName(r.rc.RemoteAddr()) }

func clientName(remote net.Addr) string {
	if client := clientOf(remote); client.IsValid() {
		return client.String()
	}
	return "unix socket"
}

// Response is what the client gets. It is sent when the handler has returned, or as a [Stream].
type Response struct {
	rc   *app.RequestContext
	conn *connection
}

// Set sets a header to one value.
func (r *Response) Set(name, value string) { r.rc.Response.Header.Set(name, value) }

// Add adds a value to a header.
func (r *Response) Add(name, value string) { r.rc.Response.Header.Add(name, value) }

// Del takes a header away.
func (r *Response) Del(name string) { r.rc.Response.Header.Del(name) }

// Status is the status, 200 if none has been set.
func (r *Response) Status() int { return r.rc.Response.StatusCode() }

// SetStatus sets the status.
func (r *Response) SetStatus(status int) { r.rc.Response.SetStatusCode(status) }

// ContentType is the type that was set.
func (r *Response) ContentType() string { return string(r.rc.Response.Header.ContentType()) }

// SetContentType sets the type.
func (r *Response) SetContentType(contentType string) {
	r.rc.Response.Header.SetContentType(contentType)
}

// SetRetryAfter tells the client how long to wait, in whole seconds: of the forms that the header may have, the one that
// every client reads (docs/wire/clients.md).
func (r *Response) SetRetryAfter(wait time.Duration) {
	seconds := int64((wait + time.Second - 1) / time.Second)
	r.Set("Retry-After", strconv.FormatInt(seconds, 10))
}

// SetBody sets the whole body, in place of any before. It is not copied, and must not change until it has been sent.
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

// Body is the body that was set.
func (r *Response) Body() []byte { return r.rc.Response.Body() }

// CloseConnection ends the connection after the answer.
func (r *Response) CloseConnection() { r.rc.SetConnectionClose() }

// GiveWhenSent gives n bytes back to a budget when the client has taken the answer, which may be long after the handler has
// returned. It is for one budget of a request.
func (r *Response) GiveWhenSent(b *Budget, n int64) { r.conn.answers, r.conn.room = b, n }

// Stream begins an answer of unknown length. Nothing is sent, and the response can still become another, before the first
// call of Write or [Stream.Abort].
func (r *Response) Stream() *Stream {
	return &Stream{rc: r.rc, conn: r.rc.GetWriter(), chunked: r.rc.Request.Header.IsHTTP11()}
}

// Printable cuts and cleans text of the client's for an error message.
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

// asHTTP is the request as net/http has it, but for its body.
func (r *Request) asHTTP() *http.Request {
	h := &http.Request{
		Method: r.Method(), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: make(http.Header), Host: r.Host(), Body: http.NoBody,
	}
	r.EachHeader(func(name, value []byte) { h.Header.Add(string(name), string(value)) })
	return h
}
