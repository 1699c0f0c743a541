//go:build !race

package http1

import (
	"syscall"
	"unsafe"
)

// read and write make system calls that the scheduler does not hear of. It need not: the files of sockets are
// non-blocking, so a call takes microseconds. An announced one may be the first after all threads were idle, which
// wakes the scheduler's monitor thread, and that looks around every 20 µs for a while: 5 to 8 % of the CPU time of
// streams whose events come one by one.
func read(fd uintptr, p []byte) (int, syscall.Errno)  { return call(syscall.SYS_READ, fd, p) }
func write(fd uintptr, p []byte) (int, syscall.Errno) { return call(syscall.SYS_WRITE, fd, p) }

func call(number, fd uintptr, p []byte) (int, syscall.Errno) {
	for {
		n, _, err := syscall.RawSyscall(number, fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
		if err != syscall.EINTR {
			return int(n), err
		}
	}
}
