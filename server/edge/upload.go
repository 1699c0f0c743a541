package edge

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// Upload is the body of a request, to be read by another goroutine than its handler's while that waits for an answer.
// The handler stops it before it returns.
type Upload struct {
	body    *body
	stopped atomic.Bool

	mu       sync.Mutex // held while the body is read
	returned time.Time
}

// Upload returns what is left of the body.
func (r *Request) Upload() *Upload { return &Upload{body: &r.conn.body, returned: time.Now()} }

var errStopped = errors.New("the request is over")

// Read reads from the client. The time between two calls, in which a provider takes the bytes, does not count as the
// client's.
func (u *Upload) Read(p []byte) (int, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	conn := u.body.conn
	if u.body.err == nil && !u.stopped.Load() {
		conn.endTime()
		conn.since.Add(int64(time.Since(u.returned)))
		conn.limitTime() // before the next line: Stop ends the wait by an earlier end of the time
	}
	if u.stopped.Load() {
		return 0, errStopped
	}
	n, err := u.body.Read(p)
	switch {
	case err == nil || errors.Is(err, io.EOF):
	case u.stopped.Load():
		u.body.status = 0 // it is not the client that was too slow
	case u.body.status == 0:
		conn.cancel() // the client has left
	}
	u.returned = time.Now()
	return n, err
}

// Whole reports whether the body has been read to its end. Call it from where it is read.
func (u *Upload) Whole() bool { return errors.Is(u.body.err, io.EOF) }

// Stop ends reading, waits until nothing reads any more, and reports whether the body was read to its end.
func (u *Upload) Stop() (whole bool) {
	u.stopped.Store(true)
	if !u.mu.TryLock() { // it waits for the client
		u.body.conn.response.CloseConnection()
		_ = u.body.conn.SetReadDeadline(time.Unix(1, 0))
		u.mu.Lock()
	}
	defer u.mu.Unlock()
	return errors.Is(u.body.err, io.EOF)
}

// Fault returns the error with which the client's part has failed; nil if it has not. Call it after [Upload.Stop].
func (u *Upload) Fault() error {
	if u.body.err == nil || errors.Is(u.body.err, io.EOF) || u.body.status == 0 {
		return nil
	}
	return u.body.err
}
