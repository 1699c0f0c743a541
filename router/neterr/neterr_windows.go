package neterr

import "golang.org/x/sys/windows"

const (
	Refused = windows.WSAECONNREFUSED // nothing listens there
	Reset   = windows.WSAECONNRESET   // the peer reset the connection
	Broken  = windows.WSAECONNABORTED // a write after that
	InUse   = windows.WSAEADDRINUSE   // the address is in use
)
