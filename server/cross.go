package server

import (
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/crossing"
	"github.com/mnemeproxy/mneme/codec/sse"
	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/store/record"
)

// run serves a client whose format the provider does not speak. Its frame stays on the stack for as long as a stream
// lasts.
func (t *translated) run() error {
	reply, err := t.call()
	if err != nil {
		t.release()
		return err
	}
	if !reply.isStream() {
		return t.complete(reply)
	}
	if !t.x.request.envelope.Stream {
		return t.gather(reply)
	}
	t.stream = t.crossed.Stream()
	return newPump(reply, t).run()
}

// translated is a request in the provider's format, and relays the answer to it in the client's.
type translated struct {
	x       *exchange
	crossed *crossing.Exchange
	body    *[]byte          // from upstreamBodies
	stream  *crossing.Stream // nil if the answer is none
}

// call translates the request and asks the provider.
func (t *translated) call() (providerReply, error) {
	x := t.x
	if x.route.format == codec.FormatUnknown {
		return providerReply{}, codec.Invalid("model", "%s does not generate text here: none of its formats (%s) can answer this surface.",
			x.route.placement.Provider.Name(), formatNames(x.route.placement.Provider.Formats()))
	}
	body, err := t.translate()
	if err != nil {
		return providerReply{}, err
	}
	t.announce()
	return x.call(router.Generate, body)
}

// translate makes the provider's request of the client's.
func (t *translated) translate() ([]byte, error) {
	x := t.x
	if err := x.proxy.beginWork(x.ctx, &x.request); err != nil {
		return nil, err
	}
	defer x.proxy.endWork(&x.request)
	x.request.splitLarge()
	t.body = upstreamBodies.Get().(*[]byte)
	crossed, body, err := t.prepare((*t.body)[:0])
	if err != nil {
		return nil, err
	}
	t.crossed, *t.body = crossed, body[:0]
	return body, x.request.share.Take(int64(cap(body)))
}

// prepare translates the client's body. If a client of Responses refers to stored answers by their ids, they are read
// from the record.
func (t *translated) prepare(dst []byte) (*crossing.Exchange, []byte, error) {
	x, settings := t.x, t.settings()
	crossed, body, err := crossing.Prepare(dst, x.request.surface, x.route.format, x.request.body, settings)
	if err == nil || !storesAnswers(x.request.surface) || asError(err).Kind != codec.KindInvalidRequest {
		return crossed, body, err
	}
	resolved, names, unresolved := x.proxy.answersOnRecord(&x.request, x.recording.recalled != nil).resolve(&x.request)
	if unresolved != nil {
		return nil, nil, unresolved
	}
	if len(names) == 0 {
		return nil, nil, err
	}
	settings.Pieces, settings.Prints, settings.Resolved = nil, nil, names
	settings.Read = false // an incomplete answer may be malformed
	return crossing.Prepare(dst, x.request.surface, x.route.format, resolved, settings)
}

// release returns what the translation borrowed. The call to the provider has ended.
func (t *translated) release() {
	if t.crossed != nil {
		t.crossed.Release()
	}
	if t.body != nil {
		keepBuffer(t.body)
	}
}

// complete answers with a reply that is no stream.
func (t *translated) complete(reply providerReply) error {
	defer t.release()
	defer reply.close()
	if reply.Status >= http.StatusMultipleChoices {
		return t.failure(reply)
	}
	return t.whole(reply)
}

// announce tells the client and the record what the translation does to the request. What it does to the answer is added
// with the answer.
func (t *translated) announce() {
	t.record()
	t.x.answer.out.Set(headerTranslation, t.crossed.Notes())
}

func (t *translated) record() { t.x.recording.closing.Translation = t.crossed.NoteNames() }

func (t *translated) settings() *crossing.Settings {
	x := t.x
	return &crossing.Settings{
		Target:  x.router.Target(x.route.placement),
		Read:    true,
		Pieces:  x.request.blocks,
		Prints:  x.request.prints,
		Strict:  x.request.in.Header(headerStrict) == "1",
		Stream:  x.request.envelope.Stream,
		Account: x.request.caller.Account,
		Ledger:  x.proxy.ledger,
		Answer:  *x.answerOptions(),
	}
}

func (t *translated) frames(p *pump) []byte {
	p.out = p.out[:0]
	for p.splitter.Next(&p.frame) {
		var sign codec.FrameKind
		p.out, sign = t.stream.Frame(p.out, &p.frame)
		p.note(sign)
	}
	return p.out
}

