package http1

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// An origin is a server whose connections are served by a script, which is given the number of the connection from 0.
type origin struct {
	net.Listener
	opened atomic.Int32
}

func serve(t testing.TB, script func(n int, c net.Conn, in *bufio.Reader)) *origin {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o := &origin{Listener: listener}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			n := int(o.opened.Add(1)) - 1
			serving.Go(func() {
				defer c.Close()
				script(n, c, bufio.NewReader(c))
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		serving.Wait()
	})
	return o
}

// answering serves every request with the same bytes.
func answering(t testing.TB, answer string) *origin {
	return serve(t, func(_ int, c net.Conn, in *bufio.Reader) {
		for awaitRequest(in) {
			_, _ = io.WriteString(c, answer)
		}
	})
}

func awaitRequest(in *bufio.Reader) bool {
	r, err := http.ReadRequest(in)
	if err != nil {
		return false
	}
	_, err = io.Copy(io.Discard, r.Body)
	return err == nil
}

func client(t testing.TB, o *origin) *Client {
	c := NewClient(Options{
		Address: o.Addr().String(), Host: o.Addr().String(), Dial: (&net.Dialer{}).DialContext,
		TLSHandshake: time.Minute, Idle: time.Minute, MaxIdle: 4, MaxHead: 8 << 10,
	})
	t.Cleanup(c.Close)
	return c
}

func request() *Request {
	return &Request{Method: "POST", Target: "/v1/chat?beta=true", Fields: []Field{{"Authorization", "Bearer k"}, {"Accept", "text/event-stream"}}, Body: []byte("hello")}
}

// ask returns the whole answer to one request.
func ask(t testing.TB, c *Client) (status int, body string, err error) {
	t.Helper()
	res, err := c.Do(t.Context(), request())
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = res.Close() }()
	all, err := io.ReadAll(res)
	return res.Status, string(all), err
}

func TestARequestLeavesAsItShould(t *testing.T) {
	const head = "POST /v1/chat?beta=true HTTP/1.1\r\nHost: HOST\r\nAuthorization: Bearer k\r\nAccept: text/event-stream\r\nContent-Length: 5\r\n\r\nhello"
	got := make(chan string, 1)
	o := serve(t, func(_ int, c net.Conn, _ *bufio.Reader) {
		b := make([]byte, 4096)
		n, _ := c.Read(b) // in one piece
		got <- string(b[:n])
		_, _ = io.WriteString(c, "HTTP/1.1 204 No Content\r\n\r\n")
	})
	if status, body, err := ask(t, client(t, o)); status != 204 || body != "" || err != nil {
		t.Errorf("%d %q %v", status, body, err)
	}
	if want := strings.Replace(head, "HOST", o.Addr().String(), 1); <-got != want {
		t.Errorf("want %q", want)
	}
}

