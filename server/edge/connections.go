package edge

import (
	"cmp"
	"context"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cloudwego/hertz/pkg/app"
	"github.com/cloudwego/hertz/pkg/network"

	"github.com/mnemeproxy/mneme/codec"
)

// connections enforces limits on clients' connections that hertz and its transports lack: their number, the time for a
// request to arrive, and how much of it is buffered before a handler has asked for it. netpoll reads whatever arrives,
// also after the current request.
type connections struct {
	limits  connectionLimits
	timeout time.Duration // for a whole request to arrive
	refused func(limit string)
	surface func(path []byte) codec.Format
	single  []string // headers that may occur once
	done    chan struct{}
	open    sync.Map // *connection → struct{}
	count   atomic.Int64
	over    atomic.Bool // all are closed, and so is every one that opens later
	resting atomic.Bool // no request for a while: the next sweep is a restInterval away
	wake    chan struct{}

	mu      sync.Mutex
	clients map[netip.Prefix]int // connections of each address
}

type connectionLimits struct {
	total     int   // connections
	perClient int   // of one address; 0: no limit
	head      int   // bytes of one request
	body      int64 // as above
	unread    int64 // bytes that all connections together may buffer unread
}

const (
	// sweepInterval bounds what a flood can deliver between two sweeps: some 25 MB over loopback.
	sweepInterval = 50 * time.Millisecond
	// restInterval is the sweep interval while no connection has any part of a request: such connections can only age.
	// A sweep wakes a thread, which costs an idle server more than everything else.
	restInterval = time.Second
	// looksBeforeRest is how many sweeps in a row must find no request: resting and being woken between any two would
	// cost more.
	looksBeforeRest = 20
	// readAhead is how many bytes a client may send after the current request, until its answer is on its way.
	readAhead = 1 << 20
)

// startConnections sweeps until ctx ends, which also ends the current requests, with its cause.
func startConnections(ctx context.Context, o *Options) *connections {
	c := &connections{
		limits: connectionLimits{
			total: o.Connections, perClient: o.ConnectionsPerAddress, head: o.HeaderBytes, body: o.BodyBytes, unread: o.UnreadBytes,
		},
		timeout: o.ReadTimeout, refused: o.Refused, surface: o.Surface, single: append([]string{"Host"}, o.Single...),
		done: make(chan struct{}), wake: make(chan struct{}, 1), clients: make(map[netip.Prefix]int),
	}
	go c.run(ctx)
	return c
}

func (c *connections) wait() { <-c.done }

func (c *connections) run(ctx context.Context) {
	defer close(c.done)
	next := time.NewTimer(sweepInterval)
	defer next.Stop()
	for quiet := 0; ; {
		select {
		case <-ctx.Done():
			c.abortAll(context.Cause(ctx))
			return
		case <-c.wake:
			quiet = 0
		case <-next.C:
		}
		if quiet++; c.sweep(time.Now()) {
			quiet = 0
		}
		next.Reset(c.pause(quiet))
	}
}

// pause returns the time until the next sweep, after quiet sweeps that have found no request.
func (c *connections) pause(quiet int) time.Duration {
	if quiet < looksBeforeRest {
		c.resting.Store(false)
		return sweepInterval
	}
	if !c.resting.Swap(true) && c.sweep(time.Now()) { // it began before Start could know that it has to wake the sweeper
		c.resting.Store(false)
		return sweepInterval
	}
	return restInterval
}

// held returns how many client bytes all connections buffer unread.
func (c *connections) held() (bytes int64) {
	c.open.Range(func(key, _ any) bool {
		bytes += key.(*connection).held()
		return true
	})
	return bytes
}

// sweep closes the connections that have exceeded a limit, and reports whether any of the others has a part of a
// request.
func (c *connections) sweep(now time.Time) (asked bool) {
	total := int64(0)
	c.open.Range(func(key, _ any) bool {
		conn := key.(*connection)
		held := conn.held()
		slow := !conn.handling.Load() && now.UnixNano()-conn.since.Load() > int64(c.timeout)
		flood := conn.handling.Load() && held > conn.ahead()
		if slow || flood {
			conn.close()
			return true
		}
		total += held
		asked = asked || held > 0 || conn.handling.Load()
		return true
	})
	if total > c.limits.unread {
		c.shed()
	}
	return asked
}

// shed closes the connections that buffer the most, until the others are within the limit together. It measures each
// once: bytes of a flood that ends meanwhile are not charged to others.
func (c *connections) shed() {
	type holder struct {
		*connection
		held int64
	}
	var holders []holder
	total := int64(0)
	c.open.Range(func(key, _ any) bool {
		h := holder{connection: key.(*connection)}
		h.held = h.connection.held()
		holders = append(holders, h)
		total += h.held
		return true
	})
	slices.SortFunc(holders, func(a, b holder) int { return cmp.Compare(b.held, a.held) })
	for _, h := range holders {
		if total <= c.limits.unread {
			return
		}
		total -= h.held
		h.close()
	}
}

