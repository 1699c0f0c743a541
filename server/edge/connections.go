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

// connections watches the clients' connections for what hertz and its transports do not bound: how many there are, how
// long a request may take to arrive, and how much of it is held in memory before anybody has asked for it. netpoll reads
// whatever comes, also after a request that is being handled.
type connections struct {
	limits  connectionLimits
	timeout time.Duration // for a whole request to arrive
	refused func(limit string)
	surface func(path []byte) codec.Format
	single  []string // headers that may occur once
	done    chan struct{}
	open    sync.Map // *connection → struct{}
	count   atomic.Int64
	over    atomic.Bool // all are closed, and so is every one that still opens
	resting atomic.Bool // nobody has asked for a while, and the next look is a restInterval away
	wake    chan struct{}

	mu      sync.Mutex
	clients map[netip.Prefix]int // connections of each address
}

type connectionLimits struct {
	total     int   // connections
	perClient int   // of one address; 0: no limit
	head      int   // bytes of one request
	body      int64 // likewise
	unread    int64 // bytes that all connections together may hold unread
}

const (
	// sweepInterval bounds what a flood can bring in between two looks: some 25 MB over loopback.
	sweepInterval = 50 * time.Millisecond
	// restInterval is how often we look while no connection has anything of a request: all that it can do then is grow old. A
	// look wakes a thread, and costs an idle server more than everything else.
	restInterval = time.Second
	// looksBeforeRest is how many looks in a row have to find no request: to rest and be woken between any two would cost more.
	looksBeforeRest = 20
	// readAhead is how much a client may send after the request that is being handled, until its answer is on its way.
	readAhead = 1 << 20
)

// startConnections sweeps until ctx ends, which also ends the requests that are being handled, with its cause.
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

// pause is for how long nobody has to look, after quiet looks that have found no request.
func (c *connections) pause(quiet int) time.Duration {
	if quiet < looksBeforeRest {
		c.resting.Store(false)
		return sweepInterval
	}
	if !c.resting.Swap(true) && c.sweep(time.Now()) { // it began before Start could know that it has to wake us
		c.resting.Store(false)
		return sweepInterval
	}
	return restInterval
}

// held is how many bytes of clients all connections hold unread.
func (c *connections) held() (bytes int64) {
	c.open.Range(func(key, _ any) bool {
		bytes += key.(*connection).held()
		return true
	})
	return bytes
}

// sweep closes the connections that have broken a limit, and reports whether any of the others has something of a request.
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

// shed closes the connections that hold the most, until the others are within the limit together. It looks once at
// each: what a flood held that has ended by now is nobody else's.
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

// acceptBlocking is acceptPolled for the standard transport. Nothing there ends ctx but ourselves.
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
	if c.over.Load() { // closeAll may have come before it was added
		opened.close()
	}
	return requests
}

// The limits that a new connection can break, as metrics name them.
const (
	refusedTotal     = "connections"
	refusedPerClient = "connections_per_address"
)

// add counts a connection, or says which limit is in its way.
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

// clientOf is whom a connection counts for: its address, or the /64 of an IPv6 address, which is what one subscriber
// has. Invalid for a unix socket.
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

// firstRequestTime is how long the client of a connection that was just accepted gets to send its first request before the
// listeners are handed over. Clients connect in order to ask; one that does not holds up a restart no longer.
const firstRequestTime = time.Second

// awaitFirstRequests returns when a request has come on every connection that was accepted, coming ones included, or after
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

// abortAll ends the requests that are being handled. Those of a connection that is only just opening are turned away.
func (c *connections) abortAll(cause error) {
	c.open.Range(func(key, _ any) bool {
		key.(*connection).abort(cause)
		return true
	})
}

// closeAll is for the end. The listeners may take connections a little longer, which nobody would serve or close.
func (c *connections) closeAll() {
	c.over.Store(true)
	c.open.Range(func(key, _ any) bool {
		key.(*connection).close()
		return true
	})
}

// Start is called by hertz when the first byte of a request is there.
func (c *connections) Start(ctx context.Context, rc *app.RequestContext) context.Context {
	if conn := connectionOf(ctx); conn != nil {
		conn.since.Store(time.Now().UnixNano())
		conn.request, conn.response = Request{rc: rc, conn: conn}, Response{rc: rc, conn: conn}
		conn.rc, conn.surface, conn.chunk, conn.version, conn.fault = rc, codec.FormatUnknown, chunkLine{}, false, ""
		conn.inHead, conn.lines = true, 0
		if c.resting.Load() {
			select {
			case c.wake <- struct{}{}:
			default: // somebody else has
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
