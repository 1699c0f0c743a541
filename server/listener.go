package server

import (
	"net"
	"sync"

	"github.com/cloudwego/netpoll"
)

// listener tells when netpoll has begun to serve it. A shutdown before that moment would stop nothing and leave the
// server waiting for ever.
type listener struct {
	netpoll.Listener
	once   sync.Once
	served chan struct{} // closed once a shutdown will be heard
}

func listen(address string) (*listener, error) {
	tcp, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	polled, err := netpoll.ConvertListener(tcp)
	if err != nil {
		_ = tcp.Close()
		return nil, err
	}
	return &listener{Listener: polled, served: make(chan struct{})}, nil
}

// Fd is asked for by netpoll's event loop when it begins to serve the listener, under the lock that a shutdown takes.
func (l *listener) Fd() int {
	l.once.Do(func() { close(l.served) })
	return l.Listener.Fd()
}
