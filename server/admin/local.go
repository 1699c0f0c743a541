package admin

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
)

// inProcess answers requests with a handler in this process, so that there is one code path with and without a server.
// Answers are read while they are written, so a backup can have any size.
type inProcess struct {
	handler http.Handler
	running sync.WaitGroup
}

// wait returns when no handler is running. A handler whose answer was closed ends at its next write.
func (t *inProcess) wait() { t.running.Wait() }

func (t *inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	body, writer := io.Pipe()
	w := &pipeWriter{header: http.Header{}, status: http.StatusOK, body: writer, begun: make(chan struct{})}
	t.running.Go(func() {
		defer func() {
			fault := recover()
			w.WriteHeader(http.StatusOK)
			switch {
			case fault == http.ErrAbortHandler: //nolint:errorlint // the very value that handlers give up with
				_ = writer.CloseWithError(errors.New("the answer was cut short"))
			case fault != nil: // as in the server: the answer breaks off, and the process goes on
				line, _, _ := strings.Cut(strings.TrimSpace(fmt.Sprint(fault)), "\n")
				_ = writer.CloseWithError(fmt.Errorf("the store cannot do this (%s): look at it with mneme check, or salvage what is readable with mneme recover", line))
			default:
				_ = writer.Close()
			}
		}()
		t.handler.ServeHTTP(w, r)
	})
	select {
	case <-w.begun:
	case <-r.Context().Done():
		_ = body.CloseWithError(r.Context().Err())
		return nil, r.Context().Err()
	}
	return &http.Response{
		StatusCode: w.status, Header: w.header, Body: body,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, ContentLength: -1, Request: r,
	}, nil
}

// pipeWriter is an answer that another goroutine reads.
type pipeWriter struct {
	header http.Header
	status int
	body   *io.PipeWriter
	once   sync.Once
	begun  chan struct{} // closed when status and header are final
}

func (w *pipeWriter) Header() http.Header { return w.header }

func (w *pipeWriter) WriteHeader(status int) {
	w.once.Do(func() {
		w.status = status
		close(w.begun)
	})
}

func (w *pipeWriter) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(p)
}

// FlushError begins the answer; writes are readable at once anyway.
func (w *pipeWriter) FlushError() error {
	w.WriteHeader(http.StatusOK)
	return nil
}