func TestAnswersEndWhereTheirFramingSays(t *testing.T) {
	for name, x := range map[string]struct {
		answer string
		status int
		body   string
		kept   bool // the connection serves the next request, too
	}{
		"by length":                   {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", 200, "hi", true},
		"by length, said twice":       {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nhi", 200, "hi", true},
		"of no length":                {"HTTP/1.1 429 Slow down\r\nContent-Length: 0\r\n\r\n", 429, "", true},
		"without a body":              {"HTTP/1.1 204 No Content\r\n\r\n", 204, "", true},
		"without a reason":            {"HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nhi", 200, "hi", true},
		"with bare line feeds":        {"HTTP/1.1 200 OK\nContent-Length: 2\n\nhi", 200, "hi", true},
		"in chunks":                   {"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n1\r\nh\r\n1\r\ni\r\n0\r\n\r\n", 200, "hi", true},
		"in chunks, with a trailer":   {"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nA: b\r\n\r\n", 200, "hi", true},
		"behind interim answers":      {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", 200, "hi", true},
		"and close the connection":    {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: x, Close\r\n\r\nhi", 200, "hi", false},
		"of HTTP/1.0":                 {"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi", 200, "hi", false},
		"with more than was asked":    {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhiHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwrong", 200, "hi", false},
		"in chunks, with more behind": {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwrong", 200, "hi", false},
		"without a body, with more":   {"HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwrong", 204, "", false},
		"by both framings":            {"HTTP/1.1 200 OK\r\nContent-Length: 100\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n", 200, "hi", false},
		"in another protocol":         {"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\nxyz", 101, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			o := answering(t, x.answer)
			c := client(t, o)
			for range 2 {
				if status, body, err := ask(t, c); status != x.status || body != x.body || err != nil {
					t.Errorf("%d %q %v", status, body, err)
				}
			}
			if kept := o.opened.Load() == 1; kept != x.kept {
				t.Errorf("%d connections were opened", o.opened.Load())
			}
		})
	}
}

func TestTheEndOfTheConnectionEndsAnAnswerWithoutFraming(t *testing.T) {
	o := serve(t, func(_ int, c net.Conn, in *bufio.Reader) {
		awaitRequest(in)
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\nhi")
	})
	if status, body, err := ask(t, client(t, o)); status != 200 || body != "hi" || err != nil {
		t.Errorf("%d %q %v", status, body, err)
	}
}

func TestAnswersThatTwoReadersCouldSeeDifferentlyAreRefused(t *testing.T) {
	for name, answer := range map[string]string{
		"two lengths":            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nhi",
		"a list of lengths":      "HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\nhi",
		"a signed length":        "HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nhi",
		"a negative length":      "HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\nhi",
		"a length over 2^63":     "HTTP/1.1 200 OK\r\nContent-Length: 9223372036854775808\r\n\r\nhi",
		"another coding":         "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
		"two codings":            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
		"a coding in HTTP/1.0":   "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
		"a blank before a colon": "HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\nhi",
		"a folded line":          "HTTP/1.1 200 OK\r\nX-A: 1\r\n Content-Length: 5\r\nContent-Length: 2\r\n\r\nhi",
		"a NUL":                  "HTTP/1.1 200 OK\r\nX-A: \x00\r\nContent-Length: 2\r\n\r\nhi",
		"a bare CR":              "HTTP/1.1 200 OK\r\nX-A: 1\rContent-Length: 5\r\nContent-Length: 2\r\n\r\nhi",
		"a line without a colon": "HTTP/1.1 200 OK\r\nX-A\r\nContent-Length: 2\r\n\r\nhi",
		"a status of two digits": "HTTP/1.1 20 OK\r\nContent-Length: 2\r\n\r\nhi",
		"a status below 100":     "HTTP/1.1 099 OK\r\nContent-Length: 2\r\n\r\nhi",
		"a longer status":        "HTTP/1.1 2000 OK\r\nContent-Length: 2\r\n\r\nhi",
		"another version":        "HTTP/2.0 200 OK\r\nContent-Length: 2\r\n\r\nhi",
		"no HTTP":                "SSH-2.0-OpenSSH_9.9\r\n",
		"a blank line first":     "\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
	} {
		o := answering(t, answer)
		if status, body, err := ask(t, client(t, o)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %d %q %v", name, status, body, err)
		}
	}
}

func TestAHeadOverTheLimitIsRefused(t *testing.T) {
	for name, answer := range map[string]string{
		"one line":        "HTTP/1.1 200 OK\r\nX-A: " + strings.Repeat("a", 9<<10) + "\r\n\r\n",
		"interim answers": strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n", 1000),
	} {
		if _, _, err := ask(t, client(t, answering(t, answer))); !errors.Is(err, ErrHeadTooLarge) {
			t.Errorf("%s: %v", name, err)
		}
	}
	within := "HTTP/1.1 200 OK\r\nX-A: " + strings.Repeat("a", 7<<10) + "\r\nContent-Length: 2\r\n\r\nhi"
	if _, body, err := ask(t, client(t, answering(t, within))); body != "hi" || err != nil {
		t.Errorf("%q %v", body, err)
	}
}

func TestNothingInARequestCanEndALine(t *testing.T) {
	c := NewClient(Options{Dial: func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe() // a write would wait for ever
		t.Cleanup(func() { _ = theirs.Close() })
		return ours, nil
	}, Host: "h", MaxHead: 1 << 10})
	for _, r := range []Request{
		{Method: "POST /x HTTP/1.1\r\nA: b", Target: "/"},
		{Method: "POST", Target: "/ HTTP/1.1\r\nA: b"},
		{Method: "POST", Target: ""},
		{Method: "POST", Target: "/", Fields: []Field{{"A", "b\r\nC: d"}}},
		{Method: "POST", Target: "/", Fields: []Field{{"A\nB", "b"}}},
		{Method: "POST", Target: "/", Fields: []Field{{"A:", "b"}}},
		{Method: "POST", Target: "/", Fields: []Field{{"", "b"}}},
	} {
		if _, err := c.Do(t.Context(), &r); !errors.Is(err, ErrField) {
			t.Errorf("%s %q %q: %v", r.Method, r.Target, r.Fields, err)
		}
	}
}

// Bytes on an idle connection would be taken for the answer to the next request, which may be another client's.
func TestAnAnswerThatNobodyAskedForIsNeverGiven(t *testing.T) {
	said := make(chan struct{})
	o := serve(t, func(n int, c net.Conn, in *bufio.Reader) {
		for awaitRequest(in) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")
			if n == 0 {
				<-said
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwrong")
				said <- struct{}{}
			}
		}
	})
	c := client(t, o)
	if _, body, err := ask(t, c); body != "hi" || err != nil {
		t.Fatalf("%q %v", body, err)
	}
	said <- struct{}{}
	<-said
	if _, body, err := ask(t, c); body != "hi" || err != nil {
		t.Errorf("%q %v", body, err)
	}
}

// cutting closes the connections below n when they have read their second request.
func cutting(t *testing.T, below int, before string) (o *origin, requests *atomic.Int32) {
	requests = new(atomic.Int32)
	o = serve(t, func(n int, c net.Conn, in *bufio.Reader) {
		for i := 0; awaitRequest(in); i++ {
			requests.Add(1)
			if n < below && i == 1 {
				_, _ = io.WriteString(c, before)
				return
			}
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")
		}
	})
	return o, requests
}

// It may be at work, and paid for, and crash the next worker as it did the first.
func TestARequestThatMayHaveBeenReadIsSentOnce(t *testing.T) {
	for name, x := range map[string]struct {
		before string
		err    error
	}{
		"nothing came":           {"", io.EOF},
		"something came":         {"HTTP/1.1 2", io.ErrUnexpectedEOF},
		"an interim answer came": {"HTTP/1.1 103 Early Hints\r\n\r\n", io.ErrUnexpectedEOF},
	} {
		t.Run(name, func(t *testing.T) {
			o, requests := cutting(t, 1, x.before)
			c := client(t, o)
			if _, body, err := ask(t, c); body != "hi" || err != nil {
				t.Fatalf("%q %v", body, err)
			}
			if _, _, err := ask(t, c); !errors.Is(err, x.err) {
				t.Error(err)
			}
			if n := requests.Load(); n != 2 {
				t.Errorf("%d requests were sent", n)
			}
		})
	}
}

// A hook is called before each write to a connection.
type hooked struct {
	*net.TCPConn
	before func()
}

func (h hooked) Write(p []byte) (int, error) {
	h.before()
	return h.TCPConn.Write(p)
}

// A server that closes without a word, as some do after each answer, and the next request cross each other. That is told from
// a server that has read the request and then closes.
func TestARequestThatCrossedTheEndOfItsConnectionIsKnownToBeUnread(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells what has been acknowledged")
	}
	for _, secure := range []bool{false, true} {
		for _, crossed := range []bool{true, false} {
			end, ended := make(chan struct{}), make(chan struct{})
			script := func(_ int, c net.Conn, in *bufio.Reader) {
				awaitRequest(in)
				_, _ = io.WriteString(c, honest)
				if crossed {
					<-end
				} else {
					awaitRequest(in)
				}
				_ = c.Close()
				close(ended)
			}
			var c *Client
			if secure {
				_, c = secured(t, tls.VersionTLS13, func(n int, c *tls.Conn, _ *segmented, in *bufio.Reader) { script(n, c, in) })
			} else {
				c = client(t, serve(t, script))
			}
			before := func() {}
			c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
				socket, err := (&net.Dialer{}).DialContext(ctx, network, address)
				return hooked{socket.(*net.TCPConn), func() { before() }}, err
			}
			if _, body, err := ask(t, c); body != "honest" || err != nil {
				t.Fatalf("%q %v", body, err)
			}
			if crossed {
				before = func() { close(end); <-ended }
			}
			_, _, err := ask(t, c)
			if !errors.Is(err, ErrSent) || errors.Is(err, ErrUnread) != crossed {
				t.Errorf("TLS %v, crossed %v: %v", secure, crossed, err)
			}
		}
	}
}

// A mute connection is one on which nothing can be written any more, which shows only when that is tried.
type mute struct {
	net.Conn
	is *atomic.Bool
}

func (m mute) Write(p []byte) (int, error) {
	if m.is.Load() {
		return 0, syscall.EPIPE
	}
	return m.Conn.Write(p)
}

func TestKeptConnectionsThatTakeNothingArePassedOver(t *testing.T) {
	o := answering(t, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")
	c := client(t, o)
	var dead atomic.Bool
	const kept = 4
	dials := 0
	c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		socket, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if dials++; dials > kept {
			return socket, err
		}
		return mute{socket, &dead}, err
	}
	var open []*Response
	for range kept { // at the same time, so that each has a connection of its own
		res, err := c.Do(t.Context(), request())
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, res)
	}
	for _, res := range open {
		if _, err := io.ReadAll(res); err != nil {
			t.Fatal(err)
		}
	}
	dead.Store(true)
	if _, body, err := ask(t, c); body != "hi" || err != nil {
		t.Errorf("%q %v", body, err)
	}
	if dials != kept+1 {
		t.Errorf("%d connections were opened", dials)
	}
}

