package server

import (
	"bytes"
	"context"
	"sync"

	"github.com/mnemeproxy/mneme/codec"
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

// runInBackground answers at once, or with the stream, and lets the exchange run on without the client. The request is on
// record by then.
func (x *exchange) runInBackground() error {
	if x.request.envelope.StoreOff || x.recording.off || x.recording.capture.Shed() {
		return codec.Invalid("background", "a response in the background is kept on record, which this request is not")
	}
	if err := x.recording.capture.Recorded(x.ctx); err != nil {
		return err
	}
	d := x.request.in.Detach(x.server.answers)
	ctx, cancel := context.WithCancelCause(context.Background())
	run := &backgroundRun{account: x.request.caller.Account, id: x.recording.id(), kept: d.Kept, cancel: cancel, ended: make(chan struct{})}
	queued := responses.AppendUnanswered(nil, x.request.body, x.answerOptions(), responses.StatusQueued, nil)
	x.ourHeader()
	own := x.detach(d)
	own.ctx = ctx
	x.server.runs.add(run)
	refused := x.server.edge.Go(func(life context.Context) {
		alive := context.AfterFunc(life, func() { cancel(context.Cause(life)) })
		defer alive()
		defer cancel(nil)
		defer close(run.ended)
		defer own.server.runs.remove(run)
		own.answerDetached(d)
	})
	if refused != nil {
		x.server.runs.remove(run)
		cancel(nil)
		return refused
	}
	x.detached = true // from here on it belongs to the other goroutine
	if x.request.envelope.Stream {
		eventHeader(x.answer.out)
		run.follow(x.ctx, x.answer.out, -1)
		return nil
	}
	x.answer.out.SetContentType("application/json")
	x.answer.out.SetBody(queued)
	return nil
}

// detach returns the exchange as it goes on without its client, whose memory it no longer uses.
func (x *exchange) detach(d *edge.Detached) *exchange {
	own := *x
	own.request.in, own.answer.out = &d.Request, &d.Response
	own.request.body = bytes.Clone(x.request.body)
	return &own
}

// answerDetached runs the exchange to its end.
func (x *exchange) answerDetached(d *edge.Detached) {
	defer d.End()
	defer x.finish()
	if err := x.generate(); err != nil {
		x.refuse(err)
	}
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
