package edge

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mnemeproxy/mneme/router/neterr"
	"github.com/mnemeproxy/mneme/server/listen"
)

// listener is one address of the surfaces.
type listener struct {
	net.Listener
	configured listen.Address
	address    listen.Address // with the port that the system chose
	once       sync.Once
	served     chan struct{} // closed once a shutdown takes effect; an earlier one would stop nothing
	coming     atomic.Int64  // accepted connections that are not in [connections] yet

	closing sync.Once
	closed  chan struct{}
	settle  atomic.Pointer[func()] // run by Close before it returns; nil: nothing
}

// Close closes the listener.
func (l *listener) Close() error {
	err := l.Listener.Close()
	l.closing.Do(func() {
		if settle := l.settle.Load(); settle != nil {
			(*settle)()
		}
		close(l.closed)
	})
	return err
}

// openListeners opens all addresses, or none.
func openListeners(o *Options) (opened []*listener, err error) {
	defer func() {
		if err != nil {
			closeListeners(opened)
		}
	}()
	for _, text := range o.Listen {
		address, err := listen.Parse(text)
		if err != nil {
			return opened, fmt.Errorf("%q %w", text, err)
		}
		if address.TLS && o.Certificates == nil {
			return opened, fmt.Errorf("cannot listen on %s: there is no certificate; set tls.certificate and tls.key", text)
		}
		socket, err := o.Inherited.Open(address)
		if errors.Is(err, neterr.InUse) || errors.Is(err, listen.ErrSocketInUse) {
			return opened, fmt.Errorf("%s is taken by another program; stop that, or choose another address with --listen", text)
		}
		if err != nil {
			return opened, fmt.Errorf("cannot listen on %s: %w", text, err)
		}
		l := &listener{Listener: socket, configured: address, address: address.Bound(socket.Addr()), served: make(chan struct{}), closed: make(chan struct{})}
		opened = append(opened, l)
	}
	if len(opened) == 0 {
		return nil, errors.New("there is no address to listen on")
	}
	return opened, nil
}

func closeListeners(opened []*listener) {
	for _, l := range opened {
		_ = l.Close()
	}
}

func (l *listener) serving() { l.once.Do(func() { close(l.served) }) }

// acceptPause is the pause after a failed accept, in a process without free file descriptors for instance.
const acceptPause = 50 * time.Millisecond

// next returns the next connection. It starts TLS if the address has it; the first read does the handshake.
func (l *listener) next(secure *tls.Config) (net.Conn, error) {
	for {
		conn, err := l.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return nil, err
		case err != nil:
			time.Sleep(acceptPause)
		case !l.address.TLS:
			l.coming.Add(1)
			return conn, nil
		default:
			l.coming.Add(1)
			return &secureConn{Conn: tls.Server(conn, secure)}, nil
		}
	}
}

// secureConn is a connection with TLS.
type secureConn struct{ *tls.Conn }

// Read also answers a client that speaks plain HTTP: a failed handshake says nothing to most of them.
func (c *secureConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	var wrong tls.RecordHeaderError
	if errors.As(err, &wrong) && wrong.Conn != nil && looksLikeHTTP(wrong.RecordHeader) {
		_ = wrong.Conn.SetWriteDeadline(time.Now().Add(time.Second))
		_, _ = wrong.Conn.Write([]byte(plainOnTLS))
	}
	return n, err
}

// looksLikeHTTP distinguishes the first five bytes of a request from those of a TLS record.
func looksLikeHTTP(head [5]byte) bool {
	switch string(head[:]) {
	case "GET /", "HEAD ", "POST ", "PUT /", "OPTIO", "DELET", "PATCH":
		return true
	}
	return false
}

const plainOnTLS = "HTTP/1.0 400 Bad Request\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n" +
	`{"error":{"type":"invalid_request_error","message":"This port speaks TLS: use https:// in the base URL."}}` + "\n"
