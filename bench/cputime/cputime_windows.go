package cputime

import (
	"time"

	"golang.org/x/sys/windows"
)

// Used is the processor time that this process has used, its own and the kernel's.
func Used() time.Duration {
	var created, exited, kernel, user windows.Filetime
	_ = windows.GetProcessTimes(windows.CurrentProcess(), &created, &exited, &kernel, &user) // cannot fail for the process itself
	return inTicks(kernel) + inTicks(user)
}

// inTicks is a time span, which Windows counts in 100 ns.
func inTicks(span windows.Filetime) time.Duration {
	return time.Duration(int64(span.HighDateTime)<<32|int64(span.LowDateTime)) * 100
}
