// Package search finds turns again: by words and names over a lexical index, by likeness over vectors, or by both. All
// it keeps is derived from the store's turns and follows their changes; if it is lost, it is built again.
package search
