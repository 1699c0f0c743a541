package router

import "sync/atomic"

// retryBudget keeps retries to a fraction of the calls, so that a provider that is down, or refuses everything, does
// not get several times its normal load. It counts in tenths of a retry.
type retryBudget struct{ tenths atomic.Int64 }

const (
	oneRetry      = 10
	earnedPerCall = 2             // a retry for every five calls
	fullBudget    = 20 * oneRetry // the most that is saved up
)

func (b *retryBudget) fill() { b.tenths.Store(fullBudget) }

func (b *retryBudget) earn() {
	if b.tenths.Load() < fullBudget {
		b.tenths.Add(earnedPerCall)
	}
}

func (b *retryBudget) spend() bool {
	for {
		have := b.tenths.Load()
		if have < oneRetry {
			return false
		}
		if b.tenths.CompareAndSwap(have, have-oneRetry) {
			return true
		}
	}
}
