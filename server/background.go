package server

import (
	"bytes"
	"context"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/responses"
)

// runInBackground answers at once, or with the stream, and lets the exchange run on without the client. The request is on
// record by then.
func (x *exchange) runInBackground() error {
	if x.request.envelope.StoreOff || x.recording.off || x.recording.capture.Shed() {
		return codec.Invalid("background", "a response in the background is kept on record, which this request is not")
	}
	if err := x.recording.capture.Recorded(x.ctx); err != nil {
		return err
	}
	d := x.request.in.Detach(x.proxy.answers)
	ctx, cancel := context.WithCancelCause(context.Background())
	run := &backgroundRun{account: x.request.caller.Account, id: x.recording.id(), kept: d.Kept, cancel: cancel, ended: make(chan struct{})}
	queued := responses.AppendUnanswered(nil, x.request.body, x.answerOptions(), responses.StatusQueued, nil)
	x.ourHeader()
	own := *x // as it goes on without its client, whose memory it no longer uses
	own.request.in, own.answer.out, own.ctx = &d.Request, &d.Response, ctx
	own.request.body = bytes.Clone(x.request.body)
	x.proxy.runs.add(run)
	refused := x.proxy.edge.Go(func(life context.Context) {
		alive := context.AfterFunc(life, func() { cancel(context.Cause(life)) })
		defer alive()
		defer cancel(nil)
		defer close(run.ended)
		defer own.proxy.runs.remove(run)
		defer d.End()
		defer own.finish()
		if err := own.generate(); err != nil {
			own.refuse(err)
		}
	})
	if refused != nil {
		x.proxy.runs.remove(run)
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
