//go:build unix

package fuzz_test

import (
	"context"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/fuzz/mutant"
	"github.com/mnemeproxy/mneme/router/http1"
)

// A scripted connection is a socket whose peer sends an answer for each request: complete, or in two pieces, of which
// the second arrives when more is read.
type scripted struct {
	*net.UnixConn
	other   net.Conn
	answers [][2]string
	rest    string
}

func newScripted(t *testing.T, answers ...[2]string) *scripted {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	var ends [2]net.Conn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "")
		ends[i], err = net.FileConn(f)
		_ = f.Close()
		if err != nil {
			t.Fatal(err)
		}
	}
	return &scripted{UnixConn: ends[0].(*net.UnixConn), other: ends[1], answers: answers}
}

func (s *scripted) Write(p []byte) (int, error) {
	next := [2]string{}
	if len(s.answers) > 0 {
		next, s.answers = s.answers[0], s.answers[1:]
	}
	s.rest = next[1]
	_, _ = io.WriteString(s.other, next[0])
	if next[0] == "" {
		_ = s.other.Close()
	}
	return len(p), nil
}

// Read ends if nothing has arrived, since nothing will.
func (s *scripted) Read(p []byte) (n int, err error) {
	_, _ = io.WriteString(s.other, s.rest)
	s.rest = ""
	raw, err := s.SyscallConn()
	if err != nil {
		return 0, err
	}
	_ = raw.Read(func(fd uintptr) bool { n, err = syscall.Read(int(fd), p); return true })
	if err != nil || n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

func (s *scripted) Close() error {
	_ = s.other.Close()
	return s.UnixConn.Close()
}

// FuzzKeptConnection lets a provider answer one request with anything, and all others correctly. The connection is kept
// only if the next answer belongs to the next request.
func FuzzKeptConnection(f *testing.F) {
	const well = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nwell"
	for _, first := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhiHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nstray",
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhiHTTP/1.1 100 Continue\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nA: b\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nstray",
		"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 204 No Content\r\nContent-Length: 3\r\n\r\nabc",
		"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\nstray",
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nhi",
	} {
		for _, cut := range []int{len(first), len(first) - 2, 20, 45} {
			f.Add(first, cut)
		}
	}
	f.Fuzz(mutant.Each(200, func(t *testing.T, first string, cut int) {
		if first == "" || len(first) > 1<<13 {
			return
		}
		cut = min(max(cut, 1), len(first))
		honest := [2]string{well, ""}
		dials := 0
		c := http1.NewClient(http1.Options{
			Host: "h", MaxHead: 1 << 16, MaxIdle: 1, Idle: time.Minute,
			Dial: func(context.Context, string, string) (net.Conn, error) {
				if dials++; dials == 1 {
					return newScripted(t, [2]string{first[:cut], first[cut:]}, honest), nil
				}
				return newScripted(t, honest), nil
			},
		})
		defer c.Close()
		ask := func() (int, string, error) {
			res, err := c.Do(context.Background(), &http1.Request{Method: "POST", Target: "/", Body: []byte("x")})
			if err != nil {
				return 0, "", err
			}
			defer func() { _ = res.Close() }()
			body, err := io.ReadAll(res)
			return res.Status, string(body), err
		}
		status, body, err := ask()
		if nextStatus, nextBody, nextErr := ask(); nextStatus != 200 || nextBody != "well" || nextErr != nil {
			t.Fatalf("behind %d %q, %v came %d %q, %v", status, body, err, nextStatus, nextBody, nextErr)
		}
	}))
}
