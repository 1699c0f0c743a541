package server

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/crossing"
	"github.com/mnemeproxy/mneme/codec/sse"
	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/store/record"
)

// upstreamBodies pools buffers for translated request bodies and for the answers to them. A finished call no longer
// uses its bodies, so other requests can.
var upstreamBodies = sync.Pool{New: func() any { return new([]byte) }}

// mostPooled is the largest buffer that is pooled.
const mostPooled = 1 << 20

func keepBuffer(buffer *[]byte) {
	if cap(*buffer) <= mostPooled {
		upstreamBodies.Put(buffer)
	}
}

// cross serves a client whose format the provider does not speak. Its frame stays on the stack for as long as a stream
// lasts.
func (x *exchange) cross() error {
	t := &translated{x: x}
	reply, err := t.call()
	if err != nil {
		t.release()
		return err
	}
	if !isEventStream(reply) {
		return t.complete(reply)
	}
	if !x.request.envelope.Stream {
		return t.gather(reply)
	}
	t.stream = t.crossed.Stream()
	return x.newPump(reply, t).run()
}

// translated is a request in the provider's format, and relays the answer to it in the client's.
type translated struct {
	x       *exchange
	crossed *crossing.Exchange
	body    *[]byte          // from upstreamBodies
	stream  *crossing.Stream // nil if the answer is none
}

// call translates the request and asks the provider.
func (t *translated) call() (*router.Reply, error) {
	x := t.x
	if x.route.format == codec.FormatUnknown {
		return nil, codec.Invalid("model", "%s does not generate text here: none of its formats (%s) can answer this surface.",
			x.route.placement.Provider.Name(), formatNames(x.route.placement.Provider.Formats()))
	}
	body, err := t.translate()
	if err != nil {
		return nil, err
	}
	x.describeTranslation(t.crossed)
	return x.call(router.Generate, body)
}

// translate makes the provider's request of the client's.
func (t *translated) translate() ([]byte, error) {
	x := t.x
	if err := x.beginWork(); err != nil {
		return nil, err
	}
	defer x.endWork()
	x.request.splitLarge()
	t.body = upstreamBodies.Get().(*[]byte)
	crossed, body, err := x.prepare((*t.body)[:0])
	if err != nil {
		return nil, err
	}
	t.crossed, *t.body = crossed, body[:0]
	return body, x.request.share.Take(int64(cap(body)))
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
func (t *translated) complete(reply *router.Reply) error {
	defer t.release()
	defer func() { _ = reply.Body.Close() }()
	if reply.Status >= http.StatusMultipleChoices {
		return t.x.crossedError(reply, t.crossed)
	}
	return t.x.crossBuffered(reply, t.crossed)
}

// describeTranslation tells the client and the record what the translation does to the request. What it does to the
// answer is added with the answer.
func (x *exchange) describeTranslation(crossed *crossing.Exchange) {
	x.recording.closing.Translation = crossed.NoteNames()
	x.answer.out.Set(headerTranslation, crossed.Notes())
}

func (x *exchange) crossingSettings() *crossing.Settings {
	return &crossing.Settings{
		Target:  x.router.Target(x.route.placement),
		Read:    true,
		Pieces:  x.request.blocks,
		Prints:  x.request.prints,
		Strict:  x.request.in.Header(headerStrict) == "1",
		Stream:  x.request.envelope.Stream,
		Account: x.request.caller.Account,
		Ledger:  x.server.ledger,
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
func (t *translated) announce()               { t.x.describeTranslation(t.stream.Exchange()) }
func (t *translated) answersWithStatus() bool { return true } // a status says more than a stream that fails at once

func (t *translated) record() {
	t.x.recording.closing.Translation = t.stream.Exchange().NoteNames()
}

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

// crossBuffered translates a complete answer.
func (x *exchange) crossBuffered(reply *router.Reply, crossed *crossing.Exchange) error {
	buffer := upstreamBodies.Get().(*[]byte)
	defer upstreamBodies.Put(buffer)
	body, err := x.readCompleteInto(*buffer, reply)
	if err != nil {
		return err
	}
	if cap(*buffer) < cap(body) && cap(body) <= completeAnswer { // a longer one is too rare to keep
		*buffer = body
	}
	if err := x.hold(int64(len(body))); err != nil { // the translation is at most about as long
		return err
	}
	translate, contentType := crossed.Answer, "application/json"
	if x.request.envelope.Stream { // some hosts answer whole whatever they were asked for
		translate, contentType = crossed.AnswerInFrames, x.request.streamType()
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
	return x.sendTranslated(reply, crossed, answer, contentType)
}

// sendTranslated sends a translated answer in one piece.
func (x *exchange) sendTranslated(reply *router.Reply, crossed *crossing.Exchange, answer []byte, contentType string) error {
	x.answerHeader(reply)
	x.describeTranslation(crossed)
	x.answer.out.SetContentType(contentType)
	return x.sendBuffered(http.StatusOK, answer, record.OutcomeComplete)
}

// gather answers a client that wants a whole answer with one that the provider streams all the same.
func (t *translated) gather(reply *router.Reply) error {
	defer t.release()
	defer func() { _ = reply.Body.Close() }()
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
	return x.sendTranslated(reply, t.crossed, answer, "application/json")
}

// read reads a stream up to its terminal event. It reserves memory for all of it, which is more than the answer takes.
func (t *translated) read(reply *router.Reply) error {
	buffers := bufferPool.Get().(*buffers)
	defer func() {
		buffers.splitter.Reset()
		bufferPool.Put(buffers)
	}()
	var frame sse.Frame
	for total := int64(0); ; {
		got, failed := buffers.splitter.Read(reply.Body)
		if total += int64(len(got)); total > t.x.server.opts.AnswerBytes {
			return t.x.tooLong()
		}
		if err := t.x.hold(int64(len(got))); err != nil {
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

// crossedError returns a provider's error answer as the surface's own error.
func (x *exchange) crossedError(reply *router.Reply, crossed *crossing.Exchange) error {
	body, err := x.readComplete(reply)
	if err != nil {
		return err
	}
	return x.route.fromProvider(crossed.Error(reply.Status, reply.RetryAfter, body))
}
