// Package catalog stores what edges ship in Postgres: exchanges with their bodies, sessions, and data derived from
// them.
//
// It applies frames as a [store.Store] does, each of a log once and in order, in one transaction. Package store decides
// which session an exchange belongs to, and what it adds to the session. Turns and their search terms are made in the
// background by [Catalog]'s own goroutine, and can be rebuilt from the rest. Every statement names the account, and the
// tables are partitioned by it.
package catalog
