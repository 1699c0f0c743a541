// Package upkeep takes out of a store what has to go, in the background: erasures and their receipts, what retention no
// longer allows, the data of deleted accounts, objects that nothing refers to, and the space of dead values. It also moves
// exchanges between sessions, which an erasure waits for.
//
// Everything begins with a record in the store (a receipt, a move, a note of a deleted account) and runs to its end from
// there, also after a restart. One goroutine, the [Keeper]'s, carries it out in batches, so that the writer is never held.
package upkeep
