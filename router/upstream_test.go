package router

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/router/http1"
)

// eachUpstream runs a test over both ways to a provider: our own client, and net/http's pool. They promise the same.
func eachUpstream(t *testing.T, test func(t *testing.T, u *upstreamTest)) {
	timeouts := Timeouts{Dial: 5 * time.Second, TLS: 5 * time.Second}
	for name, newOf := range map[string]func(*url.URL) upstream{
		"http1":    func(base *url.URL) upstream { return newDirect(base, timeouts) },
		"net/http": func(*url.URL) upstream { return newTransport(timeouts, false, false) },
	} {
		t.Run(name, func(t *testing.T) {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			u := &upstreamTest{t: t, listener: listener, base: &url.URL{Scheme: "http", Host: listener.Addr().String()}}
			u.upstream = newOf(u.base)
			t.Cleanup(func() { _ = listener.Close(); u.close() })
			test(t, u)
		})
	}
}

type upstreamTest struct {
	upstream
	t        *testing.T
	listener net.Listener
	base     *url.URL
	accepted atomic.Int32
}

// serve answers every request on every connection with what the script gives for it: n counts requests from 1. "" closes
// the connection without an answer, and so does an answer that ends in "\x00", after it.
func (u *upstreamTest) serve(script func(n int, request string) string) {
	var requests atomic.Int32
	go func() {
		for {
			conn, err := u.listener.Accept()
			if err != nil {
				return
			}
			u.accepted.Add(1)
			go func() {
				defer func() { _ = conn.Close() }()
				reader := bufio.NewReader(conn)
				for {
					r, err := http.ReadRequest(reader)
					if err != nil {
						return
					}
					body, _ := io.ReadAll(r.Body)
					answer := script(int(requests.Add(1)), r.Method+" "+r.RequestURI+" "+r.Host+" "+r.Header.Get("X-Test")+" "+string(body))
					if _, err := io.WriteString(conn, strings.TrimSuffix(answer, "\x00")); err != nil || answer == "" || strings.HasSuffix(answer, "\x00") {
						return
					}
				}
			}()
		}
	}()
}

// ask sends a request and reads the answer.
func (u *upstreamTest) ask(ctx context.Context, body string) (status int, answer string, err error) {
	target := *u.base
	target.Path, target.RawQuery = "/v1/messages", "beta=true"
	cutoff := new(http1.Cutoff)
	defer cutoff.Cut()
	in, err := u.do(ctx, outgoing{
		method: http.MethodPost, url: &target, header: fields("X-Test: a"),
		size: int64(len(body)), body: &payload{data: []byte(body)}, cutoff: cutoff,
	})
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = in.body.Close() }()
	read, err := io.ReadAll(in.body)
	return in.status, string(read), err
}

func ok(body string) string {
	return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

func TestBothUpstreamsSendWhatTheyAreGiven(t *testing.T) {
	eachUpstream(t, func(t *testing.T, u *upstreamTest) {
		u.serve(func(_ int, request string) string { return ok(request) })
		for _, body := range []string{`{"a":1}`, strings.Repeat("x", 300<<10)} {
			want := "POST /v1/messages?beta=true " + u.base.Host + " a " + body
			if status, got, err := u.ask(t.Context(), body); err != nil || status != 200 || got != want {
				t.Errorf("status %d, %v; %d bytes came back, want %d", status, err, len(got), len(want))
			}
		}
		if n := u.accepted.Load(); n != 1 {
			t.Errorf("%d connections for two requests in a row", n)
		}
	})
}

func TestBothUpstreamsEndAnswersWhereTheirFramingSays(t *testing.T) {
	for name, c := range map[string]struct {
		answer, want string
		broken       bool
	}{
		"a length":                {answer: ok("hello"), want: "hello"},
		"chunks":                  {answer: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n", want: "hello"},
		"the connection's end":    {answer: "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello\x00", want: "hello"},
		"nothing":                 {answer: "HTTP/1.1 204 No Content\r\n\r\n"},
		"an interim answer first": {answer: "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + ok("hello"), want: "hello"},
		"a length that is cut":    {answer: "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello\x00", want: "hello", broken: true},
		"chunks that are cut":     {answer: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n\x00", want: "hello", broken: true},
	} {
		t.Run(name, func(t *testing.T) {
			eachUpstream(t, func(t *testing.T, u *upstreamTest) {
				u.serve(func(int, string) string { return c.answer })
				_, got, err := u.ask(t.Context(), "{}")
				if got != c.want || (err != nil) != c.broken {
					t.Errorf("read %q, %v", got, err)
				}
			})
		})
	}
}

func TestNeitherUpstreamTakesWhatNobodyAskedFor(t *testing.T) {
	eachUpstream(t, func(t *testing.T, u *upstreamTest) {
		u.serve(func(n int, _ string) string {
			if n == 1 {
				return ok("first") + ok("stray")
			}
			return ok("second")
		})
		for _, want := range []string{"first", "second"} {
			if _, got, err := u.ask(t.Context(), "{}"); err != nil || got != want {
				t.Errorf("read %q, %v, want %q", got, err, want)
			}
		}
	})
}

func TestNeitherUpstreamRepeatsWhatMayHaveBeenRead(t *testing.T) {
	eachUpstream(t, func(t *testing.T, u *upstreamTest) {
		var seen atomic.Int32
		u.serve(func(n int, _ string) string {
			seen.Add(1)
			if n == 1 {
				return ok("warm")
			}
			return ""
		})
		if _, _, err := u.ask(t.Context(), "{}"); err != nil {
			t.Fatal(err)
		}
		if _, _, err := u.ask(t.Context(), "{}"); !errors.Is(err, http1.ErrSent) {
			t.Errorf("the error is %v, want one that says that the request was sent", err)
		}
		if n := seen.Load(); n != 2 {
			t.Errorf("the provider read %d requests", n)
		}
	})
}

func TestBothUpstreamsEndWithTheirCaller(t *testing.T) {
	head := "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nbeginning"
	for phase, answer := range map[string]string{"before the answer": "HTTP/1.1", "inside it": head} {
		t.Run(phase, func(t *testing.T) {
			eachUpstream(t, func(t *testing.T, u *upstreamTest) {
				ctx, leave := context.WithCancel(t.Context())
				u.serve(func(int, string) string {
					time.AfterFunc(20*time.Millisecond, leave)
					return answer
				})
				if _, got, err := u.ask(ctx, "{}"); err == nil {
					t.Errorf("read %q as a whole answer", got)
				}
			})
		})
	}
}

func TestBothUpstreamsRefuseAHeadWithoutEnd(t *testing.T) {
	eachUpstream(t, func(t *testing.T, u *upstreamTest) {
		u.serve(func(int, string) string {
			return "HTTP/1.1 200 OK\r\nX-Long: " + strings.Repeat("x", 2*maxResponseHeader) + "\r\nContent-Length: 0\r\n\r\n"
		})
		if _, _, err := u.ask(t.Context(), "{}"); err == nil {
			t.Error("a head of half a megabyte was taken")
		}
	})
}
