package edge

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/cloudwego/hertz/pkg/app"
	"github.com/cloudwego/hertz/pkg/protocol/http1/req"

	"github.com/mnemeproxy/mneme/fuzz/mutant"
)

// FuzzRequestHead reads any bytes as requests do arrive, and holds what passes the edge against another reader of
// HTTP/1.1: both have to see the same method, the same body, and the next request in the same place.
func FuzzRequestHead(f *testing.F) {
	const to = "POST /v1/messages HTTP/1.1\r\nHost: a\r\n"
	for _, seed := range []string{
		to + "Content-Length: 2\r\n\r\n{}GET / HTTP/1.1\r\n\r\n",
		to + "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\nGET",
		to + "Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n0\r\n\r\n",
		to + "Transfer-Encoding: identity\r\nContent-Length: 2\r\n\r\n{}",
		to + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n", to + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
		to + "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}x", to + "Content-Length: +2\r\n\r\n{}", to + "Content-Length: 0x2\r\n\r\n{}",
		to + "Content-Length: 2,2\r\n\r\n{}", to + " folded\r\nContent-Length: 2\r\n\r\n{}", to + "Content-Length\t: 2\r\n\r\n{}",
		to + "X: a\nContent-Length: 2\r\n\r\n{}", to + "X: a\rContent-Length: 2\r\n\r\n{}", to + "X\x00: a\r\nContent-Length: 2\r\n\r\n{}",
		to + "Transfer-Encoding: chunked\r\n\r\n2;a=b\r\n{}\r\n0\r\nX: y\r\n\r\n", to + "Transfer-Encoding: chunked\r\n\r\n2 \r\n{}\r\n0\r\n\r\n",
		to + " \r\n\r\n{}", to + "Content-Length: 2\r\n \r\n\r\n{}",
		"GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "GET /\r\n\r\n", "GET http://b/ HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
	} {
		f.Add([]byte(seed))
	}
	all := &connections{limits: connectionLimits{head: 8 << 10, body: 8 << 10}, memory: NewBudget(1<<20, nil), timeout: time.Hour}
	f.Fuzz(mutant.Each(1000, func(t *testing.T, raw []byte) {
		if len(raw) > 4<<10 {
			return
		}
		rc := app.NewContext(0)
		sent := &sentWhole{rest: raw}
		conn := &connection{wire: wire{Conn: sent, memory: all.memory}, all: all, rc: rc, inHead: true}
		ours := &rc.Request
		if err := req.Read(ours, conn); err != nil || conn.fault != "" || conn.version || conn.body.length > all.limits.body {
			return
		}
		share := all.memory.Share()
		read, err := (&Request{rc: rc, conn: conn}).ReadBody(&share)
		if err != nil {
			return
		}
		left := conn.Len() + len(sent.rest)

		buffered := bufio.NewReaderSize(bytes.NewReader(raw), len(raw)+16)
		theirs, err := http.ReadRequest(buffered)
		if err != nil {
			return
		}
		body, err := io.ReadAll(theirs.Body)
		cut := err != nil && (errors.Is(err, io.ErrUnexpectedEOF) || strings.Contains(err.Error(), "trailer"))
		if cut && !bytes.Contains(raw[len(raw)-left:], []byte("\r\n\r\n")) {
			return
		}
		if err != nil {
			t.Fatalf("%q: they find the body broken (%v), we read %q", raw, err, read)
		}
		if string(ours.Method()) != theirs.Method || !bytes.Equal(read, body) {
			t.Fatalf("%q: we read %s %q, they read %s %q", raw, ours.Method(), read, theirs.Method, body)
		}
		if rest := buffered.Buffered(); rest != left {
			t.Fatalf("%q: %d bytes are left for us, %d for them", raw, left, rest)
		}
	}))
}

// sentWhole is a client that has sent everything.
type sentWhole struct {
	net.Conn
	rest []byte
}

func (s *sentWhole) Read(p []byte) (int, error) {
	if len(s.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

func (*sentWhole) Write(p []byte) (int, error)     { return len(p), nil }
func (*sentWhole) SetReadDeadline(time.Time) error { return nil }
