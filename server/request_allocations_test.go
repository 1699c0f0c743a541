//go:build !race

package server_test

import (
	"runtime"
	"testing"
)

// What a small request allocates, without its record.
func TestAllocationsOfARequest(t *testing.T) {
	request := startRequests(t, captureOff)
	var before, after runtime.MemStats
	const requests = 200
	least := 1e9
	for range 5 { // others in this process allocate now and then
		runtime.ReadMemStats(&before)
		for range requests {
			request()
		}
		runtime.ReadMemStats(&after)
		least = min(least, float64(after.Mallocs-before.Mallocs)/requests)
	}
	t.Logf("%.1f allocations per request", least)
	if least > 34 {
		t.Errorf("%.1f allocations per request", least)
	}
}
