package server

import (
	"context"
	"net/http"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/crossing"
	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/server/edge"
	"github.com/mnemeproxy/mneme/server/quota"
	"github.com/mnemeproxy/mneme/server/telemetry"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/redact"
)

// exchange is one request on its way through the proxy, with its answer.
type exchange struct {
	server  *Server
	ctx     context.Context // ends when the client leaves, or when the server cuts what is still open
	in      *edge.Request
	out     *edge.Response
	surface codec.Format
	started time.Time
	router  *router.Router // the one in use when the exchange began

	auxiliary string // why this is no turn, where the path says so; see evidence.go

	caller    caller
	redactor  *redact.Redactor // masks the credentials of the caller and of the account, too; nil where nothing is masked
	pass      *quota.Pass      // nil where the key has no limits
	body      []byte           // the client's, decompressed; valid until the handler returns
	reserved  int64            // bytes of the budget
	held      int64            // bytes of the budget of answers, until the answer has been sent
	envelope  codec.Envelope
	pieces    []codec.Span        // of body: its messages, tools and the like
	prints    []codec.Fingerprint // of pieces
	placement router.Placement
	format    codec.Format // spoken with the provider
	own       bool         // the provider credential is the client's own
	header    http.Header  // the client's headers that may go upstream

	turnedAway bool // by the limits of the key

	attempts     []store.Attempt  // at providers
	firstAttempt [1]store.Attempt // room for attempts, where there is one as mostly

	standIns   []router.Placement // that may be asked in place of the model
	standingIn bool               // placement is one of them

	replied http.Header // of the newest reply; nil where a provider was asked and none came

	capture    store.Recording
	offRecord  bool // the capture records nothing
	closing    store.Closing
	finished   bool  // the closing is committed
	answered   bool  // bytes of the answer have been handed to the client
	sent       int64 // bytes of a streamed answer
	gaps       *telemetry.Gaps
	captureLag time.Duration

	trace *telemetry.Trace // nil without tracing
}

// exchange serves one surface.
func (s *Server) exchange(surface codec.Format) edge.Handler {
	return func(ctx context.Context, in *edge.Request, out *edge.Response) {
		x := s.newExchange(ctx, in, out, surface)
		defer x.end()
		if err := x.run(); err != nil {
			x.fail(asError(err))
		}
	}
}

func (s *Server) newExchange(ctx context.Context, in *edge.Request, out *edge.Response, surface codec.Format) *exchange {
	return &exchange{server: s, ctx: ctx, in: in, out: out, surface: surface, started: time.Now(), router: s.router.Load()}
}

// end is for whatever way the exchange took, a panic included.
func (x *exchange) end() {
	x.server.bodies.Give(x.reserved)
	x.holdUntilSent()
	x.settle()
	x.leaveLimits()
	x.report()
}

// holdUntilSent leaves the room of the answer with the connection: a client may take its time to read it.
func (x *exchange) holdUntilSent() {
	x.out.GiveWhenSent(x.server.answers, x.held)
}

// run takes the request the whole way. An error that it returns is for the client, who has not been answered yet.
func (x *exchange) run() error {
	if err := x.accept(); err != nil {
		return err
	}
	if x.surface == codec.Embeddings {
		return x.embed()
	}
	return x.answer()
}

// accept takes the request up to where it is on record and a provider is to be asked.
func (x *exchange) accept() error {
	var err error
	x.caller, err = x.server.authenticate(x.in, x.out)
	x.redactor = x.server.engine.Redactor(x.caller.Account, x.caller.brought()...)
	x.beginTrace()
	if err != nil {
		return err
	}
	if err := x.caller.requireScope(store.ScopeWrite); err != nil {
		return err
	}
	if err := x.keepWithinLimits(); err != nil {
		return err
	}
	if x.body, err = x.server.readBody(x.in); err != nil {
		return err
	}
	x.reserved = int64(len(x.body))
	if err := x.envelope.Read(x.body); err != nil {
		return err
	}
	if err := x.reserveTokens(); err != nil {
		return err
	}
	if err := x.continuity(); err != nil {
		return err
	}
	if err := x.place(); err != nil {
		return err
	}
	return x.begin()
}

