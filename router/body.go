package router

import (
	"io"
	"time"

	"github.com/mnemeproxy/mneme/router/http1"
)

// A Body is the body of a provider's answer. Reads end with io.EOF or a *codec.Error. It belongs to one goroutine.
type Body struct {
	endpoint *endpoint
	watch    watch
	payload  payload
	from     io.ReadCloser   // nil until there is an answer
	direct   *http1.Response // from, if it is one
	length   int64           // -1: unknown
	ahead    []byte          // already read, returned first
	err      error           // sticky; returned after ahead
}

// Read waits for the provider, but never longer than the first-byte or the idle limit, and not after the call's
// context has ended. It allocates nothing unless it fails.
func (b *Body) Read(p []byte) (int, error) {
	if len(b.ahead) > 0 {
		n := copy(p, b.ahead)
		b.ahead = b.ahead[n:]
		return n, nil
	}
	if b.err != nil {
		return 0, b.err
	}
	b.watch.beginRead()
	n, err := b.from.Read(p)
	b.watch.endRead(n)
	switch err {
	case nil:
		return n, nil
	case io.EOF:
		b.err = io.EOF
	default:
		b.err = b.endpoint.fault(&b.watch, err, phaseBody)
	}
	return n, b.err
}

// readAhead returns the first bytes of the body, at most limit, before any other read. The body still begins with them,
// and ends with what has arrived if the rest takes longer than timeout.
func (b *Body) readAhead(limit int64, timeout time.Duration) []byte {
	cut := time.AfterFunc(timeout, b.Cut)
	ahead, _ := io.ReadAll(io.LimitReader(b, limit)) // b keeps the error
	if !cut.Stop() && b.watch.ctx.Err() == nil {
		b.err = io.EOF
	}
	b.ahead = ahead
	return ahead
}

// KeptAlive says that the newest Read brought only a provider's keep-alive, such as a comment or a ping. The idle limit
// then continues as if nothing had arrived, so that a stuck provider that still sends keep-alives is noticed.
func (b *Body) KeptAlive() { b.watch.keptAlive() }

// Length returns the body's length in bytes, as announced by the provider; -1 if it was not.
func (b *Body) Length() int64 { return b.length }

// Cut ends the call and any waiting Read. Unlike the other methods it may be called by any goroutine; Close is still
// needed.
func (b *Body) Cut() { b.watch.end() }

// DropRequest lets go of the request's body if the provider has all of it, and reports whether that is so. Then the call
// does not use it any more.
func (b *Body) DropRequest() bool { return b.payload.drop(b.direct) }

// Close ends the call. A connection whose answer was read to io.EOF is reused, any other is closed. Close never waits
// for the provider and may be called more than once.
func (b *Body) Close() error {
	b.watch.end() // first: once its context is gone, nothing below waits for the network
	b.payload.release()
	if b.from == nil {
		return nil
	}
	return b.from.Close()
}
