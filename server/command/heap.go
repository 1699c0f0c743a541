package command

import (
	"math"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// The store's database allocates in bursts, and a heap that may double between collections takes 300 MB of which 60 MB
// are in use. heapSize is what the process may take before the collector works harder, which costs 3 % of its CPU time
// at 7,000 exchanges per second. A process that needs more gets 1.5 times what is in use, or the headroom more, so that
// the collector is never busy with a limit that it cannot keep, unless its container allows less: the kernel would kill
// it.
const (
	heapSize = 160 << 20
	heapLook = time.Second
)

// boundHeap keeps the memory of the process small until end is called. inFlight is the memory of requests and answers. A
// limit set by the operator (GOMEMLIMIT) stays.
func boundHeap(inFlight int64) (end func()) {
	if debug.SetMemoryLimit(-1) != math.MaxInt64 {
		return func() {}
	}
	quit, done := make(chan struct{}), make(chan struct{})
	most, headroom := containerAllows(), headroomFor(inFlight)
	go func() {
		defer close(done)
		defer debug.SetMemoryLimit(math.MaxInt64)
		tick := time.NewTicker(heapLook)
		defer tick.Stop()
		for {
			heap, beside := inUse()
			followHeap(heap, beside, headroom, most)
			select {
			case <-quit:
				return
			case <-tick.C:
			}
		}
	}()
	return func() {
		close(quit)
		<-done
	}
}

// containerAllows returns how many bytes the collector may let the process use in its control group: nine tenths of the
// group's limit, because the kernel also counts its own buffers and dirty pages.
func containerAllows() int64 {
	limit, err := memlimit.FromCgroup()
	if err != nil || limit > math.MaxInt64 { // usually there is none
		return math.MaxInt64
	}
	return int64(limit / 10 * 9)
}

// mostInFlight is the memory of requests and answers on a machine without limits.
const mostInFlight = 1 << 30

// allowed returns how many bytes the process may use: by its control group, or by the operator (GOMEMLIMIT).
func allowed() int64 {
	most := containerAllows()
	if os.Getenv("GOMEMLIMIT") != "" {
		most = min(most, debug.SetMemoryLimit(-1))
	}
	return most
}

// inFlightBytes returns the memory of requests and answers: as configured, else half of what is allowed. The rest is for
// the store, and for garbage.
func inFlightBytes(configured, allowed int64) int64 {
	if configured > 0 {
		return configured
	}
	return min(allowed/2, mostInFlight)
}

// headroomFor returns the most that the limit exceeds what is in use: what bodies leave behind when they have been
// answered. It is a part of the memory of requests and answers, so that the process takes little more than that in a burst.
func headroomFor(inFlight int64) int64 { return min(max(64<<20, inFlight/4), 256<<20) }

// followHeap sets the limit for what is in use, at most most. Setting it stops the program for a moment, so small
// changes are skipped.
func followHeap(heap, beside, headroom, most int64) {
	limit := min(max(heapSize, heap+min(heap/2, headroom)+beside), most)
	if now := debug.SetMemoryLimit(-1); limit < now-now/8 || limit > now+now/8 {
		debug.SetMemoryLimit(limit)
	}
}

// inUse returns the bytes of the heap that were in use at the last collection, and what the runtime takes besides:
// stacks and its own tables.
func inUse() (heap, beside int64) {
	samples := [...]metrics.Sample{
		{Name: "/gc/heap/live:bytes"},
		{Name: "/memory/classes/total:bytes"},
		{Name: "/memory/classes/heap/released:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
		{Name: "/memory/classes/heap/unused:bytes"},
	}
	metrics.Read(samples[:])
	for i := range samples[1:] {
		if size := int64(samples[1+i].Value.Uint64()); i == 0 {
			beside = size
		} else {
			beside -= size
		}
	}
	return int64(samples[0].Value.Uint64()), beside
}
