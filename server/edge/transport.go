package edge

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime/debug"
	"sync"

	"github.com/cloudwego/hertz/pkg/network"
)

// transport lets one hertz engine serve all listeners, with a goroutine per connection. It replaces hertz's own
// transports: one of them reads whatever a client sends, asked for or not, and neither lets go of memory that it has
// read into.
type transport struct {
	listeners   []*listener
	tls         *tls.Config // nil without TLS
	connections *connections
	log         *slog.Logger
	accepting   chan struct{} // closed when no listener accepts any more
	serving     sync.WaitGroup
}

func newTransport(listeners []*listener, tlsConfig *tls.Config, c *connections, log *slog.Logger) *transport {
	return &transport{listeners: listeners, tls: tlsConfig, connections: c, log: log, accepting: make(chan struct{})}
}

// ListenAndServe returns when all listeners have ended. If one fails, the others are closed.
func (t *transport) ListenAndServe(onData network.OnData) error {
	defer close(t.accepting)
	ended := make(chan error)
	for _, l := range t.listeners {
		go func() { ended <- t.accept(l, onData) }()
	}
	var errs []error
	for range t.listeners {
		if err := <-ended; err != nil {
			errs = append(errs, err)
			_ = t.Close()
		}
	}
	return errors.Join(errs...)
}

// accept serves the connections of a listener until that is closed.
func (t *transport) accept(l *listener, onData network.OnData) error {
	l.serving()
	for {
		conn, err := l.next(t.tls)
		switch {
		case errors.Is(err, net.ErrClosed):
			return nil
		case err != nil:
			return err
		}
		t.serving.Go(func() { t.serve(conn, l, onData) })
	}
}

// serve serves one connection to its end. A panic ends nothing else.
func (t *transport) serve(conn net.Conn, l *listener, onData network.OnData) {
	ctx, c := t.connections.accept(conn)
	l.coming.Add(-1)
	if c == nil {
		return
	}
	defer t.end(c)
	_ = onData(ctx, c)
}

func (t *transport) end(c *connection) {
	if fault := recover(); fault != nil {
		t.log.Error("panic in a connection", "panic", fmt.Sprint(fault), "stack", string(debug.Stack()))
	} else if c.lingers && !c.closed.Load() {
		c.linger()
	}
	t.connections.remove(c)
	c.close()
	c.ahead.forbid(c)
	c.wire.end()
}

// Close closes the listeners without waiting.
func (t *transport) Close() error {
	closeListeners(t.listeners)
	return nil
}

// Shutdown closes the listeners and waits for connections to end, at most until ctx ends.
func (t *transport) Shutdown(ctx context.Context) error {
	_ = t.Close()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		<-t.accepting
		t.serving.Wait()
	}()
	select {
	case <-ended:
	case <-ctx.Done():
	}
	return ctx.Err()
}
