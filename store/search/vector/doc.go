// Package vector finds the nearest vectors of a vector among those of one account. A vector takes a byte per dimension.
// A scan compares one bit per dimension first, then the best candidates in full.
package vector
