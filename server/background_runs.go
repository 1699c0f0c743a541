package server

import (
	"context"
	"sync"

	"github.com/mnemeproxy/mneme/codec/responses"
	"github.com/mnemeproxy/mneme/server/edge"
)

// backgroundRun is an exchange whose client does not wait for the answer: it reads that from the record, or follows it.
type backgroundRun struct {
	account, id string // of the exchange
	kept        *edge.Kept
	cancel      context.CancelCauseFunc
	ended       chan struct{}
}

// backgroundRuns are those that this process has under way.
type backgroundRuns struct {
	mu   sync.Mutex
	runs map[string]*backgroundRun // by the ids of their exchanges
}

func (r *backgroundRuns) add(run *backgroundRun) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.runs == nil {
		r.runs = make(map[string]*backgroundRun)
	}
	r.runs[run.id] = run
}

func (r *backgroundRuns) remove(run *backgroundRun) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.runs, run.id)
}

// get returns the run of an account's exchange, nil if it has none.
func (r *backgroundRuns) get(account, id string) *backgroundRun {
	r.mu.Lock()
	defer r.mu.Unlock()
	if run := r.runs[id]; run != nil && run.account == account {
		return run
	}
	return nil
}

// answering returns the exchange that is being answered with a response of that id, "" if there is none: before its end,
// the record does not know the id that a provider gave it.
func (r *backgroundRuns) answering(account, response string) (exchange string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, run := range r.runs {
		if run.account == account && responses.Begun(run.kept.Now()) == response {
			return run.id
		}
	}
	return ""
}

// stop cancels the run and waits for its end.
func (r *backgroundRun) stop() {
	r.cancel(nil)
	<-r.ended
}

// follow sends the client the events after a number, as they come. An answer that cannot go on is cut.
func (r *backgroundRun) follow(ctx context.Context, out *edge.Response, after int64) {
	writer := out.Stream()
	for at := 0; ; {
		events, err := r.kept.Read(ctx, at)
		if err != nil {
			writer.Abort()
			return
		}
		if events == nil {
			return
		}
		at += len(events) // whole ones
		if err := send(writer, responses.EventsAfter(nil, events, after)); err != nil {
			writer.Abort()
			return
		}
	}
}
