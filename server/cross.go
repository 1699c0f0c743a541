package server

import (
	"net/http"
	"strings"
	"sync"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/crossing"
	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/store"
)

// upstreamBodies pools buffers for translated request bodies and for the answers to them. A finished call no longer
// uses its bodies, so other requests can.
var upstreamBodies = sync.Pool{New: func() any { return new([]byte) }}

// cross serves a client whose format the provider does not speak.
func (x *exchange) cross() error {
	if x.route.format == codec.FormatUnknown {
		return codec.Invalid("model", "%s does not generate text here: none of its formats (%s) can answer this surface.",
			x.route.placement.Provider.Name(), formatNames(x.route.placement.Provider.Formats()))
	}
	x.request.splitLarge()
	buffer := upstreamBodies.Get().(*[]byte)
	defer upstreamBodies.Put(buffer)
	crossed, body, err := x.prepare((*buffer)[:0])
	if err != nil {
		return err
	}
	*buffer = body[:0]
	defer crossed.Release()
	x.describeTranslation(crossed)

	reply, err := x.call(router.Generate, body)
	if err != nil {
		return err
	}
	defer func() { _ = reply.Body.Close() }()
	switch {
	case reply.Status >= 300:
		return x.crossedError(reply, crossed)
	case isEventStream(reply):
		return x.pump(reply, &translated{x, crossed.Stream()})
	default:
		return x.crossBuffered(reply, crossed)
	}
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
		Account: x.request.caller.Account,
		Ledger:  x.server.ledger,
		Answer:  *x.answerOptions(),
	}
}

// translated relays a stream that goes to the client in another format.
type translated struct {
	x      *exchange
	stream *crossing.Stream
}

func (r *translated) frames(p *pump) []byte {
	p.out = p.out[:0]
	for p.splitter.Next(&p.frame) {
		var sign codec.FrameKind
		p.out, sign = r.stream.Frame(p.out, &p.frame)
		p.note(sign)
	}
	return p.out
}

func (r *translated) end(p *pump, residue []byte) (out []byte, complete bool) {
	p.out, complete = r.stream.End(p.out[:0], codec.EndEOF, residue)
	return p.out, complete
}

func (r *translated) rest(*pump) []byte { return nil }

func (r *translated) fail(dst []byte, e *codec.Error, _ int64) []byte { return r.stream.Fail(dst, e) }

func (r *translated) next() int64             { return r.stream.Next() }
func (r *translated) seen() *crossing.Seen    { return r.stream.Seen() }
func (r *translated) announce()               { r.x.describeTranslation(r.stream.Exchange()) }
func (r *translated) answersWithStatus() bool { return true } // a status says more than a stream that fails at once
func (r *translated) release()                {}

func (r *translated) record() {
	r.x.recording.closing.Translation = r.stream.Exchange().NoteNames()
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
	answer, seen, err := crossed.Answer(make([]byte, 0, min(len(body), shortTranslation)), body)
	x.recordFirstByte()
	x.recordSeen(&seen)
	if err != nil {
		return x.fromProvider(asError(err))
	}
	x.answerHeader(reply)
	x.describeTranslation(crossed)
	x.answer.out.SetContentType("application/json")
	return x.sendBuffered(http.StatusOK, answer, store.OutcomeComplete)
}

// crossedError returns a provider's error answer as the surface's own error.
func (x *exchange) crossedError(reply *router.Reply, crossed *crossing.Exchange) error {
	body, err := x.readComplete(reply)
	if err != nil {
		return err
	}
	return x.fromProvider(crossed.Error(reply.Status, reply.RetryAfter, body))
}
