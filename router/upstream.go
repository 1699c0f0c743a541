package router

import (
	"context"
	"errors"
	"io"
	"net/url"
	"strings"
	"sync"

	"github.com/mnemeproxy/mneme/router/http1"
)

// upstream sends one request and returns once the answer's header has arrived.
type upstream interface {
	// do ends early if ctx is cancelled or the request is cut, in every phase, and so does reading the body of the
	// answer. The caller cuts the request when it is done.
	do(ctx context.Context, out outgoing) (incoming, error)
	// close drops idle connections.
	close()
}

func isASCII(s string) bool { return !strings.ContainsFunc(s, func(r rune) bool { return r >= 0x80 }) }

// outgoing is a request as an upstream sends it.
type outgoing struct {
	method string
	url    *url.URL
	header Header
	size   int64 // of body, in bytes
	body   *payload
	upload io.Reader // instead of body; nil: there is none
	cutoff *http1.Cutoff
}

// incoming is an answer as an upstream reads it.
type incoming struct {
	status int
	header Header
	body   io.ReadCloser
	length int64 // of body, in bytes; -1 if unknown
}

// A payload is a request body that can be taken back. An upstream may still be sending when the call is over, because
// the provider answered early or the client left; its buffer is about to carry another request, which must not leak
// into this one.
type payload struct {
	mu   sync.Mutex
	data []byte // nil once released
	read bool   // to its end
}

var errReleased = errors.New("the call is over")

// open returns a new reader over the whole payload.
func (p *payload) open() io.ReadCloser { return &payloadReader{payload: p} }

// release takes the bytes back. It waits for a copy in progress, never for the network.
func (p *payload) release() {
	p.mu.Lock()
	p.data = nil
	p.mu.Unlock()
}

// drop is release if nothing reads the bytes any more, and reports whether that is so. direct is the answer of a client
// that reads them without a reader; nil: there is a reader.
func (p *payload) drop(direct *http1.Response) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if direct != nil && direct.BodySent() || direct == nil && p.read {
		p.data = nil
	}
	return p.data == nil
}

type payloadReader struct {
	payload *payload
	at      int
}

func (r *payloadReader) Read(dst []byte) (int, error) {
	r.payload.mu.Lock()
	defer r.payload.mu.Unlock()
	if r.payload.data == nil && !r.payload.read {
		return 0, errReleased
	}
	if r.at == len(r.payload.data) || r.payload.data == nil {
		r.payload.read = true
		return 0, io.EOF
	}
	n := copy(dst, r.payload.data[r.at:])
	r.at += n
	return n, nil
}

func (*payloadReader) Close() error { return nil }
