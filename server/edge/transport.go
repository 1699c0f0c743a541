package edge

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"

	"github.com/cloudwego/hertz/pkg/common/config"
	"github.com/cloudwego/hertz/pkg/network"
	"github.com/cloudwego/hertz/pkg/network/standard"
)

// transport lets one hertz engine serve all listeners. Those without TLS run on netpoll, where an idle connection needs
// no goroutine. Those with TLS, and all on Windows, which has no netpoll, run on hertz's standard transport.
// [connection] has what the two do differently and the limits that neither has, so a request meets the same rules on
// either.
type transport struct {
	parts []network.Transporter
	log   *slog.Logger
}

// newTransport is called by hertz, with its options.
func newTransport(o *config.Options, listeners []*listener, tlsConfig *tls.Config, c *connections, log *slog.Logger) *transport {
	t := &transport{log: log}
	for _, l := range listeners {
		part := *o
		if l.polled == nil {
			part.Listener = &blockingListener{listener: l, config: tlsConfig}
			part.SenseClientDisconnection = false // see blockingConnection
			part.OnAccept, part.OnConnect = noteSocket, counted(l, c.acceptBlocking)
			t.parts = append(t.parts, standard.NewTransporter(&part))
			continue
		}
		part.Listener = l.polled
		part.OnConnect = counted(l, c.acceptPolled)
		t.parts = append(t.parts, newPollingTransporter(&part))
	}
	return t
}

type onConnect func(context.Context, network.Conn) context.Context

// counted removes an accepted connection from those that are still coming.
func counted(l *listener, accept onConnect) onConnect {
	return func(ctx context.Context, conn network.Conn) context.Context {
		defer l.coming.Add(-1)
		return accept(ctx, conn)
	}
}

// ListenAndServe returns when all listeners have ended. If one fails, the others are closed.
func (t *transport) ListenAndServe(onData network.OnData) error {
	ended := make(chan error)
	for _, part := range t.parts {
		go func() { ended <- t.serve(part, onData) }()
	}
	var errs []error
	for range t.parts {
		if err := <-ended; err != nil {
			errs = append(errs, err)
			_ = t.Close()
		}
	}
	return errors.Join(errs...)
}

// serve turns panics at the end of hertz's transports into errors.
func (t *transport) serve(part network.Transporter, onData network.OnData) (err error) {
	defer func() {
		if fault := recover(); fault != nil {
			t.log.Error("panic in a listener", "panic", fmt.Sprint(fault), "stack", string(debug.Stack()))
			err = errors.New("a listener failed")
		}
	}()
	return part.ListenAndServe(t.connection(onData))
}

var errNotAccepted = errors.New("a connection that was not accepted")

// connection returns what serves one connection to its end. A panic ends nothing else. Only hertz's own reading can
// cause one here, because it does not expect a connection to end between two looks at it.
func (t *transport) connection(onData network.OnData) network.OnData {
	return func(ctx context.Context, _ any) error {
		ours := connectionOf(ctx)
		if ours == nil {
			return errNotAccepted
		}
		defer t.end(ours)
		return onData(ctx, ours.forHertz())
	}
}

func (t *transport) end(c *connection) {
	defer c.close()
	if fault := recover(); fault != nil && !c.closed.Load() {
		t.log.Error("panic in a connection", "panic", fmt.Sprint(fault), "stack", string(debug.Stack()))
	}
}

// Close closes the listeners without waiting.
func (t *transport) Close() error {
	var errs []error
	for _, part := range t.parts {
		errs = append(errs, part.Close())
	}
	return errors.Join(errs...)
}

// Shutdown closes the listeners and waits for connections to end, at most until ctx ends.
func (t *transport) Shutdown(ctx context.Context) error {
	var waiting sync.WaitGroup
	for _, part := range t.parts {
		waiting.Go(func() { _ = part.Shutdown(ctx) })
	}
	waiting.Wait()
	return ctx.Err()
}
