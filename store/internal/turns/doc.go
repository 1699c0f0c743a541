// Package turns makes the turns of exchanges: what a person asked and was answered, independent of the exchange's format.
//
// The [Digester] reads an ended exchange and puts its turn beside it. Small exchanges are read by the goroutine that ends
// them, and their turns are committed with their ends ([Digester.AtOnce]). The rest is read in the background, one at a
// time in the order in which they ended; the log of changes says which are left.
//
// Exchanges are read from memory where possible: the recorder hands over what it has at hand ([Kept]), within a bound for
// all exchanges together. Agents repeat their history with each request, so only the part behind the longest known prefix
// is kept and read.
package turns
