package server

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cloudwego/hertz/pkg/app"
	"github.com/cloudwego/hertz/pkg/network"
)

// connections watches the clients' connections for what hertz and netpoll do not bound: how long a request may take
// to arrive, and how much of it is held in memory before anybody has asked for it. netpoll reads whatever comes, also
// behind a request that is being handled.
type connections struct {
	patience time.Duration // for a whole request to arrive
	unread   int64         // bytes that all connections together may hold unread
	done     chan struct{}
	open     sync.Map // *connection → struct{}
}

// connection is one client's connection. hertz tells when a request on it begins and ends (see Start and Finish).
type connection struct {
	network.Conn
	cancel   context.CancelFunc // ends the context of the request being handled, and of those to come
	handling atomic.Bool        // a handler runs; otherwise the connection waits for a request or reads one
	since    atomic.Int64       // when it began to wait or to read, in Unix nanoseconds
	leave    func()             // of the request being handled, to be called once its answer has been sent; nil for none
}

type connectionKey struct{}

const (
	// sweepInterval bounds what a flood can bring in between two looks: some 25 MB over loopback.
	sweepInterval = 50 * time.Millisecond
	// readAhead is how much a client may send behind the request that is being handled.
	readAhead = 1 << 20
)

// startConnections sweeps until ctx ends.
func startConnections(ctx context.Context, patience time.Duration, unread int64) *connections {
	c := &connections{patience: patience, unread: unread, done: make(chan struct{})}
	go c.run(ctx)
	return c
}

func (c *connections) wait() { <-c.done }

func (c *connections) run(ctx context.Context) {
	defer close(c.done)
	tick := time.NewTicker(sweepInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			c.sweep(now)
		}
	}
}

// close ends the connection. The request that is being handled is cancelled first: netpoll closes a connection for
// good, and stops reading from it, only when its handler has returned.
func (c *connection) close() {
	c.cancel()
	_ = c.Close()
}

// sweep closes the connections that have broken a limit.
func (c *connections) sweep(now time.Time) {
	total := int64(0)
	c.open.Range(func(key, _ any) bool {
		conn := key.(*connection)
		held := int64(conn.Len())
		total += held
		slow := !conn.handling.Load() && now.UnixNano()-conn.since.Load() > int64(c.patience)
		flood := conn.handling.Load() && held > readAhead
		if slow || flood || total > c.unread {
			total -= held
			conn.close()
		}
		return true
	})
}

// accept is called by hertz for every new connection; ctx ends with it and is the parent of every request's context.
func (c *connections) accept(ctx context.Context, conn network.Conn) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	opened := &connection{Conn: conn, cancel: cancel}
	opened.since.Store(time.Now().UnixNano())
	c.open.Store(opened, struct{}{})
	context.AfterFunc(ctx, func() { c.open.Delete(opened) })
	return context.WithValue(ctx, connectionKey{}, opened)
}

func (c *connections) closeAll() {
	c.open.Range(func(key, _ any) bool {
		key.(*connection).close()
		return true
	})
}

// connectionOf is the connection that a request came on.
func connectionOf(ctx context.Context) *connection {
	conn, _ := ctx.Value(connectionKey{}).(*connection)
	return conn
}

// Start is called by hertz when the first byte of a request is there.
func (c *connections) Start(ctx context.Context, _ *app.RequestContext) context.Context {
	if conn := connectionOf(ctx); conn != nil {
		conn.since.Store(time.Now().UnixNano())
	}
	return ctx
}

// Finish is called by hertz when the answer has been handed to the kernel, or could not be.
func (c *connections) Finish(ctx context.Context, _ *app.RequestContext) {
	conn := connectionOf(ctx)
	if conn == nil {
		return
	}
	conn.since.Store(time.Now().UnixNano())
	conn.handling.Store(false)
	if leave := conn.leave; leave != nil {
		conn.leave = nil
		leave()
	}
}
