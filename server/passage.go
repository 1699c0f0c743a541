package server

import (
	"bytes"
	"io"
	"net/http"
	"slices"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/server/edge"
	"github.com/mnemeproxy/mneme/server/resource"
	"github.com/mnemeproxy/mneme/store"
)

// passage takes a request of the surface pass to its provider, and the answer back.
type passage struct {
	*passing
	x          *exchange
	credential router.Credential
}

// run answers the request. If a step fails, nothing has been sent to the client yet.
func (p *passage) run() {
	defer p.stop()
	err := p.arrive()
	if err == nil {
		err = p.x.enter()
	}
	if err == nil {
		err = p.ask()
	}
	if err != nil {
		p.x.refuse(err)
	}
}

// arrive runs the steps up to where the request goes.
func (p *passage) arrive() error {
	x := p.x
	if err := x.admit(); err != nil {
		return err
	}
	if err := p.mayPass(); err != nil {
		return err
	}
	if err := p.read(); err != nil {
		return err
	}
	if x.request.in.Announced() < 0 {
		if err := x.allowance.enter(x.ctx, &x.request); err != nil {
			return err
		}
	}
	return p.place()
}

// mayPass returns an error for what is not passed on for anybody, or not for this caller.
func (p *passage) mayPass() error {
	x, in := p.x, p.x.request.in
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
	case p.Kind.Refuse != "" && !slices.Contains(x.proxy.opts.PassThrough, p.Kind.Allow):
		return codec.Errorf(codec.KindPermission, "%s is not passed on: %s. The operator can change that with pass_through.allow: [%s].", edge.Printable(p.Path), p.Kind.Refuse, p.Kind.Allow)
	case p.Kind.Refuse != "" && p.Kind.Thing == "":
		return x.request.caller.requireScope(store.ScopeAdmin)
	case p.Kind.Public && p.Verb == "" && p.ID == "" && !isReading(in.Method()):
		return codec.Errorf(codec.KindPermission, "%s is the same for every account, and is not changed through the proxy.", edge.Printable(p.Path))
	}
	return nil
}

// read reads of the body what has to be known before it is passed on: all of JSON, and of a form that names a model.
func (p *passage) read() error {
	x, r := p.x, &p.x.request
	contentType := r.in.ContentType()
	switch {
	case r.in.Announced() == 0:
		return nil
	case isJSON(contentType) && (contentType != "" || !p.TakesRaw()) && !p.isPiece(r.in):
		if err := r.readBody(x.proxy.opts.BodyBytes); err != nil || len(r.body) == 0 {
			return err
		}
		if err := r.envelope.Read(r.body); err != nil {
			return err
		}
		p.json = true
		return r.preferHeaders()
	case resource.IsForm(contentType) && (p.Kind != nil && p.Kind.Model || len(r.caller.Models) > 0):
		return r.readForm(contentType)
	case !resource.IsForm(contentType) && !p.TakesRaw():
		return codec.Errorf(codec.KindUnsupportedMedia, "%s takes JSON or a form, and the body is %s: send it with its Content-Type.", edge.Printable(p.Path), edge.Printable(contentType))
	}
	return r.beginUpload()
}

// place finds the provider: by the model if the path does not say.
func (p *passage) place() error {
	x, r := p.x, &p.x.request
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
	if placement.Model != model && !p.json {
		return codec.Invalid("model", "a form is passed on as it is, and %s does not know the model %q: name it %q", placement.Provider.Name(), model, placement.Model)
	}
	x.route.placement, x.route.format = placement, placement.Provider.Native()
	x.route.header = p.header()
	return nil
}

// header copies the client's headers that the provider may see.
func (p *passage) header() (header router.Header) {
	provider := p.x.route.placement.Provider
	p.x.request.in.EachHeader(func(name, value []byte) {
		if provider.PassesOn(string(name)) && (!p.json || string(name) != "Content-Encoding") {
			header = append(header, router.Field{Name: string(name), Value: string(value)})
		}
	})
	return header
}

// ask asks the provider, and passes its answer on.
func (p *passage) ask() error {
	x := p.x
	credential, own, err := x.proxy.credential(&x.request.caller, x.route.placement.Provider, x.route.format)
	if err != nil {
		return err
	}
	p.credential, x.route.own, x.attempts.replied = credential, own, nil
	if !own && x.allowance.metered && p.RunsModels(x.request.in.Method()) {
		return codec.Errorf(codec.KindPermission, "What %s costs is not known when it is asked for, so a caller with a budget or a limit of tokens cannot use it with the server's credential or the account's.", edge.Printable(p.Path))
	}
	if p.shared = !own && credential.IsZero(); p.shared {
		if err := p.requireOwnTarget(); err != nil {
			return err
		}
	}
	reply, err := p.call(p.query)
	if err != nil {
		return err
	}
	return p.answer(reply)
}

// requireOwnTarget returns an error unless all that a request names at its provider is the account's, and what it asks for
// can be told apart by accounts.
func (p *passage) requireOwnTarget() error {
	x, r := p.x, &p.x.request
	several := x.proxy.owned.several()
	provider := x.route.placement.Provider.Name()
	unknown := p.Kind == nil && r.in.Method() == http.MethodPost && r.envelope.Model != "" // it asks a model
	if several && !p.Apart(r.in.Method()) && !unknown {
		return codec.Errorf(codec.KindPermission, "With the server's credential for %s, %s is not passed on, because what it is about may belong to another account. Set the account's own with: mneme account credential set %s %s",
			provider, edge.Printable(p.Path), r.caller.Account, provider)
	}
	var named []reference
	if p.ID != "" {
		kind := p.Kind.Thing
		if kind == "" {
			kind = "Operation"
		}
		named = append(named, reference{kind, p.ID, "path"})
	}
	if p.json {
		named = append(named, namedIn(r.body)...)
	}
	return x.proxy.owned.require(r.caller.Account, provider, named)
}

// call asks the provider. The body is sent as it arrives, or from memory.
func (p *passage) call(query string) (providerReply, error) {
	x, in := p.x, p.x.request.in
	call := &router.Call{
		Operation: router.Pass, Method: in.Method(), Path: p.Path, Query: query,
		Format: x.route.format, Body: p.body(), Header: x.route.header, Credential: p.credential,
		Account: x.request.caller.Account, Affinity: router.Affinity(x.request.caller.Account, ""), Observe: x.recordAttempt,
	}
	if p.upload != nil {
		call.Upload, call.Size = io.MultiReader(bytes.NewReader(p.front), p.upload), in.Announced()
	}
	x.route.traceCall(x.trace, &x.request, router.Pass)
	reply, failed := x.route.placement.Provider.Do(x.ctx, call)
	p.stop()
	if p.upload != nil {
		x.recording.closing.Unrecorded = max(in.Received()-int64(len(p.kept)), 0)
		if fault := p.upload.Fault(); fault != nil && reply == nil {
			return providerReply{}, fault
		}
	}
	return x.replied(reply, failed)
}

// body returns the body that is in memory, with the provider's name for the model.
func (p *passage) body() []byte {
	r, sent := &p.x.request, p.x.route.placement.Model
	if !p.json || p.Model != "" || r.envelope.Untouched(sent) {
		return r.body
	}
	return r.envelope.Splice(nil, r.body, sent)
}

func isReading(method string) bool { return method == http.MethodGet || method == http.MethodHead }
