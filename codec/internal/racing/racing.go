// Package racing reports whether the race detector is on. Under it pools lose part of what they are given, on
// purpose, so that counts of allocations mean nothing; make unit counts them in a run of their own without it.
package racing
