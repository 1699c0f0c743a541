// Package store is the memory: every exchange that passes the proxy, kept durably and given back byte for byte.
//
// What it promises, and what its tests can fail on:
//
//   - What was acknowledged survives a kill -9, whole and once: [Capture.Recorded] and [Capture.Finish] return after
//     the commit. With [Power] it survives a power loss too.
//   - An exchange found open when the store is opened is marked [OutcomeInterrupted], with what had arrived.
//   - No account sees another's data. Every key of an account's data begins with the account's number, and every
//     look-up takes the account first.
//   - Memory is bounded: by [Options.QueueBytes] for what waits to be written, by one chunk per stream for answers.
//   - Keys of callers are kept as hashes, credentials of providers encrypted; neither is ever logged.
//
// One goroutine, the writer, does all writing. It takes what has gathered, commits it as one transaction, and
// acknowledges it; it never waits for a timer. FORMAT.md describes every key and record.
package store
