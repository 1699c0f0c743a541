package server

import (
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/server/edge"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/record"
)

// recording is the durable record of an exchange: its opening is written when it has been placed, its closing before
// the client has the last byte of the answer.
type recording struct {
	capture  store.Recording // nil: the request has not been put on record
	off      bool            // the capture records nothing
	closing  record.Closing
	cost     record.Cost        // of closing, where it is known
	written  int64              // estimated tokens of the answer so far
	failed   bool               // the provider reported a failure before it wrote anything
	recalled *record.RecallInfo // nil: nothing was to be recalled
	finished bool               // the closing is committed
	tools    []string           // whose results the request brings, of a traced exchange
	lag      time.Duration      // how long the end of the answer waited for that
}

func (r *recording) noteFirstByte() { r.closing.FirstByte = time.Now() }

// id returns the exchange's id, "" before it is on record.
func (r *recording) id() string {
	if r.capture == nil {
		return ""
	}
	return r.capture.ID()
}

// nameSession tells the client the session's id, which is known once the opening is committed.
func (r *recording) nameSession(out *edge.Response) {
	if r.capture == nil {
		return
	}
	if id := r.capture.SessionID(); id != "" {
		out.Set(headerSessionID, id)
	}
}

func (r *recording) outcomeOf(status int) record.Outcome {
	if status >= 400 || r.closing.Error != nil {
		return record.OutcomeUpstreamError
	}
	return record.OutcomeComplete
}

// counted reports whether the provider has counted the answer to its end.
func (r *recording) counted(usage *codec.Usage) bool {
	if usage.IsZero() || usage.Output == 0 && r.written > 0 {
		return false
	}
	return r.closing.Outcome == record.OutcomeComplete || r.closing.FinishReason != ""
}

// spent returns the cost that counts toward budgets.
func (r *recording) spent() record.USD {
	if cost := r.closing.Cost; cost != nil && !cost.Notional {
		return cost.USD
	}
	return 0
}
