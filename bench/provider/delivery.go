package provider

import (
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"
)

// A delivery is how an answer travels, whatever it says.
type delivery struct {
	size         int           // units of text per delta
	burst        int           // events per write; 0: as many as fit a write, or one when there is a delay between events
	beforeHeader time.Duration // before the status line
	beforeFirst  time.Duration // between the header and the first event
	between      time.Duration // between two writes
	queued       int           // keep-alives before the answer begins
	queuedFor    time.Duration // between two of these
	pingEvery    int           // a keep-alive before every so many events
	cut          cutMode
	cutAfter     int // events before the cut; 0 means before the terminal events
	instead      insteadMode
	status       int    // of the answer sent instead
	location     string // of a redirect
	body         string // of an answer that the script spells out
	contentType  string
	headers      [][2]string
	earlyHints   bool
	crlf         bool
	oneByte      bool
	stamped      bool // deltas of made-up text tell when they were written
	gzip         bool
}

// cutMode is how a stream ends too early.
type cutMode uint8

const (
	cutNever cutMode = iota
	cutAbort         // the connection closes between two events, without the end of the chunked body
	cutClean         // the body ends as if it were whole, without the terminal events
	cutMid           // as cutAbort, in the middle of an event
	cutReset         // the connection is reset
)

// insteadMode is an answer that has nothing to do with the format.
type insteadMode uint8

const (
	insteadNothing insteadMode = iota
	insteadReset
	insteadGarbage
	insteadHTML
	insteadRedirect
	insteadBody
)

// writeSize is when a stream hands its buffer to the socket: large enough that system calls do not dominate,
// small enough to stay in the processor's cache.
const writeSize = 32 << 10

// A stream writes the events of one answer. Renderers append one event to buf and call end; everything about
// bursts, delays and cuts happens there.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	out     io.Writer // w, or the compressor before it
	zip     *gzip.Writer
	ctx     context.Context
	plan    *delivery
	buf     []byte
	nl      string // line end of the event framing
	start   int    // where the event being rendered starts in buf
	events  int    // complete events
	waiting int    // events in buf

	// Set by the renderer: what it sends as a keep-alive, and its form of an error in mid-stream.
	ping        func(dst []byte) []byte
	inside      func(dst []byte) []byte
	insideAfter int
	insideSet   bool

	timer *time.Timer // of wait, made at the first use

	over bool  // nothing more may be written
	err  error // why the stream ended before its end
}

var (
	errCut        = errors.New("cut by the script")
	errClientGone = errors.New("the client left")
)

// newStream sends the header of a stream.
func newStream(ctx context.Context, w http.ResponseWriter, plan *delivery, contentType string, buf []byte) *stream {
	s := &stream{w: w, control: http.NewResponseController(w), out: w, ctx: ctx, plan: plan, buf: buf[:0], nl: "\n"}
	if plan.crlf {
		s.nl = "\r\n"
	}
	header := w.Header()
	header.Set("Content-Type", contentType)
	header.Set("Cache-Control", "no-cache")
	sendHeader(w, plan)
	if plan.gzip {
		header.Set("Content-Encoding", "gzip")
		s.zip = gzip.NewWriter(w)
		s.out = s.zip
	}
	w.WriteHeader(http.StatusOK)
	if plan.beforeFirst > 0 {
		s.flush()
		s.wait(plan.beforeFirst)
	}
	return s
}