// acceptPolled is called by hertz for every new connection on netpoll; ctx ends with the connection and is the parent of
// every request's context.
func (c *connections) acceptPolled(ctx context.Context, conn network.Conn) context.Context {
	return c.accept(ctx, conn, nil)
}

type socketKey struct{}

// noteSocket is called for every new connection on the standard transport, before acceptBlocking.
func noteSocket(conn net.Conn) context.Context {
	return context.WithValue(context.Background(), socketKey{}, conn)
}

// acceptBlocking is acceptPolled for the standard transport. Only we end ctx there.
func (c *connections) acceptBlocking(ctx context.Context, conn network.Conn) context.Context {
	socket, _ := ctx.Value(socketKey{}).(closeWriter)
	return c.accept(ctx, conn, &watch{socket: socket})
}

func (c *connections) accept(ctx context.Context, conn network.Conn, w *watch) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	opened := &connection{Conn: conn, all: c, client: clientOf(conn.RemoteAddr()), cancel: cancel, watch: w}
	opened.since.Store(time.Now().UnixNano())
	requests, abort := context.WithCancelCause(context.WithValue(ctx, connectionKey{}, opened))
	opened.abort = abort
	if limit := c.add(opened); limit != "" {
		c.refused(limit)
		opened.close()
		return requests
	}
	context.AfterFunc(ctx, func() { c.remove(opened) })
	if c.over.Load() { // closeAll may have run before it was added
		opened.close()
	}
	return requests
}

// The limits that a new connection can exceed, as metrics name them.
const (
	refusedTotal     = "connections"
	refusedPerClient = "connections_per_address"
)

// add counts a connection, or returns the limit that it exceeds.
func (c *connections) add(opened *connection) (refused string) {
	if c.count.Add(1) > int64(c.limits.total) {
		c.count.Add(-1)
		return refusedTotal
	}
	if c.limits.perClient > 0 && opened.client.IsValid() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.clients[opened.client] >= c.limits.perClient {
			c.count.Add(-1)
			return refusedPerClient
		}
		c.clients[opened.client]++
	}
	c.open.Store(opened, struct{}{})
	return ""
}

func (c *connections) remove(opened *connection) {
	c.open.Delete(opened)
	c.count.Add(-1)
	if c.limits.perClient == 0 || !opened.client.IsValid() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.clients[opened.client]--; c.clients[opened.client] == 0 {
		delete(c.clients, opened.client)
	}
}

// clientOf returns what a connection counts for: its address, or the /64 of an IPv6 address, which is what one
// subscriber has. Invalid for a unix socket.
func clientOf(remote net.Addr) netip.Prefix {
	tcp, ok := remote.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	address := tcp.AddrPort().Addr().Unmap()
	bits := 32
	if address.Is6() {
		bits = 64
	}
	prefix, _ := address.Prefix(bits)
	return prefix
}

// firstRequestTime is how long a newly accepted client gets to send its first request before the listeners are handed
// over. Clients connect in order to ask; one that does not no longer delays a restart.
const firstRequestTime = time.Second

// awaitFirstRequests returns when a request has arrived on every accepted connection, including coming ones, or after
// [firstRequestTime]. No more are accepted meanwhile.
func (c *connections) awaitFirstRequests(coming *atomic.Int64) {
	for deadline := time.Now().Add(firstRequestTime); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if coming.Load() == 0 && !c.anyUnasked() {
			return
		}
	}
}

func (c *connections) anyUnasked() (found bool) {
	c.open.Range(func(key, _ any) bool {
		conn := key.(*connection)
		found = !conn.asked.Load() && !conn.closed.Load()
		return !found
	})
	return found
}

// abortAll aborts the current requests, and those of connections that are just opening.
func (c *connections) abortAll(cause error) {
	c.open.Range(func(key, _ any) bool {
		key.(*connection).abort(cause)
		return true
	})
}

// closeAll closes everything at the end. The listeners may still accept connections for a moment, which nothing would
// serve or close.
func (c *connections) closeAll() {
	c.over.Store(true)
	c.open.Range(func(key, _ any) bool {
		key.(*connection).close()
		return true
	})
}

// Start is called by hertz when the first byte of a request has arrived.
func (c *connections) Start(ctx context.Context, rc *app.RequestContext) context.Context {
	if conn := connectionOf(ctx); conn != nil {
		conn.since.Store(time.Now().UnixNano())
		conn.request, conn.response = Request{rc: rc, conn: conn}, Response{rc: rc, conn: conn}
		conn.rc, conn.surface, conn.chunk, conn.version, conn.fault = rc, codec.FormatUnknown, chunkLine{}, false, ""
		conn.inHead, conn.lines = true, 0
		if c.resting.Load() {
			select {
			case c.wake <- struct{}{}:
			default: // already woken
			}
		}
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
	conn.consumed.Store(0)
	conn.chunk.last = false
	conn.handling.Store(false)
	conn.answering.Store(false)
	if conn.answers != nil {
		conn.answers.Give(conn.room)
		conn.answers, conn.room = nil, 0
	}
	if conn.admitted != nil {
		conn.admitted.leave()
		conn.admitted = nil
	}
}
