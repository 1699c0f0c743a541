package http1

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// acknowledged returns how many bytes the peer's kernel has acknowledged over the life of a TCP connection that we
// opened; ok is false if that is unknown.
func acknowledged(raw syscall.RawConn) (bytes int64, ok bool) {
	var info *unix.TCPInfo
	var err error
	if raw.Control(func(fd uintptr) { info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO) }) != nil || err != nil {
		return 0, false
	}
	return int64(info.Bytes_acked) - 1, info.Bytes_acked > 0 // opening the connection counts as one
}
