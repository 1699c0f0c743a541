package cputime

import (
	"time"

	"golang.org/x/sys/windows"
)

// Used returns the processor time that this process has used, in user and kernel mode.
func Used() time.Duration {
	var created, exited, kernel, user windows.Filetime
	_ = windows.GetProcessTimes(windows.CurrentProcess(), &created, &exited, &kernel, &user) // cannot fail for the process itself
	return inTicks(kernel) + inTicks(user)
}

// inTicks converts a time span, which Windows counts in units of 100 ns.
func inTicks(span windows.Filetime) time.Duration {
	return time.Duration(int64(span.HighDateTime)<<32|int64(span.LowDateTime)) * 100
}
