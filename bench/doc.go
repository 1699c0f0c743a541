// Package bench measures mneme against the physical limit and against other gateways on one machine: the command "mneme
// bench".
//
// A run starts the simulated provider, the targets and the load. The first two are separate processes, so that the
// kernel accounts for CPU time and memory of a target alone. The lanes (lane.go) define the work. In each lane the
// targets take turns, A B C A B C, after a warm-up, so that other work on the machine affects all of them; figures are
// the minimum, median and maximum of the rounds. Every answer is verified: a target that cuts or changes answers is not
// fast.
//
// Compare ratios within one run. The floors are the byte pump, ReverseProxy, and nginx and haproxy if they are
// installed. Absolute figures are valid for one machine at one time.
package bench
