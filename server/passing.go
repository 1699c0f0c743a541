package server

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/server/edge"
	"github.com/mnemeproxy/mneme/server/resource"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/record"
)

// passing is a request of the surface pass: for something that a provider offers besides answers in a surface's format.
// Request and answer go through as they are, and as they arrive.
type passing struct {
	resource.Target
	google  bool             // it is Google's API
	byModel bool             // the model decides, if it has a route
	query   string           // without credentials
	read    bool             // the body is JSON, unpacked and read
	shared  bool             // several accounts use the provider with one credential
	upload  *edge.Upload     // what has not been read of the body; nil: the rest of it is in body
	front   []byte           // of a body that is uploaded
	kept    []byte           // of the body, for the record
	owner   *router.Provider // by the path
}

// How much of the bodies of such requests and answers is recorded. Media would fill the store.
const (
	mostText  = 1 << 20  // of JSON, text and events
	mostMedia = 64 << 10 // of anything else
)

// serveRest serves the paths that have no handler of their own.
func (s *Server) serveRest(ctx context.Context, in *edge.Request, out *edge.Response) {
	x, found := s.passes(ctx, in, out)
	switch {
	case !found:
		s.notFound(ctx, in, out)
	case in.Method() == http.MethodOptions:
		s.preflight(in, out)
		out.Set("Allow", "DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT")
		out.SetStatus(http.StatusNoContent)
	case s.opts.NoModels:
		s.refuseModels(ctx, in, out)
	default:
		if len(s.opts.Origins) > 0 {
			s.allowOrigin(in, out)
		}
		defer x.finish()
		if err := x.serveRest(); err != nil {
			x.refuse(err)
		}
	}
}

// passes returns the exchange for a path that leads to a provider: that whose name it begins with, or that owns it.
func (s *Server) passes(ctx context.Context, in *edge.Request, out *edge.Response) (x *exchange, found bool) {
	routes, path := s.router.Load(), in.Path()
	if routes == nil {
		return nil, false
	}
	first, rest := resource.Cut(path)
	p := passing{owner: routes.Provider(first)}
	if p.owner == nil {
		owner, known := resource.Find(path, wantsAnthropic(in))
		if !known {
			return nil, false
		}
		rest, p.owner, p.byModel = path, routes.Provider(owner.Provider()), owner == resource.OpenAI
	}
	if p.owner == nil || rest == "/" {
		return nil, false
	}
	x = s.newExchange(ctx, in, out, codec.Pass)
	if model, v, own := readAddress(rest); own && !p.byModel && in.Method() == http.MethodPost {
		x.request.at = p.owner
		x.request.address(model, v)
		return x, true
	}
	if format, own := surfaceAt(rest); own && !p.byModel && in.Method() == http.MethodPost {
		x.request.surface, x.request.at = format, p.owner
		return x, true
	}
	p.google = p.owner.Family() == codec.FamilyGoogle
	p.Target = resource.At(rest, p.google)
	p.query = resource.Without(in.Query(), func(name, value string) bool {
		return p.google && name == "key" || store.LooksLikeKey(value)
	})
	x.request.passing = &p
	return x, true
}

// surfaceAt returns the surface of a path behind the name of a provider. Its version may be missing, as base URLs have it.
func surfaceAt(path string) (codec.Format, bool) {
	for _, path := range [...]string{path, "/v1" + path} {
		if format, own := surfaces[path]; own {
			return format, true
		}
	}
	return codec.Pass, false
}

func (x *exchange) serveRest() error {
	if x.request.addressed != nil {
		x.request.addressed.serve(x)
		return nil
	}
	if x.request.passing == nil {
		x.run()
		return nil
	}
	defer x.request.passing.stop()
	if err := x.arrivePassing(); err != nil {
		return err
	}
	if err := x.enter(); err != nil {
		return err
	}
	return x.pass()
}

// arrivePassing runs the steps up to where the request goes.
func (x *exchange) arrivePassing() error {
	if err := x.admit(); err != nil {
		return err
	}
	if err := x.mayPass(); err != nil {
		return err
	}
	if err := x.readPassing(); err != nil {
		return err
	}
	if x.request.in.Announced() < 0 {
		if err := x.keepWithinLimits(); err != nil {
			return err
		}
	}
	return x.placePassing()
}

// mayPass returns an error for what is not passed on for anybody, or not for this caller.
func (x *exchange) mayPass() error {
	p, in := x.request.passing, x.request.in
	if fault := resource.Fault(p.Path, p.query); fault != "" {
		return codec.Errorf(codec.KindInvalidRequest, "The request cannot be passed on: %s.", fault)
	}
	if in.HasHeader("Upgrade") {
		return codec.Errorf(codec.KindUnsupported, "Only requests over HTTP are passed on to %s. A WebSocket is served at /v1/responses.", p.owner.Name())
	}
	if !slices.Contains([]string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}, in.Method()) {
		return codec.Errorf(codec.KindInvalidRequest, "The method %s is not passed on.", edge.Printable(in.Method()))
	}
	switch {
	case p.Kind == nil:
		return nil
	case p.Kind.Refuse != "" && !slices.Contains(x.server.opts.PassThrough, p.Kind.Allow):
		return codec.Errorf(codec.KindPermission, "%s is not passed on: %s. The operator can change that with pass_through.allow: [%s].", edge.Printable(p.Path), p.Kind.Refuse, p.Kind.Allow)
	case p.Kind.Refuse != "" && p.Kind.Thing == "":
		return x.request.caller.requireScope(store.ScopeAdmin)
	case p.Kind.Public && p.Verb == "" && p.ID == "" && !isReading(in.Method()):
		return codec.Errorf(codec.KindPermission, "%s is the same for every account, and is not changed through the proxy.", edge.Printable(p.Path))
	}
	return nil
}

