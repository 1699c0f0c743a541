package edge

import (
	"errors"
	"strconv"

	"github.com/cloudwego/hertz/pkg/app"
	"github.com/cloudwego/hertz/pkg/network"
	"github.com/cloudwego/hertz/pkg/protocol/http1/resp"
)

// Stream writes an answer of unknown length in chunks. It replaces hertz's own writer, which has a finalizer per stream
// and ends every stream cleanly, even a failed one. Here an aborted stream has no last chunk and its connection is
// closed, so the client can see that it is incomplete.
type Stream struct {
	rc      *app.RequestContext
	conn    network.Writer
	chunked bool // false for HTTP/1.0, which has no chunks: the end of the connection ends the answer
	bare    bool // without a head: the answer goes to memory
	taken   bool // it has replaced hertz's writer
	started bool
	ended   bool
	aborted bool
}

var errAborted = errors.New("the stream was aborted")

// Write buffers p as one chunk, after the response head the first time. p may be reused at once.
func (w *Stream) Write(p []byte) (int, error) {
	if err := w.start(); err != nil || len(p) == 0 {
		return 0, err
	}
	if w.bare { // which does not keep p
		return w.conn.WriteBinary(p)
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

func (w *Stream) start() error {
	if w.started {
		return nil
	}
	w.started = true
	w.take()
	header := &w.rc.Response.Header
	switch {
	case w.bare:
		return nil
	case w.chunked:
		header.SetContentLength(-1)
	default:
		header.SetConnectionClose(true)
	}
	return resp.WriteHeader(header, w.conn)
}

// take replaces hertz's own writer with the stream.
func (w *Stream) take() {
	if !w.taken {
		w.taken = true
		w.rc.Response.HijackWriter(w)
	}
}

// Flush sends what is buffered.
func (w *Stream) Flush() error { return w.conn.Flush() }

// Abort cuts the answer visibly: there is no last chunk, and the connection is closed.
func (w *Stream) Abort() {
	w.aborted = true
	w.take() // Finalize then fails, so hertz closes the connection
	w.rc.SetConnectionClose()
}

// Finalize is called by hertz when the handler has returned.
func (w *Stream) Finalize() error {
	if w.aborted {
		return errAborted
	}
	return w.End()
}

// End ends the answer, and sends the end with what is buffered. Nothing may be written afterwards.
func (w *Stream) End() error {
	if w.ended {
		return nil
	}
	if err := w.start(); err != nil {
		return err
	}
	w.ended = true
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
