package server

import (
	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/server/telemetry"
	"github.com/mnemeproxy/mneme/store/record"
)

// attempts are the calls to providers.
type attempts struct {
	made    []record.Attempt
	first   [1]record.Attempt // storage for made; mostly there is one
	replied router.Header     // header of the newest reply; nil if a provider was asked and none came
}

// fail records why the newest call was not enough, and its last attempt if that was known only after the header.
func (a *attempts) fail(trace *telemetry.Trace, e *codec.Error) {
	trace.CallFailed(e.Kind)
	if n := len(a.made); n > 0 && a.made[n-1].Failure == "" {
		a.made[n-1].Failure = e.Kind.String()
	}
}

// toRecord returns all attempts, or none if the first one gave the answer: the record has that anyway.
func (a *attempts) toRecord() []record.Attempt {
	if len(a.made) == 1 && a.made[0].Failure == "" {
		return nil
	}
	return a.made
}

// leftTheProvider reports whether this side ended the exchange while a provider had the request. A request whose
// connection was still being made counts as sent: the two cannot be told apart.
func (a *attempts) leftTheProvider(outcome record.Outcome) bool {
	switch outcome {
	case record.OutcomeClientClosed, record.OutcomeInterrupted, record.OutcomeStopped:
	default:
		return false
	}
	last := len(a.made) - 1
	return last >= 0 && a.made[last].Failure == "" && a.made[last].Status < 300
}
