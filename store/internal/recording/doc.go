// Package recording puts exchanges on record while they run.
//
// A [Recorder] begins a [Capture] with the request of an exchange. The goroutine that pumps the answer writes it into the
// capture and finishes it. Each of these is a step for the writer: the opening, parts of a long answer, and the closing,
// which waits for its commit. Credentials are masked before anything leaves the goroutine.
package recording