// continuity lets the headers win over the body's members.
func (x *exchange) continuity() error {
	for _, field := range []struct {
		header string
		value  *string
	}{{headerChatKey, &x.envelope.ChatKey}, {headerExternalSession, &x.envelope.ExternalSession}} {
		value := x.in.Header(field.header)
		if value == "" {
			continue
		}
		if err := codec.CheckContinuity(field.header, value); err != nil {
			return err
		}
		*field.value = value
	}
	return nil
}

// place finds the provider and the format to speak with it.
func (x *exchange) place() error {
	placement, refused := x.router.Place(x.envelope.Model)
	if refused != nil {
		return refused
	}
	x.settleOn(placement)
	return nil
}

func (x *exchange) settleOn(placement router.Placement) {
	x.placement = placement
	x.format = placement.Provider.FormatFor(x.surface, placement.Model)
	x.header = x.upstreamHeader()
}

// upstreamHeader copies the client's headers that the provider may see.
func (x *exchange) upstreamHeader() http.Header {
	header := make(http.Header)
	provider := x.placement.Provider
	x.in.EachHeader(func(name, value []byte) { // hertz has made the names canonical
		if provider.PassesUpstream(string(name)) { // most do not, and cost no copy
			key := string(name)
			header[key] = append(header[key], string(value))
		}
	})
	return header
}

// begin puts the request on record. It does not wait for the commit.
func (x *exchange) begin() error {
	if x.offRecord = x.server.opts.CaptureOff || x.optsOut(); x.offRecord {
		x.capture = x.server.engine.Off()
		return nil
	}
	var err error
	x.capture, err = x.server.engine.Begin(x.ctx, x.opening())
	return err
}

// cutFrom is the size in bytes from which a body is cut even where nothing but time is gained by it.
const cutFrom = 8 << 10

// cutLarge cuts a large body, if it has not been, and gives its pieces.
func (x *exchange) cutLarge() []codec.Span {
	if len(x.body) >= cutFrom {
		x.cut()
	}
	return x.pieces
}

// cut finds the pieces of the body, which are what an agent sends again with every turn.
func (x *exchange) cut() {
	if x.pieces == nil {
		x.pieces = x.envelope.Blocks(nil)
		x.prints = codec.Fingerprints(make([]codec.Fingerprint, 0, len(x.pieces)), x.caller.Account, x.body, x.pieces)
	}
}

func (x *exchange) opening() *store.Opening {
	x.cut()
	body, redacted := x.redactor.Body(x.body, x.pieces, x.prints)
	o := &store.Opening{
		Account: x.caller.Account, KeyID: x.caller.KeyID,
		Surface: x.surface, Format: x.format,
		ModelAsked: x.envelope.Model, ModelSent: x.placement.Model,
		Stream:  x.envelope.Stream,
		ChatKey: x.envelope.ChatKey, ExternalSession: x.envelope.ExternalSession,
		Header: x.identifyingHeader(), ContentType: x.in.ContentType(),
		Body: body, Spans: x.pieces, Items: x.envelope.Items, Redactor: x.redactor, Redacted: redacted, Started: x.started,
	}
	if p := x.placement.Provider; p != nil {
		o.Provider, o.Simulated = p.Name(), p.Simulated()
	}
	if len(redacted) == 0 {
		o.Prints = x.prints
	}
	x.evidence(o)
	o.Project = x.project()
	return o
}

// clientHeaders are kept with a capture: they say which client sent the request and which conversation of its own it
// belongs to (docs/wire/clients.md#1). None of them is a credential.
var clientHeaders = []string{
	"User-Agent", "X-App", "Originator", "Anthropic-Version", "Anthropic-Beta",
	"X-Claude-Code-Session-Id", "X-Claude-Code-Agent-Id", "X-Claude-Code-Parent-Agent-Id",
	"Session-Id", "Session_id", "Conversation_id", "Thread-Id", "X-Client-Request-Id", "X-Codex-Turn-Metadata",
	"X-Session-Id", "X-Session-Affinity",
}

func (x *exchange) identifyingHeader() []store.HeaderField {
	var fields []store.HeaderField
	for _, name := range clientHeaders {
		if value := x.in.Header(name); value != "" {
			fields = append(fields, store.HeaderField{Name: name, Value: value})
		}
	}
	return fields
}

// call asks the model for an answer. The caller closes the reply's body.
func (x *exchange) call(body []byte) (*router.Reply, error) { return x.callFor(router.Generate, body) }

