// Package commit writes to the database: it gathers operations into groups and commits each group as one transaction.
//
// A [Writer] is one goroutine, so that whatever it reads and replaces needs no lock. An operation is a [Step]: the
// writer builds every step of a group, which looks up records in the [Group] and puts others, then writes them in their
// order to a [Batch], commits it, settles each step and acknowledges it. What a step has put is visible to all later
// ones at once. The writer starts no timer while a caller waits for an operation.
//
// The package knows keys and values, and the objects of package blob, but not what they mean. The rooms of the store
// that keep something of their own with each commit, such as a log, are its [Rooms].
//
// [Gate] keeps the writer away from a full volume.
package commit
