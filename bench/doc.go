// Package bench measures mneme against the physical limit and against other gateways on one machine: the command
// "mneme bench".
//
// A run starts the simulated provider, the targets and the load, the first two as processes of their own, so that the
// kernel accounts for what a target costs: CPU time and memory of its processes, and of nothing else. The lanes
// (lane.go) say what work is sent. In each lane the targets take turns, A B C A B C, after a warm-up, so that what else
// happens on the machine falls on all of them; figures are the minimum, median and maximum of the rounds. Every answer
// is checked to be whole and right: a target that cuts or changes answers is not fast.
//
// Compare ratios within one run, the floors being the byte pump, ReverseProxy, and nginx and haproxy where they are
// installed. Absolute figures belong to one machine and one hour.
package bench
