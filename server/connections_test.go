package server_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestConnectionsAreBoundedInTotal(t *testing.T) { onEveryTransport(t, connectionsInTotal) }

func connectionsInTotal(t *testing.T, on transportPlan) {
	h := build(t, on, func(p *plan) { p.server.Connections = 3 })
	bounded(t, h)
}

func TestConnectionsOfOneAddressAreBounded(t *testing.T) {
	h := build(t, func(p *plan) { p.server.ConnectionsPerAddress = 3 })
	bounded(t, h)
	held := []net.Conn{h.dial(), h.dial(), h.dial()}
	another, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}).DialContext(context.Background(), "tcp", h.proxy.Addr().String())
	ok(t, err)
	defer func() { _ = another.Close() }()
	if a := exchangeOn(t, another, "GET /readyz HTTP/1.1\r\nHost: proxy\r\n\r\n"); a.status != 200 {
		t.Errorf("another address: %d", a.status)
	}
	for _, conn := range held {
		_ = conn.Close()
	}
}

// bounded opens three connections, sees that there is no fourth, and that there is one for each that ends.
func bounded(t *testing.T, h *harness) {
	t.Helper()
	const probe = "GET /readyz HTTP/1.1\r\nHost: proxy\r\n\r\n"
	var held []net.Conn
	for range 3 {
		conn := h.dial()
		if a := exchangeOn(t, conn, probe); a.status != 200 {
			t.Fatal(a.status)
		}
		held = append(held, conn)
	}
	served := func() bool {
		conn, err := h.connect(context.Background())
		if err != nil {
			return false // a handshake that was refused
		}
		defer func() { _ = conn.Close() }()
		_ = conn.SetDeadline(time.Now().Add(timeout))
		_, _ = io.WriteString(conn, probe)
		answer, _ := io.ReadAll(io.LimitReader(conn, 12))
		return strings.HasPrefix(string(answer), "HTTP/1.1 200")
	}
	if served() {
		t.Error("a fourth connection was served")
	}
	for _, conn := range held {
		if a := exchangeOn(t, conn, probe); a.status != 200 {
			t.Errorf("one of the three: %d", a.status)
		}
		_ = conn.Close()
	}
	eventually(t, func() error {
		if !served() {
			return fmt.Errorf("with the others gone, a connection is still refused")
		}
		return nil
	})
}

func TestConcurrentRequestsAreBounded(t *testing.T) {
	h := build(t, func(p *plan) { p.server.Requests = 2 })
	ctx, leave := context.WithCancel(context.Background())
	defer leave()
	left := make(chan struct{}, 2)
	for range 2 {
		request := h.request(ctx, http.MethodPost, chat.path, chat.body(`delay header=1h`, false), "Authorization", "Bearer "+h.key)
		go func() {
			if response, err := h.client.Do(request); err == nil {
				_ = response.Body.Close()
			}
			left <- struct{}{}
		}()
	}
	h.await(2)
	for _, s := range surfaces {
		a := h.post(s.path, s.body(`text "hi"`, false))
		if _, message := errorOf(t, s, a); a.status != http.StatusServiceUnavailable && a.status != 529 || a.header.Get("Retry-After") != "1" || !strings.Contains(message, "at a time") {
			t.Errorf("%s: %d %v %s", s.name, a.status, a.header, a.body)
		}
	}
	if a := h.do(http.MethodGet, "/readyz", ""); a.status != 200 {
		t.Errorf("probes are not counted: %d", a.status)
	}
	leave()
	<-left
	<-left
	eventually(t, func() error {
		if a := h.post(chat.path, chat.body(`text "hi"`, false)); a.status != 200 {
			return fmt.Errorf("with the others gone: %d", a.status)
		}
		return nil
	})
}