func isReading(method string) bool { return method == http.MethodGet || method == http.MethodHead }

// readPassing reads of the body what has to be known before it is passed on: all of JSON, and of a form that names a model.
func (x *exchange) readPassing() error {
	r, p := &x.request, x.request.passing
	contentType := r.in.ContentType()
	switch {
	case r.in.Announced() == 0:
		return nil
	case isJSON(contentType) && (contentType != "" || !p.TakesRaw()) && !p.isPiece(r.in):
		if err := x.readBody(); err != nil || len(r.body) == 0 {
			return err
		}
		if err := r.envelope.Read(r.body); err != nil {
			return err
		}
		p.read = true
		return r.preferHeaders()
	case resource.IsForm(contentType) && (p.Kind != nil && p.Kind.Model || len(r.caller.Models) > 0):
		return x.request.readForm(contentType)
	case !resource.IsForm(contentType) && !p.TakesRaw():
		return codec.Errorf(codec.KindUnsupportedMedia, "%s takes JSON or a form, and the body is %s: send it with its Content-Type.", edge.Printable(p.Path), edge.Printable(contentType))
	}
	return x.request.beginUpload()
}

// isPiece reports whether the body is a piece of a file, whatever its type says: Google's SDKs call all bodies JSON.
func (p *passing) isPiece(in *edge.Request) bool {
	return strings.HasPrefix(p.Path, "/upload/") && strings.Contains(strings.ToLower(in.Header("X-Goog-Upload-Command")), "upload")
}

func (r *request) readForm(contentType string) (err error) {
	if encoding := r.in.Header("Content-Encoding"); encoding != "" {
		return codec.Errorf(codec.KindUnsupportedMedia, "The form's Content-Encoding is %s; the model cannot be read in it. Send the form as it is.", edge.Printable(encoding))
	}
	if r.body, err = r.in.ReadBody(&r.share); err != nil {
		r.unread = true
		return err
	}
	r.envelope.Model, err = resource.FormModel(contentType, r.body)
	return err
}

// beginUpload reads the front of a body. If that is all of it, there is nothing to upload.
func (r *request) beginUpload() error {
	p := r.passing
	room := int64(mostMedia)
	if announced := r.in.Announced(); announced > 0 {
		room = min(room, announced)
	}
	if err := r.share.Take(room); err != nil {
		return err
	}
	p.upload = r.in.Upload()
	p.front = make([]byte, room)
	n, err := io.ReadFull(p.upload, p.front)
	p.front = p.front[:n]
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF) && p.upload.Whole(), err == nil && int64(n) == r.in.Announced():
		r.body, p.upload, p.front = p.front, nil, nil
	case err != nil:
		r.unread = true
		return err
	}
	return nil
}

// placePassing finds the provider: by the model if the path does not say.
func (x *exchange) placePassing() error {
	r, p := &x.request, x.request.passing
	if r.envelope.Model == "" {
		r.envelope.Model = p.Model
	}
	model := r.envelope.Model
	switch {
	case model != "":
		if err := r.caller.requireModels(&r.envelope, r.body); err != nil {
			return err
		}
	case len(r.caller.Models) > 0 && !isReading(r.in.Method()) && r.in.Method() != http.MethodDelete && (p.Kind == nil || p.Kind.Model || p.RunsModels(r.in.Method())):
		return codec.Errorf(codec.KindPermission, "This service key is for certain models, and the request names none.")
	}
	placement := router.Placement{Provider: p.owner, Asked: model, Model: model}
	if p.byModel && model != "" {
		if by, unknown := x.router.Place(model); unknown == nil && by.Provider.PassesPaths() {
			placement = by
		}
	}
	if !placement.Provider.PassesPaths() {
		return codec.Errorf(codec.KindUnsupported, "%s has an API of its own kind: requests to it are not passed on, only those to models.", placement.Provider.Name())
	}
	if placement.Model != model && !p.read {
		return codec.Invalid("model", "a form is passed on as it is, and %s does not know the model %q: name it %q", placement.Provider.Name(), model, placement.Model)
	}
	x.route.placement, x.route.format = placement, placement.Provider.Native()
	x.route.header = x.passingHeader()
	return nil
}