func (x *exchange) callFor(operation router.Operation, body []byte) (*router.Reply, error) {
	credential, own, err := x.server.credential(&x.caller, x.placement.Provider, x.format)
	if err != nil {
		return nil, err
	}
	x.own, x.replied = own, nil
	x.traceCall(operation)
	reply, failed := x.placement.Provider.Do(x.ctx, &router.Call{
		Operation: operation,
		Format:    x.format, Model: x.placement.Model, Stream: x.envelope.Stream,
		Body: body, Header: x.header, Query: x.in.Query(), Credential: credential,
		Account: x.caller.Account, Affinity: x.affinity(), Observe: x.noteAttempt,
	})
	if failed != nil {
		return nil, failed
	}
	x.replied = reply.Header
	x.closing.ProviderReqID = requestID(reply.Header)
	return reply, nil
}

func requestID(h http.Header) string {
	for _, name := range []string{"Request-Id", "X-Request-Id", "X-Ds-Trace-Id"} {
		if id := h.Get(name); id != "" {
			return id
		}
	}
	return ""
}

// passThrough serves a client in the provider's own format: bytes up, bytes down, but for reasoning state in the history
// that the provider would refuse.
func (x *exchange) passThrough() error {
	body, err := x.spliced()
	if err != nil {
		return err
	}
	reply, err := x.call(body)
	if err != nil {
		return err
	}
	defer func() { _ = reply.Body.Close() }()
	if refused := x.ownCredentialRefused(reply.Status); refused != nil {
		return refused
	}
	if x.leavesToAnother(reply.Status) {
		return x.providersError(reply)
	}
	if isEventStream(reply) {
		return x.pump(reply, nil)
	}
	return x.whole(reply)
}

// spliced is the client's body as it goes to a provider of its own format. It is apart from passThrough because that one's
// frame lies on the stack for as long as a stream lasts.
func (x *exchange) spliced() ([]byte, error) {
	body, resolved, err := x.resolveOwn()
	if err != nil {
		return nil, err
	}
	envelope, pieces := &x.envelope, x.cutLarge()
	if len(resolved) > 0 {
		envelope, pieces = new(codec.Envelope), nil
		if err := envelope.Read(body); err != nil {
			return nil, err
		}
	}
	if !envelope.Untouched(x.placement.Model) {
		body, pieces = envelope.Splice(nil, body, x.placement.Model), nil // they stand elsewhere in it
	}
	body, dropped := crossing.CleanHistory(body, x.format, &crossing.Settings{
		Target: x.router.Target(x.placement), Pieces: pieces, Prints: x.prints,
		Ledger: ledger{x.server.engine}, Account: x.caller.Account,
	})
	if notes := (codec.Notes{Emulated: resolved, Dropped: dropped}); len(resolved)+len(dropped) > 0 {
		x.out.Set(headerTranslation, crossing.NotesHeader(x.surface, x.format, &notes))
		x.closing.Translation = append(x.closing.Translation, crossing.NoteList(&notes)...)
	}
	return body, nil
}

// ownCredentialRefused hides a provider's refusal of a credential that is the account's or the server's: the caller's
// own key is fine, and providers quote parts of the key they refuse.
func (x *exchange) ownCredentialRefused(status int) error {
	if x.own || (status != http.StatusUnauthorized && status != http.StatusForbidden) {
		return nil
	}
	name := x.placement.Provider.Name()
	e := codec.Errorf(codec.KindUpstreamAuth, "%s refused the credential that is set for it (HTTP %d). Set a valid one with: mneme account credential set %s %s",
		name, status, x.caller.Account, name)
	e.Provider, e.Status = name, status
	return e
}

// answerHeader sets the headers of an answer of either kind.
func (x *exchange) answerHeader(reply *router.Reply) {
	x.providerHeader(reply.Header)
	if reply.RetryAfter > 0 && reply.Header.Get("Retry-After") == "" { // not every client looks for it in the body
		x.out.SetRetryAfter(reply.RetryAfter)
	}
	x.ourHeader()
}

func (x *exchange) ourHeader() {
	x.limitHeader()
	if x.capture != nil {
		x.out.Set(headerExchangeID, x.capture.ID())
		x.sessionHeader()
		switch {
		case x.capture.Shed():
			x.out.Set(headerCapture, "shed")
		case x.offRecord:
			x.out.Set(headerCapture, "off")
		case x.asksOut():
			x.out.Set(headerCapture, "on") // it was asked for otherwise
		}
	}
	if x.placement.Provider != nil && x.placement.Provider.Simulated() {
		x.out.Set(headerSimulated, "true")
	}
	if x.standingIn {
		x.out.Set(headerFallback, x.placement.Asked)
	}
}

