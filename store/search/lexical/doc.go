// Package lexical finds documents by their words and by the names of things in them.
//
// The newest documents are in a head in memory, where searches find them at once. Once a minute, or when it is full, the head
// is written as a segment, a file that never changes; segments of about the same size are merged in the background. What is
// replaced or taken out is noted beside the segments until they are merged. FORMAT.md describes the files.
//
// A segment has a section for each account, and a head likewise. A search looks into the sections of one account, so that
// no document of another can come out of it, and how rare a term is, is counted inside the account.
package lexical
