package http1

import (
	"testing"
	"time"
)

// The goroutine that writes a body may report its end after the answer has begun. That must not keep the body in memory for
// as long as the answer lasts.
func TestABodyCountsAsSentAlsoIfItsWriterReportsThatLate(t *testing.T) {
	r := &Response{conn: &conn{writing: make(chan time.Time, 1), answered: time.Now().Add(time.Hour)}}
	go func() { r.conn.writing <- time.Now() }()
	for range 2 {
		if !r.BodySent() {
			t.Error("the body has been written, and counts as being sent")
		}
	}
	if len(r.conn.writing) != 1 {
		t.Error("the connection does not learn when the body was complete")
	}
	early := &Response{conn: &conn{writing: make(chan time.Time, 1), answered: time.Now().Add(-time.Hour)}}
	if early.BodySent() {
		t.Error("a body that is still being written counts as sent")
	}
}
