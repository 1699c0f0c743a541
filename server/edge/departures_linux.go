package edge

import (
	"context"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// departures notices when clients leave, without reading from their connections. It takes no thread and no goroutine per
// connection: the runtime waits for its one epoll file as for a socket.
type departures struct {
	file *os.File
	done chan struct{}

	mu      sync.Mutex
	watched map[uint64]*connection
	last    uint64 // number of a connection
}

// watchDepartures begins, and ends with ctx.
func watchDepartures(ctx context.Context) (*departures, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		_ = unix.Close(fd)
		return nil, os.NewSyscallError("fcntl", err)
	}
	d := &departures{file: os.NewFile(uintptr(fd), "epoll"), done: make(chan struct{}), watched: make(map[uint64]*connection)}
	raw, err := d.file.SyscallConn()
	if err != nil {
		_ = d.file.Close()
		return nil, err
	}
	context.AfterFunc(ctx, func() { _ = d.file.Close() })
	go d.run(raw)
	return d, nil
}

func (d *departures) run(raw syscall.RawConn) {
	defer close(d.done)
	var events [128]unix.EpollEvent
	n := 0
	look := func(fd uintptr) bool {
		var err error
		n, err = unix.EpollWait(int(fd), events[:], 0)
		return n > 0 || err != nil && err != unix.EINTR
	}
	for raw.Read(look) == nil && n > 0 {
		for i := range events[:n] {
			d.left(numberOf(&events[i]))
		}
	}
}

func (d *departures) left(number uint64) {
	d.mu.Lock()
	c := d.watched[number]
	d.mu.Unlock()
	if c != nil {
		c.cancel()
	}
}

// An event carries the number of its connection.
func numberOf(e *unix.EpollEvent) uint64 { return uint64(uint32(e.Fd)) | uint64(uint32(e.Pad))<<32 }

// watch cancels the requests of a connection when its client leaves, or closes its sending side. It reports whether it
// can.
func (d *departures) watch(c *connection) bool {
	d.mu.Lock()
	d.last++
	c.number = d.last
	d.watched[c.number] = c
	d.mu.Unlock()
	added := false
	_ = c.raw.Control(func(fd uintptr) {
		event := unix.EpollEvent{Events: unix.EPOLLRDHUP | unix.EPOLLET, Fd: int32(uint32(c.number)), Pad: int32(uint32(c.number >> 32))}
		epoll, err := d.file.SyscallConn()
		if err != nil {
			return
		}
		_ = epoll.Control(func(own uintptr) { added = unix.EpollCtl(int(own), unix.EPOLL_CTL_ADD, int(fd), &event) == nil })
	})
	if !added {
		d.forget(c)
	}
	return added
}

// forget is called before the connection is dropped.
func (d *departures) forget(c *connection) {
	d.mu.Lock()
	delete(d.watched, c.number)
	d.mu.Unlock()
}

func (d *departures) wait() { <-d.done }

// unreadBytes returns how many bytes wait in a socket.
func unreadBytes(fd uintptr) int {
	n, err := unix.IoctlGetInt(int(fd), unix.TIOCINQ)
	if err != nil {
		return 0
	}
	return n
}
