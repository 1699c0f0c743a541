// Package writing is the store as its writer changes it.
//
// A [Group] is a group of operations that are committed together, with what they change beside their own records: the
// sessions that exchanges belong to, the log of changes, usage, notes of open exchanges, and events. Operations look
// records up in it and put others. Only the writer's goroutine uses it, except for [Writer.MarkInterrupted], which runs
// before.
//
// A [Writer] runs changes on that goroutine, in the order in which they were sent, and keeps them apart from the deletion
// of their account. [Writer.DB] is the same for the packages that know keys and values only.
package writing
