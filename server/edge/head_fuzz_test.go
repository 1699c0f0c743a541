package edge

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/cloudwego/hertz/pkg/common/test/mock"
	"github.com/cloudwego/hertz/pkg/protocol"
	"github.com/cloudwego/hertz/pkg/protocol/http1/req"
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
		"GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "GET /\r\n\r\n", "GET http://b/ HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if len(raw) > 4<<10 {
			t.Skip() // the reader of the test takes no more at a time
		}
		var ours protocol.Request
		reader := mock.NewZeroCopyReader(string(raw))
		if err := req.Read(&ours, reader); err != nil || ambiguous(ours.Header.RawHeaders(), ours.Header.IsHTTP11(), []string{"Host"}) != "" {
			return // turned away, and the connection closed
		}
		left := reader.Len()

		buffered := bufio.NewReaderSize(bytes.NewReader(raw), len(raw)+16)
		theirs, err := http.ReadRequest(buffered)
		if err != nil {
			return // they turn it away
		}
		body, err := io.ReadAll(theirs.Body)
		if err != nil && left == 0 && bytes.HasSuffix(raw, []byte("\r\n")) {
			return // cut behind the last chunk: nothing can follow that two readers could take for another request
		}
		if err != nil && strings.Contains(err.Error(), "EOF reading trailer") {
			return // cut inside a trailer, which connections judge before this reader sees it
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
	})
}
