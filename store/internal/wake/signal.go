// Package wake wakes goroutines that wait for work.
package wake

// Signal wakes the goroutine that receives from it. Notifications that come before it receives count as one.
type Signal chan struct{}

// New returns a signal.
func New() Signal { return make(Signal, 1) }

// Notify wakes the receiver, now or when it next receives. It does not wait.
func (s Signal) Notify() {
	select {
	case s <- struct{}{}:
	default:
	}
}
