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

var upstreamBodies = sync.Pool{New: func() any { return new([]byte) }}

// cross serves a client whose format the provider does not speak.
func (x *exchange) cross() error {
	if x.format == codec.FormatUnknown {
		return codec.Invalid("model", "%s does not generate text here: none of its formats (%s) can answer this surface.",
			x.placement.Provider.Name(), formatNames(x.placement.Provider.Formats()))
	}
	x.cutLarge()
	buffer := upstreamBodies.Get().(*[]byte)
	defer upstreamBodies.Put(buffer)
	crossed, body, err := x.prepare((*buffer)[:0])
	if err != nil {
		return err
	}
	*buffer = body[:0]
	defer crossed.Release()
	x.noteTranslation(crossed)

	reply, err := x.call(body)
	if err != nil {
		return err
	}
	defer func() { _ = reply.Body.Close() }()
	if refused := x.ownCredentialRefused(reply.Status); refused != nil {
		return refused
	}
	switch {
	case reply.Status >= 300:
		return x.crossedError(reply, crossed)
	case isEventStream(reply):
		return x.pump(reply, crossed.Stream())
	default:
		return x.crossedWhole(reply, crossed)
	}
}

// noteTranslation tells the client and the record what the translation does. What it does to an answer shows with that.
func (x *exchange) noteTranslation(crossed *crossing.Exchange) {
	x.closing.Translation = crossed.NoteNames()
	x.out.Set(headerTranslation, crossed.Notes())
}

func (x *exchange) crossingSettings() *crossing.Settings {
	return &crossing.Settings{
		Target:  x.router.Target(x.placement),
		Read:    true,
		Pieces:  x.pieces,
		Prints:  x.prints,
		Strict:  x.in.Header(headerStrict) == "1",
		Account: x.caller.Account,
		Ledger:  ledger{x.server.engine},
		Answer:  *x.answerOptions(),
	}
}

// answerOptions is what an encoder has to know of this exchange.
func (x *exchange) answerOptions() *codec.AnswerOptions {
	return &codec.AnswerOptions{
		ID:             strings.TrimPrefix(x.capture.ID(), "exch_"),
		Model:          x.envelope.Model,
		Created:        x.started,
		ShowReasoning:  true,
		RefusalAsText:  isCodex(x.in.Header("Originator"), x.in.Header("User-Agent")),
		EstimatedInput: int64(len(x.body)/bytesPerToken + 1),
	}
}

// bytesPerToken is the rule of thumb for the size of a prompt before the provider has counted it.
const bytesPerToken = 4

// isCodex tells the Codex command line, which reads some things in its own way.
func isCodex(originator, userAgent string) bool {
	return strings.HasPrefix(originator, "codex") || strings.HasPrefix(userAgent, "codex")
}

func formatNames(formats []codec.Format) string {
	names := make([]string, len(formats))
	for i, f := range formats {
		names[i] = f.String()
	}
	return strings.Join(names, ", ")
}

// crossedWhole translates a complete answer.
func (x *exchange) crossedWhole(reply *router.Reply, crossed *crossing.Exchange) error {
	body, err := x.readWhole(reply)
	if err != nil {
		return err
	}
	if err := x.hold(int64(len(body))); err != nil { // the translation is about as long
		return err
	}
	answer, seen, err := crossed.Answer(make([]byte, 0, len(body)), body)
	x.noteFirstByte()
	x.noteSeen(&seen)
	if err != nil {
		return x.fromProvider(asError(err))
	}
	x.answerHeader(reply)
	x.noteTranslation(crossed)
	x.out.SetContentType("application/json")
	return x.sendWhole(http.StatusOK, answer, store.OutcomeComplete)
}

// crossedError is a provider's error answer as the surface's own error.
func (x *exchange) crossedError(reply *router.Reply, crossed *crossing.Exchange) error {
	body, err := x.readWhole(reply)
	if err != nil {
		return err
	}
	return x.fromProvider(crossed.Error(reply.Status, reply.RetryAfter, body))
}

func (x *exchange) fromProvider(e *codec.Error) *codec.Error {
	e.Provider = x.placement.Provider.Name()
	return e
}
