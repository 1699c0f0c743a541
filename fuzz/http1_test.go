package fuzz_test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/fuzz/mutant"
	"github.com/mnemeproxy/mneme/router/http1"
)

// provider is a connection whose peer sends fixed bytes, in pieces of at most size bytes, and then closes it.
type provider struct {
	net.Conn
	says *bytes.Reader
	size int
}

func (p *provider) Read(b []byte) (int, error)    { return p.says.Read(b[:min(len(b), p.size)]) }
func (*provider) Write(b []byte) (int, error)     { return len(b), nil }
func (*provider) Close() error                    { return nil }
func (*provider) SetDeadline(time.Time) error     { return nil }
func (*provider) SetReadDeadline(time.Time) error { return nil }

type heardAnswer struct {
	status int
	header http.Header
	body   []byte
	whole  bool // head and body were read to their ends
}

// heard returns how our client understands an answer.
func heard(says []byte, size int) (heardAnswer, error) {
	c := http1.NewClient(http1.Options{
		Host: "h", MaxHead: 1 << 16, Dial: func(context.Context, string, string) (net.Conn, error) {
			return &provider{says: bytes.NewReader(says), size: size}, nil
		},
	})
	res, err := c.Do(context.Background(), &http1.Request{Method: "POST", Target: "/", Body: []byte("x")})
	if err != nil {
		return heardAnswer{}, err
	}
	defer func() { _ = res.Close() }()
	body, err := io.ReadAll(res)
	return heardAnswer{res.Status, res.Header.HTTP(), body, err == nil}, nil
}

// FuzzAnswer lets a provider answer with anything. Its meaning does not depend on how it arrives. An answer that our
// client reads to its end means the same to net/http, so that no intermediary can have understood it differently.
func FuzzAnswer(f *testing.F) {
	for _, says := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
		"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n9\r\ndata: 1\n\n\r\n0\r\nA: b\r\n\r\n",
		"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 429 Slow down\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.0 200 OK\nConnection: close\n\nto the end",
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nhi\r\n0\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
		"HTTP/1.1 204 No Content\r\nX-A: 1\r\nX-A: 2\r\n\r\n",
	} {
		f.Add([]byte(says), 1)
		f.Add([]byte(says), 16)
	}
	f.Fuzz(mutant.Each(1000, func(t *testing.T, says []byte, size int) {
		if size < 1 || len(says) > 1<<14 {
			return
		}
		whole, err := heard(says, len(says)+1)
		cut, cutErr := heard(says, size)
		if (err == nil) != (cutErr == nil) || whole.status != cut.status || whole.whole != cut.whole || !bytes.Equal(whole.body, cut.body) {
			t.Fatalf("whole: %+v, %v\nin pieces of %d: %+v, %v", whole, err, size, cut, cutErr)
		}
		if err != nil || !whole.whole || whole.status == http.StatusSwitchingProtocols {
			return
		}
		compareWithStandard(t, says, &whole)
	}))
}

func compareWithStandard(t *testing.T, says []byte, ours *heardAnswer) {
	in := bufio.NewReader(bytes.NewReader(says))
	request, _ := http.NewRequest(http.MethodPost, "http://h/", http.NoBody)
	res, err := http.ReadResponse(in, request)
	for err == nil && res.StatusCode < 200 {
		_ = res.Body.Close()
		res, err = http.ReadResponse(in, request)
	}
	if err != nil {
		t.Fatalf("net/http refuses what we read as %+v: %v", ours, err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body) // if the body is complete, an error is about a trailer, which we skip
	if res.StatusCode != ours.status || !bytes.Equal(body, ours.body) {
		t.Fatalf("net/http reads %d %q, %v; we read %d %q", res.StatusCode, body, err, ours.status, ours.body)
	}
	for name, values := range ours.header {
		if name == "Connection" { // net/http may remove close from it
			continue
		}
		if name != "Content-Length" && !bytes.Equal(joined(values), joined(res.Header[name])) {
			t.Fatalf("net/http reads %s as %q, we as %q", name, res.Header[name], values)
		}
	}
}

func joined(values []string) (all []byte) {
	for _, v := range values {
		all = append(append(all, v...), 0)
	}
	return all
}
