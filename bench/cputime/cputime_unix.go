//go:build unix

package cputime

import (
	"syscall"
	"time"
)

// Used returns the processor time that this process has used, in user and kernel mode.
func Used() time.Duration {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage) // cannot fail for the process itself
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
