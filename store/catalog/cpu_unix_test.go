//go:build unix

package catalog_test

import (
	"syscall"
	"time"
)

// ownCPU is the CPU time that this process has used.
func ownCPU() time.Duration {
	var used syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &used)
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
