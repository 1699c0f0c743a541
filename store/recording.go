package store

import (
	"context"

	"github.com/mnemeproxy/mneme/store/internal/recording"
	"github.com/mnemeproxy/mneme/store/record"
)

// Recording is the record of one exchange in progress, as a server sees it. Its methods are called one at a time,
// except ID, Shed and Recorded.
type Recording interface {
	ID() string                           // of the exchange
	SessionID() string                    // once the opening is on record; "" before
	Shed() bool                           // passes without a record under pressure
	Recorded(ctx context.Context) error   // waits until the request is on record
	Write(p []byte) (int, error)          // adds bytes of the answer; p may be reused at once
	Omit(n int64)                         // counts bytes of the answer that are not recorded; none are added behind them
	Finish(closing *record.Closing) error // waits until the whole exchange is on record
}

// Capture is the record of one exchange in progress, see package recording.
type Capture = recording.Capture

// Begin hands the opening of an exchange to the writer, see [recording.Recorder.Begin].
func (s *Store) Begin(ctx context.Context, o *record.Opening) (*Capture, error) {
	return s.recorder.Begin(ctx, o)
}

// Off returns a capture that records nothing, for exchanges that are not to be captured, and counts it.
func (s *Store) Off() *Capture { return s.recorder.Off() }

// Stats are counts since the store was opened, and the lengths of its queues.
type Stats struct {
	recording.Counts

	Queued     int64 // operations in the writer's queue
	Undigested int64 // exchanges waiting to be digested
}

// Stats returns the counts so far and the lengths of the queues.
func (s *Store) Stats() Stats {
	undigested, _ := s.Feed().Lag(StageDigest)
	return Stats{Counts: s.recorder.Counts(), Queued: int64(s.writer.Queued()), Undigested: int64(undigested)}
}
