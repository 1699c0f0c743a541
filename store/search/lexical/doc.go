// Package lexical finds documents by their words and by the names of things in them.
//
// The newest documents are in a head in memory, where searches find them at once. Once a minute, or when it is full,
// the head is written as a segment, an immutable file. Segments of similar size are merged in the background.
// Replacements and removals are noted beside the segments until they are merged. FORMAT.md describes the files.
//
// A segment and a head have a section for each account. A search reads only the sections of one account, so it can
// return no document of another, and document frequencies are per account.
package lexical
