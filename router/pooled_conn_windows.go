package router

import "net"

func pooledConnOf(socket net.Conn, _ bool) net.Conn { return socket }

// usable closes every connection of the pool: whether net/http waits on it cannot be seen here.
func usable(conn net.Conn) bool {
	_ = conn.Close()
	return false
}