// passingHeader copies the client's headers that the provider may see.
func (x *exchange) passingHeader() (header router.Header) {
	provider := x.route.placement.Provider
	x.request.in.EachHeader(func(name, value []byte) {
		if provider.PassesOn(string(name)) && (!x.request.passing.read || string(name) != "Content-Encoding") {
			header = append(header, router.Field{Name: string(name), Value: string(value)})
		}
	})
	return header
}

// pass asks the provider, and passes its answer on.
func (x *exchange) pass() error {
	p := x.request.passing
	credential, own, err := x.server.credential(&x.request.caller, x.route.placement.Provider, x.route.format)
	if err != nil {
		return err
	}
	x.route.own, x.attempts.replied = own, nil
	if !own && x.request.metered && p.RunsModels(x.request.in.Method()) {
		return codec.Errorf(codec.KindPermission, "What %s costs is not known when it is asked for, so a caller with a budget or a limit of tokens cannot use it with the server's credential or the account's.", edge.Printable(p.Path))
	}
	if p.shared = !own && credential.IsZero(); p.shared {
		if err := x.requireOwnTarget(); err != nil {
			return err
		}
	}
	reply, err := x.callPassing(credential, p.query)
	if err != nil {
		return err
	}
	return x.passReply(credential, reply)
}

// callPassing asks the provider. The body is sent as it arrives, or from memory.
func (x *exchange) callPassing(credential router.Credential, query string) (*router.Reply, error) {
	p, in := x.request.passing, x.request.in
	call := &router.Call{
		Operation: router.Pass, Method: in.Method(), Path: p.Path, Query: query,
		Format: x.route.format, Body: x.passingBody(), Header: x.route.header, Credential: credential,
		Account: x.request.caller.Account, Affinity: router.Affinity(x.request.caller.Account, ""), Observe: x.recordAttempt,
	}
	if p.upload != nil {
		call.Upload, call.Size = io.MultiReader(bytes.NewReader(p.front), p.upload), in.Announced()
	}
	x.traceCall(router.Pass)
	reply, failed := x.route.placement.Provider.Do(x.ctx, call)
	p.stop()
	if p.upload != nil {
		x.recording.closing.Unrecorded = max(in.Received()-int64(len(p.kept)), 0)
		if fault := p.upload.Fault(); fault != nil && reply == nil {
			return nil, fault
		}
	}
	return x.replied(reply, failed)
}

// passingBody returns the body that is in memory, with the provider's name for the model.
func (x *exchange) passingBody() []byte {
	r := &x.request
	if !r.passing.read || r.passing.Model != "" || r.envelope.Untouched(x.route.placement.Model) {
		return r.body
	}
	return r.envelope.Splice(nil, r.body, x.route.placement.Model)
}

// stop ends the upload: the body belongs to the client's connection, which goes on without this request.
func (p *passing) stop() {
	if p != nil && p.upload != nil {
		p.upload.Stop()
	}
}

// googles reports whether the path is one of Google's API.
func (r *request) googles() bool { return r.addressed != nil || r.passing != nil && r.passing.google }

// asksModel reports whether a model answers the request, which it names.
func (p *passing) asksModel() bool { return p != nil && p.AsksModel() }

// asksForText reports whether a model answers with text, or may.
func (p *passing) asksForText() bool { return p != nil && p.AsksForText() }

// mostPrompt bounds the estimate of the tokens of a request's body, most of which is media.
const mostPrompt = 32 << 10

func (p *passing) estimatedTokens(size int64) int64 {
	if !p.asksModel() {
		return 0
	}
	return min(size, mostPrompt)/bytesPerToken + 1
}

// as returns the target of the request, for the record.
func (p *passing) as(method string) string {
	target := method + " " + p.Path
	if p.query != "" {
		target += "?" + p.query
	}
	if len(target) > mostTarget {
		target = strings.ToValidUTF8(target[:mostTarget], "")
	}
	return target
}

// mostTarget is how many bytes of a target are recorded.
const mostTarget = 1 << 10

// abridge decides what of the body is recorded.
func (p *passing) abridge(r *request) {
	if p == nil {
		return
	}
	p.kept = r.body
	if p.upload != nil {
		p.kept = p.front
	}
	if most := mostRecorded(r.in.ContentType()); len(p.kept) > most {
		p.kept = p.kept[:most]
		r.blocks, r.prints, r.envelope.Items = nil, nil, nil
	}
}

// recorded returns the body as far as it is recorded.
func (r *request) recorded() []byte {
	if r.passing != nil {
		return r.passing.kept
	}
	return r.body
}

// mostRecorded is how much of a body of a type is recorded.
func mostRecorded(contentType string) int {
	media, _, _ := strings.Cut(strings.ToLower(contentType), ";")
	if media = strings.TrimSpace(media); strings.HasPrefix(media, "text/") || isJSON(media) || strings.HasSuffix(media, "jsonl") {
		return mostText
	}
	return mostMedia
}

// outcomeOfPassing is the outcome of an answer that has been passed on to its end.
func outcomeOfPassing(status int) record.Outcome {
	if status >= http.StatusBadRequest {
		return record.OutcomeUpstreamError
	}
	return record.OutcomeComplete
}
