// Package vector finds the vectors that are most like another one, among those of one account. A vector takes a byte for
// each dimension; a scan goes over one bit of each first and then looks at the best in full.
package vector
