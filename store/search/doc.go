// Package search finds turns again: by words and names over a lexical index, by likeness over vectors, or by both. All
// it keeps is derived from the store's turns and follows their changes; it can be lost and is then built anew.
package search
