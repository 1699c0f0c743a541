package router

import "net"

func pooledConnOf(socket net.Conn, _ bool) net.Conn { return socket }

// usable closes every pooled connection: whether net/http waits on it is unknown here.
func usable(conn net.Conn) bool {
	_ = conn.Close()
	return false
}
