// Package vector finds those vectors of one account that are nearest to a given one. A vector takes a byte per dimension.
// A scan compares one bit per dimension first, then the best candidates in full.
package vector
