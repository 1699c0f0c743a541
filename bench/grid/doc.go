// Package grid holds the conformance grid of the crossings: every surface against every other provider format, streamed
// and complete, case by case. Its tests use the official SDKs, real HTTP and the real server, and the simulated
// provider refuses what the real ones would.
//
//	make grid
//
// prints the table.
package grid