// sendHeader applies what a script says about the header, and sends early hints.
func sendHeader(w http.ResponseWriter, plan *delivery) {
	header := w.Header()
	if plan.contentType != "" {
		header.Set("Content-Type", plan.contentType)
	}
	for _, pair := range plan.headers {
		header.Set(pair[0], pair[1])
	}
	if plan.earlyHints {
		header.Set("Link", "</style.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		header.Del("Link")
	}
}

// queue sends the keep-alives of a request that waits for its turn, and the fault that a stream begins with. Renderers call
// it before their first event.
func (s *stream) queue() {
	for i := 0; i < s.plan.queued && !s.over; i++ {
		s.buf = s.ping(s.buf)
		s.flush()
		s.wait(s.plan.queuedFor)
	}
	if s.insideSet && s.insideAfter == 0 {
		s.fail()
	}
}

// end marks the event in buf as complete. It returns false when the renderer has to stop.
func (s *stream) end() bool {
	if s.over {
		return false
	}
	plan := s.plan
	if plan.cut == cutMid && plan.cutAfter > 0 && s.events == plan.cutAfter {
		s.buf = s.buf[:s.start+(len(s.buf)-s.start)/2]
		return s.stop()
	}
	s.events++
	s.waiting++
	s.start = len(s.buf)
	if plan.cut != cutNever && plan.cut != cutMid && plan.cutAfter > 0 && s.events == plan.cutAfter {
		return s.stop()
	}
	if s.insideSet && s.insideAfter > 0 && s.events == s.insideAfter {
		return s.fail()
	}
	if plan.pingEvery > 0 && s.events%plan.pingEvery == 0 {
		s.buf = s.ping(s.buf)
		s.start = len(s.buf)
	}
	switch {
	case plan.burst > 0 && s.waiting < plan.burst && len(s.buf) < writeSize:
	case plan.burst == 0 && plan.between == 0 && len(s.buf) < writeSize:
	default:
		s.flush()
		if plan.between > 0 {
			s.wait(plan.between)
		}
	}
	return !s.over
}

// terminal is called before the terminal events. It returns false when the script wants none.
func (s *stream) terminal() bool {
	switch {
	case s.over:
		return false
	case s.insideSet && s.insideAfter == beforeTerminal:
		return s.fail()
	case s.plan.cut == cutMid && s.plan.cutAfter == 0:
		s.buf = append(s.buf, `data: {"cut`...)
		return s.stop()
	case s.plan.cut != cutNever && s.plan.cutAfter == 0:
		return s.stop()
	}
	return true
}

// stop ends the stream early; always false.
func (s *stream) stop() bool {
	s.flush()
	s.over = true
	if s.err == nil && s.plan.cut != cutClean {
		s.err = errCut
	}
	return false
}

// fail ends the stream with an error event; always false.
func (s *stream) fail() bool {
	s.buf = s.inside(s.buf)
	s.flush()
	s.over = true
	return false
}

// flush hands what has gathered to the client.
func (s *stream) flush() {
	if s.over {
		return
	}
	if s.plan.stamped {
		fillStamps(s.buf)
	}
	if err := s.write(); err != nil {
		s.over, s.err = true, errClientGone
	}
	s.buf, s.start, s.waiting = s.buf[:0], 0, 0
}

func (s *stream) write() error {
	if s.plan.oneByte {
		for i := range s.buf {
			if err := s.push(s.buf[i : i+1]); err != nil {
				return err
			}
		}
		return nil
	}
	return s.push(s.buf)
}

func (s *stream) push(b []byte) error {
	if len(b) > 0 {
		if _, err := s.out.Write(b); err != nil {
			return err
		}
	}
	if s.zip != nil {
		if err := s.zip.Flush(); err != nil {
			return err
		}
	}
	return s.control.Flush()
}

// wait pauses for d, or until the client leaves or the server closes.
func (s *stream) wait(d time.Duration) {
	if s.over || d <= 0 {
		return
	}
	if s.timer == nil {
		s.timer = time.NewTimer(d)
	} else {
		s.timer.Reset(d)
	}
	select {
	case <-s.timer.C:
	case <-s.ctx.Done():
		s.over, s.err = true, errClientGone
	}
}

func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// close ends the stream and says why it ended too early.
func (s *stream) close() error {
	if s.timer != nil {
		s.timer.Stop()
	}
	if s.err == nil {
		s.flush()
	}
	if s.err == nil && s.zip != nil {
		if err := s.zip.Close(); err != nil {
			s.err = errClientGone
		}
	}
	if errors.Is(s.err, errCut) && s.plan.cut == cutReset {
		reset(s.w)
	}
	return s.err
}

// reset closes the connection so that the peer sees a reset instead of an end.
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// deliverQueued sends a complete body after the empty lines of a request that waits for its turn.
func deliverQueued(ctx context.Context, w http.ResponseWriter, plan *delivery, body []byte) error {
	w.Header().Set("Content-Type", "application/json")
	sendHeader(w, plan)
	control := http.NewResponseController(w)
	for range plan.queued {
		if _, err := io.WriteString(w, "\n"); err != nil {
			return errClientGone
		}
		if control.Flush() != nil || pause(ctx, plan.queuedFor) != nil {
			return errClientGone
		}
	}
	_, err := w.Write(body)
	return err
}

// deliver sends a complete body.
func deliver(w http.ResponseWriter, plan *delivery, status int, body []byte) error {
	header := w.Header()
	header.Set("Content-Type", "application/json")
	sendHeader(w, plan)
	if plan.cut != cutNever {
		return deliverHalf(w, plan, status, body)
	}
	if plan.gzip {
		header.Set("Content-Encoding", "gzip")
		w.WriteHeader(status)
		zip := gzip.NewWriter(w)
		_, err := zip.Write(body)
		return errors.Join(err, zip.Close())
	}
	header.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, err := w.Write(body)
	return err
}

// deliverHalf announces the whole body and sends one half of it, or, for a clean cut, announces the half.
func deliverHalf(w http.ResponseWriter, plan *delivery, status int, body []byte) error {
	half := body[:len(body)/2]
	announced := len(body)
	if plan.cut == cutClean {
		announced = len(half)
	}
	w.Header().Set("Content-Length", strconv.Itoa(announced))
	w.WriteHeader(status)
	if _, err := w.Write(half); err != nil {
		return errClientGone
	}
	if err := http.NewResponseController(w).Flush(); err != nil {
		return errClientGone
	}
	switch plan.cut {
	case cutClean:
		return nil
	case cutReset:
		reset(w)
	}
	return errCut
}

const htmlPage = "<!DOCTYPE html>\n<html><head><title>Bad gateway</title></head>\n<body><h1>Bad gateway</h1><p>The web server reported a bad gateway error.</p></body></html>\n"

// deliverInstead sends what is no answer of any format.
func deliverInstead(w http.ResponseWriter, plan *delivery) error {
	header := w.Header()
	switch plan.instead {
	case insteadReset:
		reset(w)
		return errCut
	case insteadGarbage:
		header.Set("Content-Type", "application/octet-stream")
		sendHeader(w, plan)
		_, err := w.Write([]byte("\x00\xff\xfe garbage {]\x1b\r\n\r\n\x80"))
		return err
	case insteadHTML:
		header.Set("Content-Type", "text/html; charset=utf-8")
	case insteadRedirect:
		header.Set("Location", plan.location)
	case insteadBody:
		header.Set("Content-Type", "application/json")
	}
	sendHeader(w, plan)
	w.WriteHeader(plan.status)
	body := plan.body
	if plan.instead == insteadHTML {
		body = htmlPage
	}
	_, err := io.WriteString(w, body)
	return err
}
