// Package catalog is the memory of a cluster's centre, in Postgres: the exchanges that edges ship with their bodies, their
// sessions, and what is derived from them.
//
// Frames of an edge's log are applied once and in order (take.go), each in one transaction. Package conversation decides
// which session an exchange belongs to and what it adds to it (session.go). Turns
// and their search terms are made in the background (digest.go), as are vectors (vectors.go), and can be made again from
// the rest (rebuild.go). Bodies are rows, or stand in packs of a bucket (value.go, rewrite.go, package pack).
//
// A memory is read in read.go, searched from search.go on: candidates.go finds turns by words, named.go sessions by their
// titles, vectors.go turns by likeness; package search ranks them. What is asked to be erased is accepted and erased in
// erase.go; the centre that leads (leading.go) completes it and erases by age (retain.go).
//
// A database (database.go) is what all of this works on. A [Catalog] has it, and what its processes tell each other:
// [Events], [Roster] and [Lead]. Every statement names the account, and the tables are partitioned by it; schema.go has
// them.
package catalog
