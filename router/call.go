package router

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/mnemeproxy/mneme/codec"
)

// A Call is one request to a provider.
type Call struct {
	Operation Operation
	Format    codec.Format // to be spoken upstream
	Model     string       // as sent; format Gemini and some hosts have it in the path
	Stream    bool
	Body      []byte      // the caller's again once Do has failed or the reply's body is closed; never changed
	Header    http.Header // the client's headers in canonical form, from which an allow-list picks; may be nil
	Query     string      // the client's raw query; of it only beta=true goes upstream
	// Credential is the caller's or the account's own, which is never swapped for another. The zero Credential means
	// the server's.
	Credential Credential
	Account    string        // whose call it is: an account's failures keep no other from an endpoint
	Affinity   uint64        // calls of the same [Affinity] go to the same place while that is well; 0: to any
	Observe    func(Attempt) // gets every attempt when it has ended, within Do; may be nil
}

// A Reply is the answer of a provider: any final status but a redirect, whose body is still on its way.
type Reply struct {
	Status int
	Header http.Header // as received; [PassesDownstream] tells what a client may see
	// RetryAfter is how long an error answer asks to wait before the next request, by its header, or by its body where a
	// limit or want of capacity is the reason; 0: it names no time. At most a day.
	RetryAfter time.Duration
	// Body ends with io.EOF where the answer ended as HTTP wants it; whether the format was complete is for the
	// format's decoder to say. Any other error is a *[codec.Error], final, and wraps the context's error where the
	// caller had given up. Close never blocks and is needed after the end, too.
	Body *Body
}

// call sends c to the endpoint, once. Only a stale pooled connection is replaced unseen (see transport.do).
func (e *endpoint) call(ctx context.Context, c *Call, credential Credential) (*Reply, *codec.Error) {
	method := http.MethodPost
	if c.Operation == ListModels {
		method = http.MethodGet
	}
	p := e.provider
	body := &Body{endpoint: e}
	body.payload.data = c.Body
	body.watch.begin(ctx, p.firstByte, p.idle)
	out := outgoing{
		method: method,
		url:    e.urlOf(c),
		header: p.headers.build(c, credential),
		size:   int64(len(c.Body)),
		body:   &body.payload,
		cutoff: &body.watch.cutoff,
	}
	if e.wire != nil {
		wired, call := out, *c // of their own, so that other calls need no memory
		data, err := e.wire.request(ctx, &call, &wired, c.Body)
		if err != nil {
			_ = body.Close()
			return nil, e.cloudFault(err)
		}
		out = wired
		body.payload.data, out.size = data, int64(len(data))
	}
	in, err := e.upstream.do(ctx, out)
	if err != nil {
		fault := e.fault(&body.watch, err, phaseHeader)
		_ = body.Close()
		return nil, fault
	}
	body.from = in.body
	if fault := e.unusable(&in); fault != nil {
		_ = body.Close()
		return nil, fault
	}
	body.from = decoded(&in)
	if e.wire != nil {
		answered, call := in, *c
		answered.body = body.from
		e.wire.answer(&call, &answered)
		in = answered
		body.from = in.body
	}
	body.length = in.length // of the decoded body
	return &Reply{Status: in.status, Header: in.header, Body: body}, nil
}

func (p *Provider) missingCredential() *codec.Error {
	err := codec.Errorf(codec.KindAuthentication,
		"There is no credential for provider %s. Set one with: mneme account credential set ACCOUNT %s; or send your own; or let the operator set providers.%s.api_key.",
		p.name, p.name, p.name)
	err.Code = "provider_credential_missing"
	err.Provider = p.name
	return err
}

// unusable is the reason why an answer cannot be handed on, or nil.
func (e *endpoint) unusable(in *incoming) *codec.Error {
	switch {
	case in.status >= 300 && in.status < 400:
		return e.faultf(codec.KindUpstream, nil,
			"%s (%s) answered with a redirect (HTTP %d)%s, which is never followed: set providers.%s.base_url to the address that serves the API.",
			e.provider.name, e.address, in.status, redirectTarget(in.header), e.provider.name)
	case !readable(in.header):
		return e.faultf(codec.KindUpstream, nil, "%s (%s) answered in the content encoding %q, although none was asked for.",
			e.provider.name, e.address, in.header.Get("Content-Encoding"))
	case in.status < 200:
		return e.faultf(codec.KindUpstream, nil, "%s (%s) answered with HTTP %d, which ends no request.", e.provider.name, e.address, in.status)
	default:
		return nil
	}
}

// redirectTarget names the host of a Location header; the rest of it may hold secrets.
func redirectTarget(h http.Header) string {
	u, err := url.Parse(h.Get("Location"))
	if err != nil || u.Host == "" {
		return ""
	}
	return " to " + u.Scheme + "://" + u.Host
}
