package server_test

import (
	"context"
	"os"
	"slices"
	"testing"
	"time"
)

// hostileRounds is how often the table is gone through beside legitimate traffic, and how often it is left alone for as long.
// The rounds alternate, so that other work on the machine falls on both.
const hostileRounds = 3

// hostileAttackers are at work at a time. They take their processor time in this very process, which is why they are few.
const hostileAttackers = 2

// hostileSlowdown is by how much legitimate requests may take longer in the middle of an attack.
const hostileSlowdown = 2

// A measurement, for a machine that has nothing else to do: make hostile.
func TestLegitimateTrafficKeepsItsLatencyDuringAttacks(t *testing.T) {
	if os.Getenv("MNEME_HOSTILE") == "" {
		t.Skip("set MNEME_HOSTILE, or use make hostile")
	}
	onEveryTransport(t, func(t *testing.T, on transportPlan) {
		h := besiege(t, on, hostileTimeout)
		var alone, beside []time.Duration
		for range hostileRounds {
			begun := time.Now()
			beside = append(beside, h.latencies(func() { _ = h.attackWith(t, hostiles(), hostileAttackers) })...)
			lasted := time.Since(begun)
			alone = append(alone, h.latencies(func() { time.Sleep(lasted) })...)
		}
		for _, percentile := range []int{50, 99} {
			without, with := percentileOf(alone, percentile), percentileOf(beside, percentile)
			ratio := float64(with) / float64(without)
			t.Logf("p%d of a legitimate request: %v alone, %v beside attackers, %.2f times", percentile,
				without.Round(10*time.Microsecond), with.Round(10*time.Microsecond), ratio)
			if percentile == 50 && ratio > hostileSlowdown {
				t.Errorf("it may be %d times at most", hostileSlowdown)
			}
		}
	})
}

// latencies returns what each of one client's requests took while something else went on.
func (h *besieged) latencies(while func()) []time.Duration {
	ctx, over := context.WithCancel(context.Background())
	took := h.legitimate(ctx)
	while()
	over()
	return <-took
}

func percentileOf(took []time.Duration, percentile int) time.Duration {
	slices.Sort(took)
	return took[(len(took)-1)*percentile/100]
}
