// Package racing reports whether the race detector is on. Under it, pools deliberately drop part of what they are
// given, so counts of allocations mean nothing; make unit counts them in a separate run without it.
package racing
