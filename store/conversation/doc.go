// Package conversation holds the rules by which exchanges become conversations: which session an exchange belongs to,
// where its turn continues the session's history, and what it adds to the sums of its hour. The rules are the same for
// every engine, so that a memory on disk and one in a database tell the same story.
//
// Nothing here reads or writes a disk, waits, or starts a goroutine. An engine gives a rule its records through one of two
// small interfaces, and stores what the rule has put:
//
//   - [SessionStore] are the sessions of an account, with the links that lead to them. [Merge], [PutInOrder] and
//     [Arrival] work on it.
//   - [TurnStore] are the turns of a session, with the histories that lead to them. [Read] digests an exchange, [PlaceOf]
//     finds where its turn goes, and [PlaceTurn] puts it there, also if it arrives after the turn that continues it.
//
// [Sessions] and [Turns] implement both for an engine that reads and writes many records at once: they load through
// functions, and say at the end what has changed. [Rollups] does the same for sums.
//
// [Evidence] is what a request says about its session. [Arrival] is an exchange that another store has captured, with
// the session that it had there.
package conversation
