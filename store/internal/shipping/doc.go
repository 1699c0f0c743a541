// Package shipping keeps, at an edge, the log of the exchanges that its centre does not have yet, and makes the frames by
// which they travel.
package shipping
