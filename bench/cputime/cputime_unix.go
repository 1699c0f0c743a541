//go:build unix

package cputime

import (
	"syscall"
	"time"
)

// Used is the processor time that this process has used, its own and the kernel's.
func Used() time.Duration {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage) // cannot fail for the process itself
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
