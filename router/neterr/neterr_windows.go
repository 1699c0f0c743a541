package neterr

import "golang.org/x/sys/windows"

const (
	Refused = windows.WSAECONNREFUSED // nobody listens there
	Reset   = windows.WSAECONNRESET   // the other end gave the connection up
	Broken  = windows.WSAECONNABORTED // written to after that
	InUse   = windows.WSAEADDRINUSE   // somebody listens there already
)
