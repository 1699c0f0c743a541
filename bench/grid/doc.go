// Package grid holds the conformance grid of the crossings: every surface against every format that a provider may
// speak instead, streamed and complete, case by case. Its tests ask through the official SDKs, over real HTTP and the
// real server, and the simulated provider refuses what the real ones would.
//
//	make grid
//
// prints the table.
package grid
