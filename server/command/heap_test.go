package command

import (
	"math"
	"runtime/debug"
	"testing"
)

func TestTheHeapIsBoundByWhatIsInUseAndByTheContainer(t *testing.T) {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(math.MaxInt64))
	end := boundHeap(mostInFlight)
	end()
	if limit := debug.SetMemoryLimit(-1); limit != math.MaxInt64 {
		t.Errorf("a limit of %d stays behind", limit)
	}
	const none = math.MaxInt64
	for _, c := range []struct{ heap, beside, inFlight, most, want int64 }{
		{10 << 20, 5 << 20, 1 << 30, none, heapSize},
		{400 << 20, 50 << 20, 1 << 30, none, 650 << 20},
		{410 << 20, 50 << 20, 1 << 30, none, 650 << 20}, // a small change
		{20 << 20, 5 << 20, 1 << 30, none, heapSize},
		{20 << 20, 5 << 20, 1 << 30, 90 << 20, 90 << 20},
		{400 << 20, 50 << 20, 1 << 30, 512 << 20, 512 << 20},
		{2000 << 20, 50 << 20, 1 << 30, none, 2306 << 20},
		{2000 << 20, 50 << 20, 8 << 30, none, 2306 << 20},
		{512 << 20, 50 << 20, 512 << 20, none, 690 << 20},
		{20 << 20, 5 << 20, 512 << 20, none, heapSize},
		{512 << 20, 50 << 20, 64 << 20, none, 626 << 20},
	} {
		if followHeap(c.heap, c.beside, headroomFor(c.inFlight), c.most); debug.SetMemoryLimit(-1) != c.want {
			t.Errorf("with %d MiB in use the limit is %d MiB, want %d", c.heap>>20, debug.SetMemoryLimit(-1)>>20, c.want>>20)
		}
	}
	if heap, beside := inUse(); heap < 0 || beside <= 0 || beside > 1<<30 {
		t.Errorf("in use are %d and %d bytes", heap, beside)
	}
	debug.SetMemoryLimit(1 << 30) // the operator's own
	end = boundHeap(mostInFlight)
	if limit := debug.SetMemoryLimit(-1); limit != 1<<30 {
		t.Errorf("the operator's limit became %d", limit)
	}
	end()
}

func TestRequestsMayHoldHalfOfWhatTheProcessMayUse(t *testing.T) {
	for _, c := range []struct{ configured, allowed, want int64 }{
		{0, math.MaxInt64, 1 << 30},
		{0, 8 << 30, 1 << 30},
		{0, 1843 << 20, 1843 << 19},
		{0, 512 << 20, 256 << 20},
		{300 << 20, 512 << 20, 300 << 20},
	} {
		if got := inFlightBytes(c.configured, c.allowed); got != c.want {
			t.Errorf("with %d configured and %d MiB allowed it is %d MiB, want %d", c.configured, c.allowed>>20, got>>20, c.want>>20)
		}
	}
}
