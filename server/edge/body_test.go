package edge

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/cloudwego/hertz/pkg/app"

	"github.com/mnemeproxy/mneme/codec"
)

// arriving is a connection on which a body comes in pieces of a size, after a head that announces it so.
func arriving(t *testing.T, length int64, sent string, piece int) (*connection, *sending) {
	t.Helper()
	all := &connections{limits: connectionLimits{head: 1 << 10, body: 1 << 20}, memory: NewBudget(4<<20, nil), timeout: time.Hour}
	from := &sending{rest: sent, piece: piece}
	c := &connection{wire: wire{Conn: from, memory: all.memory}, all: all, rc: app.NewContext(0)}
	c.request, c.response = Request{rc: c.rc, conn: c}, Response{rc: c.rc, conn: c}
	c.rc.Request.Header.SetContentLength(int(length))
	c.body.hide(c)
	return c, from
}

// sending is a client that sends at most so many bytes at a time.
type sending struct {
	net.Conn
	rest  string
	piece int
	got   bytes.Buffer
}

func (s *sending) Read(p []byte) (int, error) {
	if s.rest == "" {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), s.piece)], s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

func (s *sending) Write(p []byte) (int, error)   { return s.got.Write(p) }
func (*sending) SetReadDeadline(time.Time) error { return nil }

func TestABodyIsReadToItsEndAndNoFurther(t *testing.T) {
	const next = "GET / HTTP/1.1\r\n"
	for _, c := range []struct{ name, sent, want string }{
		{"one chunk", "5\r\nhello\r\n0\r\n\r\n", "hello"},
		{"chunks", "5\r\nhello\r\n1 \r\n,\r\n6\r\n world\r\n0\r\n\r\n", "hello, world"},
		{"leading zeros", "0005\r\nhello\r\n000\r\n\r\n", "hello"},
		{"capitals", "A\r\n0123456789\r\n0\r\n\r\n", "0123456789"},
		{"trailers", "5\r\nhello\r\n0\r\nX: y\r\nZ: z\r\n\r\n", "hello"},
		{"nothing", "0\r\n\r\n", ""},
	} {
		for piece := range 20 {
			conn, from := arriving(t, chunkedLength, c.sent+next, piece+1)
			got, err := io.ReadAll(&conn.body)
			rest, _ := conn.wire.Peek(conn.Len())
			if string(got) != c.want || err != nil || string(rest)+from.rest != next {
				t.Errorf("%s in pieces of %d: %q, %v, and %q is left", c.name, piece+1, got, err, string(rest)+from.rest)
			}
		}
	}
}

func TestABodyOfKnownLengthIsReadAsItArrives(t *testing.T) {
	for _, size := range []int{1, 4095, 4096, 5000, firstRoom, firstRoom + 1, 700 << 10, 1 << 20} {
		text := strings.Repeat("x", size)
		conn, from := arriving(t, int64(size), text+"next", 1500)
		share := conn.all.memory.Share()
		got, err := (&Request{conn: conn}).ReadBody(&share)
		rest, _ := conn.wire.Peek(conn.Len())
		if string(got) != text || err != nil || string(rest)+from.rest != "next" {
			t.Errorf("%d bytes: %d were read, %v, and %q is left", size, len(got), err, string(rest)+from.rest)
		}
		if share.Taken() != int64(cap(got)) || cap(got) > size+1 {
			t.Errorf("%d bytes take %d, and %d are charged", size, cap(got), share.Taken())
		}
		share.GiveAll()
		conn.end()
		if used := conn.all.memory.Used(); used != 0 {
			t.Errorf("%d bytes: %d are still charged", size, used)
		}
	}
}

func TestMalformedChunksEndTheBody(t *testing.T) {
	for _, c := range []struct {
		sent   string
		status int
	}{
		{"\r\n", 400},
		{"x", 400},
		{"5;a=b\r\nhello\r\n", 400},
		{"-1\r\n", 400},
		{" 5\r\nhello", 400},
		{"5\nhello", 400},
		{"5\r\nhellohello", 400},
		{"5\r\nhello\n0\r\n\r\n", 400},
		{"5 5\r\n", 400},
		{strings.Repeat("0", 17) + "\r\n", 400},
		{"5" + strings.Repeat(" ", 65), 400},
		{"0\r\nX: y\n\r\n", 400},
		{"0\r\n X: y\r\n\r\n", 400},
		{"0\r\nContent-Length: 5\r\n\r\n", 400},
		{"FFFFF\r\n" + strings.Repeat("x", 0xFFFFF) + "\r\n2\r\nxx\r\n", 413},
		{"7FFFFFFFFFFFFFF\r\n", 413},
		{"FFFFFFFFFFFFFFFF\r\n", 400},
		{"0\r\nX: " + strings.Repeat("x", 2<<10), 431},
	} {
		conn, _ := arriving(t, chunkedLength, c.sent, 1000)
		_, err := io.Copy(io.Discard, &conn.body)
		if known := new(codec.Error); !errors.As(err, &known) || conn.body.status != c.status {
			t.Errorf("%.30q: %v, status %d and not %d", c.sent, err, conn.body.status, c.status)
		}
	}
}