// sessionHeader names the session, which is known once the opening is committed.
func (x *exchange) sessionHeader() {
	if id := x.capture.SessionID(); id != "" {
		x.out.Set(headerSessionID, id)
	}
}

// fail answers with an error. Nothing of an answer has been sent.
func (x *exchange) fail(e *codec.Error) {
	e = x.discreet(x.cutShort(e))
	x.recordRefusal(e)
	if e.Provider != "" && e.Kind != codec.KindUpstreamAuth { // what is said to a credential of ours is not for the caller
		x.providerHeader(x.replied)
	}
	x.ourHeader()
	id := ""
	if x.capture != nil {
		id = x.capture.ID()
	}
	x.server.answerError(x.out, x.surface, e, id)
	if !x.clientGone() {
		x.closing.Error = e
		x.closing.Status = x.out.Status()
		x.closing.ContentType = "application/json"
	}
	if x.capture != nil && !x.clientGone() {
		_, _ = x.capture.Write(x.out.Body())
	}
	if err := x.finish(outcomeOf(x.ctx, e, x.placement.Provider != nil)); err != nil {
		x.server.log.Error("an exchange could not be put on record", "exchange", id, "error", err)
	}
	if x.capture != nil {
		x.sessionHeader()
	}
}

// cutShort is e, or what stands for it when the exchange failed because the server is shutting down.
func (x *exchange) cutShort(e *codec.Error) *codec.Error {
	if context.Cause(x.ctx) == error(edge.ErrDraining) { //nolint:errorlint // the very value that the context is cut with
		return edge.ErrDraining
	}
	return e
}

// discreet is e without the credentials that are in use here: providers quote what they refuse.
func (x *exchange) discreet(e *codec.Error) *codec.Error {
	masked := *e
	for _, text := range []*string{&masked.Message, &masked.Code, &masked.Param} {
		*text = x.redactor.Known(*text)
	}
	if masked == *e {
		return e
	}
	return &masked
}

// clientGone reports whether the client has left.
func (x *exchange) clientGone() bool {
	return x.ctx.Err() != nil && context.Cause(x.ctx) != error(edge.ErrDraining) //nolint:errorlint // as above
}

// recordRefusal begins the record of a request that was turned away before it was placed. Only requests of
// authenticated callers are kept, and nothing is kept where keeping it is what failed.
func (x *exchange) recordRefusal(e *codec.Error) {
	if x.capture != nil || x.caller.Account == "" || x.turnedAway || e.Kind == codec.KindStorage {
		return
	}
	if err := x.begin(); err != nil {
		x.capture = nil
	}
}

// outcomeOf is how an exchange that failed with e ended.
func outcomeOf(ctx context.Context, e *codec.Error, placed bool) store.Outcome {
	switch {
	case context.Cause(ctx) == error(edge.ErrDraining): //nolint:errorlint // as above
		return store.OutcomeInterrupted
	case ctx.Err() != nil:
		return store.OutcomeClientClosed
	case !placed || e.Kind == codec.KindInvalidRequest && e.Provider == "":
		return store.OutcomeRefused
	default:
		return store.OutcomeUpstreamError
	}
}

// finish commits the end of the exchange, once.
func (x *exchange) finish(outcome store.Outcome) error {
	if x.finished {
		return nil
	}
	x.finished = true
	x.closing.Outcome = outcome
	x.closing.Attempts = x.attemptsToRecord()
	if x.standingIn {
		p := x.placement.Provider
		x.closing.StandIn = &store.StandIn{Provider: p.Name(), Format: x.format, ModelSent: x.placement.Model, Simulated: p.Simulated()}
	}
	if x.closing.LastByte.IsZero() {
		x.closing.LastByte = time.Now()
	}
	if x.capture == nil {
		return nil
	}
	ended, began := x.trace.Capture(), time.Now()
	err := x.capture.Finish(x.ctx, &x.closing)
	if !x.offRecord {
		x.captureLag = time.Since(began)
	}
	ended(err)
	return err
}

// settle closes the record of an exchange that ended in no other way, after a panic for instance.
func (x *exchange) settle() {
	if err := x.finish(store.OutcomeInterrupted); err != nil {
		x.server.log.Error("an exchange could not be put on record", "exchange", x.capture.ID(), "error", err)
	}
}
