package edge

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/cloudwego/hertz/pkg/app"
	"github.com/cloudwego/hertz/pkg/common/test/mock"
	"github.com/cloudwego/hertz/pkg/network"
	"github.com/cloudwego/hertz/pkg/protocol/http1/req"

	"github.com/mnemeproxy/mneme/codec"
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
	all := &connections{limits: connectionLimits{head: 8 << 10, body: 8 << 10}}
	f.Fuzz(mutant.Each(1000, func(t *testing.T, raw []byte) {
		if len(raw) > 4<<10 {
			return
		}
		rc := app.NewContext(0)
		conn := &connection{Conn: &sentWhole{reader: mock.NewZeroCopyReader(string(raw))}, all: all, rc: rc, surface: codec.Chat, inHead: true}
		ours := &rc.Request
		if err := req.Read(ours, conn); err != nil || conn.fault != "" || conn.version {
			return
		}
		left := conn.Conn.Len()

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
			t.Fatalf("%q: they find the body broken (%v), we read %q", raw, err, ours.Body())
		}
		if string(ours.Method()) != theirs.Method || !bytes.Equal(ours.Body(), body) {
			t.Fatalf("%q: we read %s %q, they read %s %q", raw, ours.Method(), ours.Body(), theirs.Method, body)
		}
		if rest := buffered.Buffered(); rest != left {
			t.Fatalf("%q: %d bytes are left for us, %d for them", raw, left, rest)
		}
	}))
}

// sentWhole is a client that has sent all it will.
type sentWhole struct {
	network.Conn
	reader network.Reader
}

func (s *sentWhole) Peek(n int) ([]byte, error)       { return s.reader.Peek(n) }
func (s *sentWhole) Skip(n int) error                 { return s.reader.Skip(n) }
func (s *sentWhole) Len() int                         { return s.reader.Len() }
func (s *sentWhole) ReadByte() (byte, error)          { return s.reader.ReadByte() }
func (s *sentWhole) ReadBinary(n int) ([]byte, error) { return s.reader.ReadBinary(n) }
func (s *sentWhole) Release() error                   { return s.reader.Release() }
