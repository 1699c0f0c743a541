package server_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/router"
)

// upstream is a provider that answers byte by byte as a test says, for answers that no provider in its senses gives.
type upstream struct {
	t        testing.TB
	listener net.Listener
	serve    func(*upstreamCall)
	calls    sync.WaitGroup
}

// upstreamCall is one request to it.
type upstreamCall struct {
	net.Conn
	request *http.Request
	body    []byte
	gone    <-chan struct{} // closed when the proxy has closed the connection
}

// newUpstream is started by the harness that it serves, and ends with it. Each connection takes one request and is closed
// when serve returns.
func newUpstream(t testing.TB, serve func(*upstreamCall)) *upstream {
	return &upstream{t: t, serve: serve}
}

// serves makes it the provider of the families of OpenAI and Anthropic.
func (u *upstream) serves(p *plan) { leadTo(p, u.start()) }

// servesAs makes it one provider.
func (u *upstream) servesAs(p *plan, name string) {
	c := router.ProviderConfig{}.WithSimulated(name, u.start())
	c.Simulated, c.APIKey = false, serverDefaultKey
	p.router.Providers[name] = c
}

// start begins to listen, and gives the origin.
func (u *upstream) start() string {
	var err error
	u.listener, err = net.Listen("tcp", "127.0.0.1:0")
	ok(u.t, err)
	u.calls.Go(u.accept)
	u.t.Cleanup(func() {
		_ = u.listener.Close()
		u.calls.Wait()
	})
	return "http://" + u.listener.Addr().String()
}

func (u *upstream) accept() {
	for {
		conn, err := u.listener.Accept()
		if err != nil {
			return
		}
		u.calls.Go(func() { u.handle(conn) })
	}
}

func (u *upstream) handle(conn net.Conn) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	request, err := http.ReadRequest(in)
	if err != nil {
		_, _ = io.WriteString(conn, "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
		return
	}
	body, _ := io.ReadAll(request.Body)
	gone := make(chan struct{})
	go func() { // ends with the connection, at the latest when serve returns
		defer close(gone)
		_, _ = in.Peek(1)
	}()
	u.serve(&upstreamCall{Conn: conn, request: request, body: body, gone: gone})
	_ = conn.Close()
	<-gone
}

func (c *upstreamCall) write(text string) { _, _ = io.WriteString(c, text) }

// stream sends an event stream that ends with the connection.
func (c *upstreamCall) stream(text string) {
	c.write("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n" + text)
}

// chunk begins, or goes on with, a body that has a visible end: what is not ended by chunk("") is cut. It reports whether
// the proxy still takes it.
func (c *upstreamCall) chunk(text string) bool {
	_, err := fmt.Fprintf(c, "%x\r\n%s\r\n", len(text), text)
	return err == nil
}

func (c *upstreamCall) chunked() {
	c.write("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
}

const chatStream = "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"gpt-4.1-2025\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"Hi\"},\"finish_reason\":null}]}\n\n" +
	"data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"gpt-4.1-2025\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n" +
	"data: [DONE]\n\n"

// exchangeOn sends bytes on a connection and reads the answer to them.
func exchangeOn(t testing.TB, conn net.Conn, request string) *answer {
	t.Helper()
	a, err := askOn(conn, request)
	ok(t, err)
	return a
}

// askOn is exchangeOn for connections that may be closed.
func askOn(conn net.Conn, request string) (*answer, error) {
	if _, err := io.WriteString(conn, request); err != nil {
		return nil, err
	}
	method, _, _ := strings.Cut(request, " ")
	response, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	if err != nil {
		return nil, err
	}
	return read(response), nil
}

// isClosed waits until the other side has closed a connection from which nothing more is to come.
func isClosed(t testing.TB, conn net.Conn) {
	t.Helper()
	_ = conn.SetReadDeadline(time.Now().Add(timeout))
	n, err := conn.Read(make([]byte, 1))
	var timeout net.Error
	if n > 0 || errors.As(err, &timeout) && timeout.Timeout() {
		t.Errorf("the connection is not closed: %d bytes, %v", n, err)
	}
}
