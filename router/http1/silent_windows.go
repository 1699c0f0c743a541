package http1

import (
	"unsafe"

	"golang.org/x/sys/windows"
)

var wsaPoll = windows.NewLazySystemDLL("ws2_32.dll").NewProc("WSAPoll")

// silent reports whether a socket is open and has nothing to read. It does not wait. A read would: Go's sockets block
// on Windows.
func silent(fd uintptr) bool {
	const readable = 0x0100 // POLLRDNORM; a close by the peer is always reported
	look := struct {
		socket        uintptr
		asked, events int16
	}{socket: fd, asked: readable}
	n, _, _ := wsaPoll.Call(uintptr(unsafe.Pointer(&look)), 1, 0)
	return n == 0
}
