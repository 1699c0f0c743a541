// Package catalog keeps what edges ship in Postgres: exchanges with their bodies, sessions, and what is derived from them.
//
// It applies frames as a [store.Store] does, each of a log once and in order, in one transaction; which session an exchange
// belongs to and what it adds to that is decided by the rules of package store. Turns and the terms that searches find them
// by are made behind that, by [Catalog]'s own goroutine, and can be made again from the rest. Every statement names the
// account, and the tables are partitioned by it.
package catalog
