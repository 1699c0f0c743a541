package edge

import (
	"context"
	"net"
	"net/netip"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cloudwego/hertz/pkg/app"

	"github.com/mnemeproxy/mneme/codec"
)

// connections enforces limits on clients' connections that hertz lacks: their number, and the time for a request to
// arrive and for an answer to be taken.
type connections struct {
	limits     connectionLimits
	timeout    time.Duration // for a whole request to arrive, or a client to take a piece of its answer
	memory     *Budget
	blocking   bool // read on behind every request, as on systems without [departures]
	departures *departures
	refused    func(limit string)
	surface    func(path []byte) codec.Format
	fail       func(*Request, *Response, *codec.Error)
	single     []string // headers that may occur once
	done       chan struct{}
	open       sync.Map // *connection → struct{}
	count      atomic.Int64
	over       atomic.Bool // all are closed, and so is every one that opens later

	mu      sync.Mutex
	clients map[netip.Prefix]int // connections of each address
}

type connectionLimits struct {
	total     int   // connections
	perClient int   // of one address; 0: no limit
	head      int   // bytes of one request
	body      int64 // as above
}

// sweepInterval is the time between two looks at all connections.
const sweepInterval = time.Second

// startConnections sweeps until ctx ends, which also ends the current requests, with its cause.
func startConnections(ctx context.Context, o *Options) (*connections, error) {
	departures, err := watchDepartures(ctx)
	if err != nil {
		return nil, err
	}
	c := &connections{
		limits:  connectionLimits{total: o.Connections, perClient: o.ConnectionsPerAddress, head: o.HeaderBytes, body: o.BodyBytes},
		timeout: o.ReadTimeout, memory: o.Memory, blocking: o.Blocking, departures: departures,
		refused: o.Refused, surface: o.Surface, fail: o.Fail, single: append([]string{"Host"}, o.Single...),
		done: make(chan struct{}), clients: make(map[netip.Prefix]int),
	}
	go c.run(ctx)
	return c, nil
}

func (c *connections) wait() {
	<-c.done
	c.departures.wait()
}

func (c *connections) run(ctx context.Context) {
	defer close(c.done)
	tick := time.NewTicker(sweepInterval)
	defer tick.Stop()
	held := &bursts{budget: c.memory}
	for {
		select {
		case <-ctx.Done():
			c.abortAll(context.Cause(ctx))
			return
		case now := <-tick.C:
			c.sweep(now)
			if held.look(now) {
				returnMemory()
			}
		}
	}
}

// returnMemory returns freed memory to the system. The first collection ages what pools hold, the second frees it.
func returnMemory() {
	runtime.GC()
	debug.FreeOSMemory()
}

// held returns how many client bytes all connections buffer unread.
func (c *connections) held() (bytes int64) {
	c.open.Range(func(key, _ any) bool {
		bytes += key.(*connection).waiting.Load()
		return true
	})
	return bytes
}

// sweep closes the connections that have exceeded their time, and looks for clients that send on behind a request.
func (c *connections) sweep(now time.Time) {
	var queued int
	look := func(fd uintptr) { queued = unreadBytes(fd) }
	c.open.Range(func(key, _ any) bool {
		conn := key.(*connection)
		waits := !conn.handling.Load() && !conn.timed.Load() // for a request; one that has begun has a deadline
		switch writing := conn.writing.Load(); {
		case waits && now.UnixNano()-conn.since.Load() > int64(c.timeout), writing != 0 && now.UnixNano()-writing > int64(c.timeout):
			conn.close()
		case conn.handling.Load() && now.UnixNano()-conn.since.Load() > int64(sweepInterval) && conn.raw != nil:
			queued = 0
			if _ = conn.raw.Control(look); queued > suspicious {
				conn.ahead.begin(conn)
			}
		}
		return true
	})
}

// suspicious is how many bytes behind a request are looked at: more than the start of another one.
const suspicious = 16 << 10

// accept counts a new connection, and returns it with the context of its requests; nil if it exceeds a limit, and is
// closed.
func (c *connections) accept(conn net.Conn) (context.Context, *connection) {
	ctx, cancel := context.WithCancel(context.Background())
	opened := &connection{wire: wire{Conn: conn, memory: c.memory}, all: c, client: clientOf(conn.RemoteAddr()), cancel: cancel, raw: rawOf(conn)}
	opened.since.Store(time.Now().UnixNano())
	requests, abort := context.WithCancelCause(context.WithValue(ctx, connectionKey{}, opened))
	opened.abort = abort
	if limit := c.add(opened); limit != "" {
		c.refused(limit)
		opened.close()
		return nil, nil
	}
	_, secure := conn.(*secureConn)
	opened.ahead.always = secure || c.blocking || !c.departures.watch(opened)
	if c.over.Load() { // closeAll may have run before it was added
		opened.close()
	}
	return requests, opened
}

// rawOf returns the socket of a connection.
func rawOf(conn net.Conn) syscall.RawConn {
	if secure, ok := conn.(*secureConn); ok {
		conn = secure.NetConn()
	}
	if file, ok := conn.(syscall.Conn); ok {
		if raw, err := file.SyscallConn(); err == nil {
			return raw
		}
	}
	return nil
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

// remove ends what accept began.
func (c *connections) remove(opened *connection) {
	c.departures.forget(opened)
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

// Start is called by hertz before it reads a request: at the start of a connection, and when the first bytes of another
// request have arrived.
func (c *connections) Start(ctx context.Context, rc *app.RequestContext) context.Context {
	if conn := connectionOf(ctx); conn != nil {
		conn.since.Store(time.Now().UnixNano())
		c.memory.flow.Add(requestGarbage)
		conn.endTime()
		conn.request, conn.response = Request{rc: rc, conn: conn}, Response{rc: rc, conn: conn}
		conn.rc, conn.version, conn.fault = rc, false, ""
		conn.inHead, conn.lines = true, 0
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
