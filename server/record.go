package server

import (
	"cmp"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/crossing"
	"github.com/mnemeproxy/mneme/server/clients"
	"github.com/mnemeproxy/mneme/server/edge"
	"github.com/mnemeproxy/mneme/store/record"
)

// record records the request. It does not wait for the commit.
func (x *exchange) record() error {
	r := &x.recording
	if r.off = x.proxy.opts.CaptureOff || x.request.offRecord(x.proxy.opts.OptOut); r.off {
		r.capture = x.proxy.engine.Recorder.Off()
		return nil
	}
	var err error
	o := x.opening()
	if r.capture, err = x.proxy.engine.Recorder.Begin(x.ctx, o); err == nil && x.route.placement.Provider != nil && x.proxy.recall.wanted(&x.request) {
		if r.recalled = x.proxy.recall.insert(x.ctx, &x.request, r.capture, o); r.recalled != nil {
			x.answer.out.Set(headerRecall, recallHeader(r.recalled))
		}
	}
	return err
}

// opening returns the record of the exchange as it stands before a provider is asked.
func (x *exchange) opening() *record.Opening {
	x.request.split()
	x.request.passing.abridge(&x.request)
	body, redacted := x.request.redactor.Body(x.request.recorded(), x.request.blocks, x.request.prints)
	o := &record.Opening{
		Account: x.request.caller.Account, KeyID: x.request.caller.KeyID,
		Surface: x.request.surface, Format: x.route.format,
		ModelAsked: x.request.envelope.Model, ModelSent: x.route.placement.Model,
		Stream:  x.request.envelope.Stream,
		ChatKey: x.request.envelope.ChatKey, ExternalSession: x.request.envelope.ExternalSession,
		Header: x.request.clientHeaders(), ContentType: x.request.in.ContentType(),
		Body: body, Spans: x.request.blocks, Items: x.request.envelope.Items, Redactor: x.request.redactor, Redacted: redacted, Started: x.request.started,
	}
	if p := x.route.placement.Provider; p != nil {
		o.Provider, o.Simulated = p.Name(), p.Simulated()
	}
	if x.request.passing != nil {
		o.Format, o.Target = codec.Pass, x.request.passing.as(x.request.in.Method())
	}
	if len(redacted) == 0 {
		o.Prints = x.request.prints
	}
	x.request.hints(o)
	x.request.follow(x.proxy.engine.Elsewhere, o)
	o.Project = x.request.project()
	return o
}

// hints sets the fields that identify the session of an exchange, besides the service's own fields: the client's own
// ids if there are any (docs/wire/clients.md#1), else keys derived from its opening messages.
func (r *request) hints(o *record.Opening) {
	if r.in.HasHeader(headerReplay) {
		o.Auxiliary = record.AuxiliaryReplay // the request's facts about its conversation hold for the original only
		return
	}
	client := r.client()
	h := client.Hints()
	o.NativeSession, o.NativeAgent, o.NativeParent = h.Session, h.Agent, h.Parent
	o.PreviousResponse, o.Conversation = clients.KeptID(r.envelope.PreviousResponse), clients.KeptID(r.envelope.Conversation)
	if o.Auxiliary = cmp.Or(r.auxiliary, h.Auxiliary); o.Auxiliary == "" {
		o.Auxiliary = client.Auxiliary()
	}
	if o.ChatKey != "" || o.ExternalSession != "" || o.NativeSession != "" || o.Conversation != "" {
		return
	}
	keys := r.keys(o.Body)
	o.DerivedOpening, o.DerivedReply = keys.Opening, keys.Reply
}

// recordRefusal begins the record of a request that was refused before it was placed. Only requests of authenticated
// callers are recorded, and not if recording itself failed, or if there is no memory for it.
func (x *exchange) recordRefusal(e *codec.Error) {
	if x.recording.capture != nil || x.request.caller.Account == "" || x.allowance.refused || x.request.unread || e == edge.ErrNoMemory || e.Kind == codec.KindStorage {
		return
	}
	if x.proxy.beginWork(x.ctx, &x.request) != nil {
		return
	}
	defer x.proxy.endWork(&x.request)
	if err := x.record(); err != nil {
		x.recording.capture = nil
	}
}

// recordSeen records the answer's facts about itself.
func (x *exchange) recordSeen(seen *crossing.Seen) {
	c := &x.recording.closing
	c.ModelServed = seen.Model
	c.ResponseID = seen.ID
	if x.route.format != x.request.surface { // the client has an id of ours, and will send that
		c.ResponseID = crossing.Traits(x.request.surface).AnswerID(x.answerOptions())
	} else if seen.ID != "" && storesAnswers(x.request.surface) && (x.recording.off || x.recording.capture != nil && x.recording.capture.Shed()) {
		x.proxy.owned.keep(x.request.caller.Account, seen.ID)
	}
	c.Usage, x.recording.written, c.Answer = seen.Usage, seen.Written, seen.Answer
	c.FinishReason = seen.Finish.String()
	if seen.Err != nil {
		c.Error = seen.Err
	}
	x.recording.failed = seen.Err != nil && seen.Written == 0
}

// commit records the end of the exchange, once.
func (x *exchange) commit(outcome record.Outcome) error {
	r := &x.recording
	if r.finished {
		return nil
	}
	r.finished = true
	r.closing.Outcome = outcome
	x.recordCost()
	r.closing.Attempts = x.attempts.toRecord()
	r.closing.Recall = r.recalled
	if x.route.fallback {
		p := x.route.placement.Provider
		r.closing.StandIn = &record.StandIn{Provider: p.Name(), Format: x.route.format, ModelSent: x.route.placement.Model, Simulated: p.Simulated()}
	}
	if r.closing.LastByte.IsZero() {
		r.closing.LastByte = time.Now()
	}
	if r.capture == nil {
		return nil
	}
	ended, began := x.trace.Capture(), time.Now()
	err := r.capture.Finish(&r.closing)
	if err != nil && outcome == record.OutcomeComplete {
		r.closing.Outcome = record.OutcomeInterrupted // the client does not get the end of the answer
	}
	if !r.off {
		r.lag = time.Since(began)
	}
	ended(err)
	return err
}

// tryCommit is commit for when it is too late to tell the client of a failure.
func (x *exchange) tryCommit(outcome record.Outcome) {
	if err := x.commit(outcome); err != nil {
		x.proxy.log.Error("an exchange could not be put on record", "exchange", x.recording.id(), "error", err)
	}
}
