//go:build !race

package server_test

import (
	"runtime"
	"slices"
	"testing"
	"time"
)

// A small request makes 30 allocations, without its record. Others in this process allocate now and then, the more the longer
// the requests take; what they do in as long a time without requests is taken off.
func TestAllocationsOfARequest(t *testing.T) {
	request := startRequests(t, captureOff)
	const requests = 200
	var rounds []float64
	for range 5 {
		begun, before := time.Now(), mallocs()
		for range requests {
			request()
		}
		between := mallocs()
		time.Sleep(time.Since(begun))
		others := mallocs() - between
		rounds = append(rounds, float64(between-before-others)/requests)
	}
	slices.Sort(rounds)
	usual := rounds[len(rounds)/2]
	t.Logf("%.1f allocations per request", usual)
	if usual > 30.5 {
		t.Errorf("%.1f allocations per request", usual)
	}
}

func mallocs() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.Mallocs)
}