func TestABodyThatBreaksOffIsNotWhole(t *testing.T) {
	for _, sent := range []string{"", "5", "5\r", "5\r\nhell", "5\r\nhello", "5\r\nhello\r\n", "5\r\nhello\r\n0\r\n", "5\r\nhello\r\n0\r\nX: y"} {
		conn, _ := arriving(t, chunkedLength, sent, 3)
		if _, err := io.Copy(io.Discard, &conn.body); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%q ends with %v", sent, err)
		}
	}
	conn, _ := arriving(t, 6, "hello", 3)
	if _, err := io.Copy(io.Discard, &conn.body); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("five bytes of six end with %v", err)
	}
}

// A client that announces a large body gets no room for it until it has sent a good part.
func TestRoomIsMadeForBytesThatHaveArrived(t *testing.T) {
	conn, _ := arriving(t, 1<<20, strings.Repeat("x", firstRoom-1), 1000)
	share := conn.all.memory.Share()
	if _, err := (&Request{conn: conn}).ReadBody(&share); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatal(err)
	}
	if share.Taken() > firstRoom {
		t.Errorf("%d bytes were taken for %d", share.Taken(), firstRoom-1)
	}
}

func TestABodyWithoutRoomIsRefusedBeforeItIsRead(t *testing.T) {
	for name, length := range map[string]int64{"with a length": 900 << 10, "in chunks": chunkedLength} {
		sent := strings.Repeat("x", 900<<10)
		if length == chunkedLength {
			sent = "E1000\r\n" + sent + "\r\n0\r\n\r\n"
		}
		conn, from := arriving(t, length, sent, 10_000)
		conn.all.memory.Take(4<<20 - 200<<10)
		share := conn.all.memory.Share()
		_, err := (&Request{conn: conn}).ReadBody(&share)
		if !errors.Is(err, ErrNoMemory) || len(from.rest) < 500<<10 {
			t.Errorf("%s: %v, with %d bytes unread", name, err, len(from.rest))
		}
		share.GiveAll()
		conn.end()
		if used := conn.all.memory.Used(); used != 4<<20-200<<10 {
			t.Errorf("%s: %d bytes are charged", name, used)
		}
	}
}

func TestAClientIsToldToSendItsBodyWhenThatIsRead(t *testing.T) {
	conn, from := arriving(t, 5, "hello", 5)
	conn.body.expected = true
	if conn.body.skipBuffered() || from.got.Len() > 0 {
		t.Errorf("for a body that is not wanted the client was told %q", &from.got)
	}
	if got, err := io.ReadAll(&conn.body); string(got) != "hello" || err != nil || from.got.String() != "HTTP/1.1 100 Continue\r\n\r\n" {
		t.Errorf("read %q, %v; the client was told %q", got, err, &from.got)
	}
}

func TestAnUnreadBodyIsSkippedWhereThatIsCheap(t *testing.T) {
	for _, c := range []struct {
		name     string
		length   int64
		buffered string
		closes   bool
	}{
		{"none", 0, "", false},
		{"buffered", 5, "hello", false},
		{"a short rest", 9, "hello", false},
		{"a long rest", shortRest + 6, "hello", true},
		{"chunks that are buffered", chunkedLength, "5\r\nhello\r\n0\r\n\r\n", false},
		{"chunks to come", chunkedLength, "5\r\nhello\r\n", true},
	} {
		conn, _ := arriving(t, c.length, c.buffered, 100)
		if c.buffered != "" {
			if _, err := conn.wire.Peek(len(c.buffered)); err != nil {
				t.Fatal(err)
			}
		}
		conn.settleBody()
		if conn.lingers != c.closes || conn.rc.Response.ConnectionClose() != c.closes {
			t.Errorf("%s: lingers is %t", c.name, conn.lingers)
		}
	}
}

func TestABodyThatCannotBeReadDecidesTheStatus(t *testing.T) {
	conn, _ := arriving(t, chunkedLength, "nonsense", 100)
	_, _ = io.ReadAll(&conn.body)
	conn.rc.Response.SetStatusCode(http.StatusTeapot)
	conn.settleBody()
	if got := conn.rc.Response.StatusCode(); got != http.StatusBadRequest || !conn.lingers {
		t.Errorf("status %d", got)
	}
}
