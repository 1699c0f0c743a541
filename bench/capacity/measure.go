package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mnemeproxy/mneme/bench/cputime"
	"github.com/mnemeproxy/mneme/store/volume"
)

// spending is what the process has used until some time, or between two times.
type spending struct {
	at     time.Time
	wall   time.Duration
	cpu    time.Duration // user and system
	allocs uint64
	bytes  uint64 // allocated
}

func now() spending {
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	return spending{
		at: time.Now(), cpu: cputime.Used(), allocs: mem.Mallocs, bytes: mem.TotalAlloc,
	}
}

func (s spending) since(before spending) spending {
	return spending{wall: s.at.Sub(before.at), cpu: s.cpu - before.cpu, allocs: s.allocs - before.allocs, bytes: s.bytes - before.bytes}
}

func (s spending) per(exchanges, size int) string {
	n := float64(exchanges)
	return fmt.Sprintf("%.0f/s, %.1f MB/s, %.0f µs CPU, %.0f allocations and %.1f KB allocated each",
		n/s.wall.Seconds(), n*float64(size)/1e6/s.wall.Seconds(), float64(s.cpu.Microseconds())/n, float64(s.allocs)/n, float64(s.bytes)/n/1e3)
}

// tenths is the CPU time used when each tenth of the exchanges had been captured. Background work may count toward the
// next tenth.
type tenths struct {
	done atomic.Int64
	used [10]time.Duration // of cputime.Used; each is written once
}

func (t *tenths) count(of int) {
	done := int(t.done.Add(1))
	for tenth := (done - 1) * 10 / of; tenth < done*10/of; tenth++ {
		t.used[tenth] = cputime.Used()
	}
}

func (t *tenths) since(before time.Duration, of int) string {
	var b strings.Builder
	for _, used := range t.used {
		fmt.Fprintf(&b, "%d ", (used-before).Microseconds()*10/int64(of))
		before = used
	}
	return b.String() + "µs"
}

type durations []time.Duration

func (d *durations) add(one time.Duration) { *d = append(*d, one) }

func (d *durations) String() string {
	slices.Sort(*d)
	at := func(share float64) time.Duration {
		return (*d)[int(share*float64(len(*d)-1))].Round(10 * time.Microsecond)
	}
	return fmt.Sprintf("p50 %v, p99 %v", at(0.5), at(0.99))
}

// residence is the resident memory of the process: its own, and pages of mapped files, which the kernel can reclaim.
type residence struct{ own, files int64 } // KiB

func (r residence) String() string {
	return fmt.Sprintf("%d MB of its own, %d MB of files", r.own>>10, r.files>>10)
}

func resident() (r residence) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return r
	}
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		size, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		switch name {
		case "RssAnon":
			r.own = size
		case "RssFile":
			r.files = size
		}
	}
	return r
}

// memoryWatch samples the process's memory every tenth of a second.
type memoryWatch struct {
	mu      sync.Mutex
	highest residence
	quit    chan struct{}
	done    chan struct{}
}

func watchMemory() *memoryWatch {
	w := &memoryWatch{quit: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(w.done)
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-w.quit:
				return
			case <-tick.C:
				r := resident()
				w.mu.Lock()
				w.highest = residence{max(w.highest.own, r.own), max(w.highest.files, r.files)}
				w.mu.Unlock()
			}
		}
	}()
	return w
}

func (w *memoryWatch) stop() {
	close(w.quit)
	<-w.done
}

func (w *memoryWatch) peak() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return "at most " + w.highest.String()
}

// liveHeap describes how much of the heap is in use.
func liveHeap() string {
	runtime.GC()
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	return fmt.Sprintf("%d MB of heap in use", mem.HeapAlloc>>20)
}

// diskUse returns how much the files under dir take on the volume; they are sparse.
func diskUse(dir string) (size int64) {
	_ = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			if info, gone := entry.Info(); gone == nil { // the store adds and removes files in the background
				size += volume.Taken(info)
			}
		}
		return nil
	})
	return size
}
