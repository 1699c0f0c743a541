package server

import (
	"errors"
	"strconv"

	"github.com/cloudwego/hertz/pkg/network"
	"github.com/cloudwego/hertz/pkg/protocol"
	"github.com/cloudwego/hertz/pkg/protocol/http1/resp"
)

// streamWriter writes an answer of unknown length in chunks. It takes the place of hertz's own writer for two reasons:
// that one carries a finalizer per stream, and it ends every stream cleanly, even one that failed. Here an aborted
// stream has no last chunk and its connection is closed, so that the client sees that something is missing.
type streamWriter struct {
	response *protocol.Response
	conn     network.Writer
	chunked  bool // false for HTTP/1.0, which knows no chunks: the end of the connection ends the answer
	started  bool
	aborted  bool
}

var errAborted = errors.New("the stream was aborted")

// Write buffers p as one chunk, the response head before it where it is the first. p may be reused at once.
func (w *streamWriter) Write(p []byte) (int, error) {
	if err := w.start(); err != nil || len(p) == 0 {
		return 0, err
	}
	if !w.chunked {
		to, err := w.conn.Malloc(len(p))
		return copy(to, p), err
	}
	var size [18]byte
	head := append(strconv.AppendInt(size[:0], int64(len(p)), 16), '\r', '\n')
	to, err := w.conn.Malloc(len(head) + len(p) + 2)
	if err != nil {
		return 0, err
	}
	n := copy(to, head)
	n += copy(to[n:], p)
	copy(to[n:], "\r\n")
	return len(p), nil
}

func (w *streamWriter) start() error {
	if w.started {
		return nil
	}
	w.started = true
	if w.chunked {
		w.response.Header.SetContentLength(-1)
	} else {
		w.response.Header.SetConnectionClose(true)
	}
	return resp.WriteHeader(&w.response.Header, w.conn)
}

// Flush sends what is buffered.
func (w *streamWriter) Flush() error { return w.conn.Flush() }

// abort makes Finalize fail: the stream gets no clean end and hertz closes the connection.
func (w *streamWriter) abort() { w.aborted = true }

// Finalize is called by hertz when the handler has returned.
func (w *streamWriter) Finalize() error {
	if w.aborted {
		return errAborted
	}
	if err := w.start(); err != nil {
		return err
	}
	if !w.chunked {
		return w.conn.Flush()
	}
	to, err := w.conn.Malloc(len(lastChunk))
	if err != nil {
		return err
	}
	copy(to, lastChunk)
	return w.conn.Flush()
}

const lastChunk = "0\r\n\r\n"