// What is sent is the caller's buffer, which carries another request as soon as this one is over.
func TestABodyIsNotReadWhenTheAnswerHasBeenClosed(t *testing.T) {
	over := make(chan struct{})
	o := serve(t, func(_ int, c net.Conn, in *bufio.Reader) {
		_, _ = in.ReadByte() // and no more
		_, _ = io.WriteString(c, "HTTP/1.1 413 Content Too Large\r\nContent-Length: 2\r\n\r\nno")
		<-over
	})
	t.Cleanup(func() { close(over) })
	c, body := client(t, o), make([]byte, 16<<20) // more than the sockets hold
	for range 3 {
		r := request()
		r.Body = body
		res, err := c.Do(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(res); string(text) != "no" || err != nil {
			t.Errorf("%q %v", text, err)
		}
		_ = res.Close()
		clear(body) // the race detector sees who still reads it
	}
}

func TestAnAnswerIsReadFromAProviderThatClosesBeforeTheRequestIsWhole(t *testing.T) {
	o := serve(t, func(_ int, c net.Conn, in *bufio.Reader) {
		_, _ = in.ReadByte()
		_, _ = io.WriteString(c, "HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno")
		_ = c.(*net.TCPConn).CloseWrite()
		_, _ = io.Copy(io.Discard, c)
	})
	r := request()
	r.Body = make([]byte, 4<<20)
	res, err := client(t, o).Do(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Close() }()
	if text, err := io.ReadAll(res); res.Status != 401 || string(text) != "no" || err != nil {
		t.Errorf("%d %q %v", res.Status, text, err)
	}
}

func TestLargeBodiesArriveWholeOnKeptConnections(t *testing.T) {
	sizes := make(chan int64, 1)
	o := serve(t, func(_ int, c net.Conn, in *bufio.Reader) {
		for {
			r, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			n, _ := io.Copy(io.Discard, r.Body)
			sizes <- n
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")
		}
	})
	c := client(t, o)
	for _, size := range []int{0, inlineBody, inlineBody + 1, 1 << 20} {
		r := request()
		r.Body = bytes.Repeat([]byte("x"), size)
		res, err := c.Do(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(res); string(text) != "hi" || err != nil {
			t.Errorf("%q %v", text, err)
		}
		if got := <-sizes; got != int64(size) {
			t.Errorf("%d of %d bytes arrived", got, size)
		}
	}
	if n := o.opened.Load(); n != 1 {
		t.Errorf("%d connections were opened", n)
	}
}

// piped is a client whose connections are pipes with a server that answers everything, so that time can be a test's own.
func piped(closed *atomic.Int32) *Client {
	return NewClient(Options{
		Host: "h", Idle: 45 * time.Second, MaxIdle: 2, MaxHead: 1 << 10,
		Dial: func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			go func() {
				in := bufio.NewReader(theirs)
				for awaitRequest(in) {
					_, _ = io.WriteString(theirs, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")
				}
				closed.Add(1)
			}()
			return ours, nil
		},
	})
}

func TestIdleConnectionsAreClosedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var closed atomic.Int32
		c := piped(&closed)
		hold := func(n int) (open []*Response) {
			for range n {
				res, err := c.Do(t.Context(), request())
				if err != nil {
					t.Fatal(err)
				}
				open = append(open, res)
			}
			return open
		}
		finish := func(open []*Response) {
			for _, res := range open {
				_, _ = io.ReadAll(res)
			}
		}
		expect := func(want int32) {
			t.Helper()
			synctest.Wait()
			if n := closed.Load(); n != want {
				t.Errorf("%d connections are closed, not %d", n, want)
			}
		}
		finish(hold(3))
		expect(1) // more than are kept
		time.Sleep(30 * time.Second)
		finish(hold(1))
		time.Sleep(16 * time.Second)
		expect(2) // unused for 46 s
		time.Sleep(30 * time.Second)
		expect(3)
		open := hold(2)
		finish(open[:1])
		c.Close()
		expect(4)
		finish(open[1:])
		expect(5) // not kept any more
	})
}

func TestClosingAnAnswerEarlyClosesItsConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var closed atomic.Int32
		c := piped(&closed)
		res, err := c.Do(t.Context(), request())
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			_ = res.Close()
		}
		if _, err := res.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
		synctest.Wait()
		if closed.Load() != 1 {
			t.Error("the connection is open")
		}
	})
}

func TestAResetIsToldFromAnEnd(t *testing.T) {
	read := make(chan struct{})
	o := serve(t, func(_ int, c net.Conn, in *bufio.Reader) {
		awaitRequest(in)
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhi")
		<-read
		_ = c.(*net.TCPConn).SetLinger(0)
	})
	res, err := client(t, o).Do(t.Context(), request())
	if err != nil {
		t.Fatal(err)
	}
	close(read)
	text, err := io.ReadAll(res)
	if string(text) != "hi" || !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("%q %v", text, err)
	}
}
