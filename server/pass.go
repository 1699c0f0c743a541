package server

import (
	"bytes"
	"net/http"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/crossing"
	"github.com/mnemeproxy/mneme/router"
)

// passThrough serves a client in the provider's own format: bytes pass both ways unchanged, except for reasoning state
// in the history that the provider would refuse. Its frame stays on the stack for as long as a stream lasts.
func (x *exchange) passThrough() error {
	body, err := x.spliced()
	if err != nil {
		return err
	}
	reply, err := x.call(router.Generate, body)
	if err != nil {
		return err
	}
	if x.shouldFallBack(reply.Status) || !reply.isStream() {
		return reply.complete()
	}
	return newPump(reply, &passed{x: x, observer: crossing.NewObserver(x.route.format, x.route.reasoningMemory(x.router, x.proxy.ledger, x.request.caller.Account))}).run()
}

// complete passes an answer on that is no stream.
func (r providerReply) complete() error {
	defer r.close()
	switch {
	case r.x.shouldFallBack(r.Status):
		return r.failure()
	case r.x.route.askedUsage && (r.Status == http.StatusBadRequest || r.Status == http.StatusUnprocessableEntity):
		return r.passRefusal()
	}
	return r.pass()
}

// passRefusal passes on that a provider refused a request that this side had added to, or asks again without asking for
// usage, if that is what it refused: some hosts take no member that they do not know.
func (r providerReply) passRefusal() error {
	body, err := r.whole()
	if err != nil {
		return err
	}
	if !bytes.Contains(body, []byte("stream_options")) && !bytes.Contains(body, []byte("include_usage")) {
		return r.passRead(body)
	}
	r.x.route.uncounted = true
	r.x.recording.closing.Translation = nil
	return r.x.passThrough()
}

// spliced returns the client's body for a provider of its own format.
func (x *exchange) spliced() ([]byte, error) {
	if err := x.proxy.beginWork(x.ctx, &x.request); err != nil {
		return nil, err
	}
	defer x.proxy.endWork(&x.request)
	body, resolved, err := x.resolveOwn()
	if err != nil {
		return nil, err
	}
	envelope, blocks := &x.request.envelope, x.request.splitLarge()
	if len(resolved) > 0 {
		envelope, blocks = new(codec.Envelope), nil
		if err := envelope.Read(body); err != nil {
			return nil, err
		}
	}
	x.route.askedUsage = envelope.AskForUsage((x.proxy.opts.AskUsage || x.allowance.metered) && x.route.mayAskForUsage(x.router))
	if !envelope.Untouched(x.route.placement.Model) {
		if err := x.request.share.Take(int64(len(body))); err != nil {
			return nil, err
		}
		body, blocks = envelope.Splice(nil, body, x.route.placement.Model), nil // their positions in it differ
	}
	body, dropped := crossing.CleanHistory(body, x.route.format, &crossing.Settings{
		Target: x.router.Target(x.route.placement), Pieces: blocks, Prints: x.request.prints,
		Ledger: x.proxy.ledger, Account: x.request.caller.Account,
	})
	if notes := (codec.Notes{Emulated: resolved, Dropped: dropped}); len(resolved)+len(dropped) > 0 {
		x.answer.out.Set(headerTranslation, crossing.NotesHeader(x.request.surface, x.route.format, &notes))
		x.recording.closing.Translation = append(x.recording.closing.Translation, crossing.NoteList(&notes)...)
	}
	return body, nil
}

// mayAskForUsage reports whether the provider can be asked for token counts that it would not send otherwise.
func (r *route) mayAskForUsage(by *router.Router) bool {
	return !r.uncounted && crossing.Traits(r.format).Stream.UsageAsked && by.Target(r.placement).Dialect.StreamOptions
}

// passed relays a stream whose bytes go to the client unchanged.
type passed struct {
	x        *exchange
	observer *crossing.Observer // observes the frames
	out      []byte             // if usage was asked for on this side
}

func (r *passed) frames(p *pump) []byte {
	for r.passRoutine(p); p.splitter.Next(&p.frame); r.passRoutine(p) {
		p.note(r.observer.Frame(&p.frame))
		if r.x.route.askedUsage && crossing.IsUsageChunk(p.frame.Data) {
			p.splitter.Drop(&p.frame)
		}
	}
	return r.bytes(p)
}

// bytes returns the client's bytes of the frames that passed. If usage was asked for on this side, the provider's
// chunks say that they have none, which is removed.
func (r *passed) bytes(p *pump) []byte {
	passed := p.splitter.Passed()
	if !r.x.route.askedUsage {
		return passed
	}
	var changed bool
	if r.out, changed = crossing.AppendWithoutUsage(r.out[:0], passed); !changed {
		return passed
	}
	return r.out
}

// passRoutine passes frames that are known to be mere content.
func (r *passed) passRoutine(p *pump) {
	for n := r.observer.Routine(p.splitter.Rest()); n > 0; n = r.observer.Routine(p.splitter.Rest()) {
		p.splitter.Pass(n)
		p.alive = false
	}
}

func (r *passed) end(p *pump, residue []byte) (out []byte, complete bool) {
	complete = r.observer.End(codec.EndEOF, residue)
	return r.bytes(p), complete
}

func (r *passed) rest(p *pump) []byte {
	p.splitter.Residue(&p.frame)
	return r.bytes(p)
}

func (r *passed) fail(dst []byte, e *codec.Error, next int64) []byte {
	return r.observer.Fail(dst, e, next, r.requestBody(), r.x.answerOptions())
}

// requestBody returns the client's body, from the record if it has been dropped.
func (r *passed) requestBody() []byte {
	x := r.x
	if x.request.body != nil || x.recording.off {
		return x.request.body
	}
	recorded, err := x.proxy.engine.Archive.Exchange(x.request.caller.Account, x.recording.id())
	if err != nil {
		return nil
	}
	return recorded.RawRequest
}

func (r *passed) next() int64             { return r.observer.Next() }
func (r *passed) seen() *crossing.Seen    { return &r.observer.Seen }
func (r *passed) announce()               {} // spliced has reported the changes to the request
func (r *passed) record()                 {} // as above
func (r *passed) answersWithStatus() bool { return false }
func (r *passed) release()                { r.observer.Release() }

// reasoningMemory returns whose a passed-through answer is, and where its reasoning is kept for hosts that want it back.
func (r *route) reasoningMemory(by *router.Router, ledger crossing.Ledger, account string) crossing.Memory {
	memory := crossing.Memory{Account: account}
	if family, replays := by.ReplaysReasoning(r.placement, r.format); replays {
		memory.Ledger, memory.Family = ledger, family
	}
	return memory
}
