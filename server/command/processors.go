package command

import (
	"os"
	"runtime"
)

// addProcessor lets Go run goroutines on one thread more than there are processors, until end is called. One thread
// waits for clients in a system call that Go takes for a short one, so up to 10 ms pass before others get its place. On
// two processors, 99 of 100 chat requests took at most 6 to 7.5 ms instead of 10 to 20 (500 per second), for 4 % more
// CPU time; a second extra thread did not help. An operator's GOMAXPROCS is left alone.
func addProcessor() (end func()) {
	if os.Getenv("GOMAXPROCS") != "" {
		return func() {}
	}
	before := runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 1)
	return func() { runtime.GOMAXPROCS(before) }
}
