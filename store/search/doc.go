// Package search finds turns: by words and names in a lexical index, by similarity of vectors, or by both. All its data
// is derived from the store's turns and follows their changes; if it is lost, it is rebuilt.
package search
