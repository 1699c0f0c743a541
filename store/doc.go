// Package store is the memory: it keeps every exchange that passes the proxy durably, and returns it byte for byte.
//
// Its guarantees, each with tests:
//
//   - Acknowledged data survives a kill -9, whole and once: [Capture.Recorded] and [Capture.Finish] return after the
//     commit. With [Power] it also survives a power loss.
//   - An exchange found open when the store is opened is marked [record.OutcomeInterrupted], with what had arrived.
//   - No account sees another's data. Every key of an account's data begins with the account's number, and every lookup
//     takes the account first.
//   - Memory is bounded: by [Options.QueueBytes] for queued writes, by one chunk per stream for answers.
//   - Service keys are stored as hashes, provider credentials encrypted; neither is ever logged.
//
// One goroutine, the writer, does all writing. It commits everything queued as one transaction and acknowledges it; it
// never waits for a timer. FORMAT.md describes every key and record.
package store