func (t *translated) end(p *pump, residue []byte) (out []byte, complete bool) {
	p.out, complete = t.stream.End(p.out[:0], codec.EndEOF, residue)
	return p.out, complete
}

func (t *translated) rest(*pump) []byte { return nil }

func (t *translated) fail(dst []byte, e *codec.Error, _ int64) []byte { return t.stream.Fail(dst, e) }

func (t *translated) next() int64             { return t.stream.Next() }
func (t *translated) seen() *crossing.Seen    { return t.stream.Seen() }
func (t *translated) answersWithStatus() bool { return true } // a status says more than a stream that fails at once

func formatNames(formats []codec.Format) string {
	names := make([]string, len(formats))
	for i, f := range formats {
		names[i] = f.String()
	}
	return strings.Join(names, ", ")
}

// shortTranslation is how many bytes are set aside for the translation of an answer. A provider's answer may repeat the
// tools and instructions of its request, and be many times as long.
const shortTranslation = 4 << 10

// whole translates a complete answer.
func (t *translated) whole(reply providerReply) error {
	x := t.x
	buffer := upstreamBodies.Get().(*[]byte)
	defer upstreamBodies.Put(buffer)
	body, err := reply.wholeInto(*buffer)
	if err != nil {
		return err
	}
	if cap(*buffer) < cap(body) && cap(body) <= completeAnswer { // a longer one is too rare to keep
		*buffer = body
	}
	if err := x.answer.hold(int64(len(body))); err != nil { // the translation is at most about as long
		return err
	}
	translate, contentType := t.crossed.Answer, "application/json"
	if x.request.envelope.Stream { // some hosts answer whole whatever they were asked for
		translate, contentType = t.crossed.AnswerInFrames, x.request.streamType()
	}
	answer, seen, err := translate(make([]byte, 0, min(len(body), shortTranslation)), body)
	x.recording.noteFirstByte()
	x.recordSeen(&seen)
	if err != nil {
		return x.route.fromProvider(asError(err))
	}
	if x.request.envelope.Stream {
		answer = x.request.array().Of(answer, true)
	}
	return t.send(reply, answer, contentType)
}

// send sends a translated answer in one piece.
func (t *translated) send(reply providerReply, answer []byte, contentType string) error {
	x := t.x
	reply.header()
	t.announce()
	x.answer.out.SetContentType(contentType)
	return x.sendBuffered(http.StatusOK, answer, record.OutcomeComplete)
}

// gather answers a client that wants a whole answer with one that the provider streams all the same.
func (t *translated) gather(reply providerReply) error {
	defer t.release()
	defer reply.close()
	x := t.x
	t.stream = t.crossed.Gather()
	err := t.read(reply)
	x.recording.noteFirstByte()
	x.recordSeen(t.stream.Seen())
	if err != nil {
		return err
	}
	answer, err := t.stream.Whole(nil)
	if err != nil {
		return x.route.fromProvider(asError(err))
	}
	return t.send(reply, answer, "application/json")
}

// read reads a stream up to its terminal event. It reserves memory for all of it, which is more than the answer takes.
func (t *translated) read(reply providerReply) error {
	buffers := bufferPool.Get().(*buffers)
	defer func() {
		buffers.splitter.Reset()
		bufferPool.Put(buffers)
	}()
	var frame sse.Frame
	for total := int64(0); ; {
		got, failed := buffers.splitter.Read(reply.Body)
		if total += int64(len(got)); total > t.x.proxy.opts.AnswerBytes {
			return reply.tooLong()
		}
		if err := t.x.answer.hold(int64(len(got))); err != nil {
			return err
		}
		for buffers.splitter.Next(&frame) {
			if _, sign := t.stream.Frame(nil, &frame); sign == codec.FrameTerminal || sign == codec.FrameError {
				return nil
			}
		}
		if failed == nil {
			continue
		}
		if !errors.Is(failed, io.EOF) {
			return failed
		}
		var residue []byte
		if buffers.splitter.Residue(&frame) {
			residue = frame.Data
		}
		t.stream.End(nil, codec.EndEOF, residue) // the answer says whether it is complete
		return nil
	}
}

// failure returns a provider's error answer as the surface's own error.
func (t *translated) failure(reply providerReply) error {
	body, err := reply.whole()
	if err != nil {
		return err
	}
	return t.x.route.fromProvider(t.crossed.Error(reply.Status, reply.RetryAfter, body))
}
