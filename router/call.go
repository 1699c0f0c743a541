package router

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/router/http1"
)

// A Call is one request to a provider.
type Call struct {
	Operation Operation
	Format    codec.Format // the upstream format
	Model     string       // as sent; in format Gemini and on some hosts it is in the path
	Stream    bool
	Body      []byte // the caller's again once Do has failed, or the reply's body is closed or has dropped it; never changed
	Header    Header // the client's canonical headers, filtered by an allow-list; may be nil
	Query     string // the client's raw query; only beta=true goes upstream
	// Credential is the caller's or the account's own, and never replaced. The zero Credential means the server's.
	Credential Credential
	Account    string        // the caller's account: its failures do not affect others
	Affinity   uint64        // calls with the same [Affinity] go to the same healthy place; 0: to any
	Observe    func(Attempt) // called with every finished attempt, within Do; may be nil

	Method string    // of operation [Pass], as are the next three
	Path   string    // see [Provider.passURL]; Query is sent as it is
	Upload io.Reader // instead of Body: it is sent as it arrives, once; nil: there is none
	Size   int64     // of Upload; -1: unknown
}

// A Reply is the answer of a provider with any final status except a redirect. Its body has yet to be read.
type Reply struct {
	Status int
	Header Header // as received; [PassesDownstream] reports what a client may see
	// RetryAfter is how long an error answer asks to wait before the next request, by its header, or by its body if the
	// cause is a limit or lack of capacity; 0: no time given. At most a day.
	RetryAfter time.Duration
	// Body ends with io.EOF if the answer ended properly in HTTP; the format's decoder decides whether it is complete.
	// Any other error is a *[codec.Error], final, and wraps the context's error if the caller had given up. Close never
	// blocks and is needed after the end, too.
	Body *Body
}

// call sends c to the endpoint, once. Only a stale pooled connection is silently replaced (see transport.do).
func (e *endpoint) call(ctx context.Context, c *Call, credential Credential) (*Reply, *codec.Error) {
	p := e.provider
	body := &Body{endpoint: e}
	body.payload.data = c.Body
	body.watch.begin(ctx, p.firstByte, p.idle)
	out := outgoing{
		method: c.method(),
		url:    e.urlOf(c),
		header: p.headers.build(c, credential),
		size:   int64(len(c.Body)),
		body:   &body.payload,
		cutoff: &body.watch.cutoff,
	}
	sends := e.upstream
	if c.Upload != nil || out.method == http.MethodHead {
		sends = e.uploads
		out.upload, out.size = c.Upload, c.Size
	}
	if e.wire != nil {
		wired, call := out, *c // separate, so that other calls need no memory
		data, err := e.wire.request(ctx, &call, &wired, c.Body)
		if err != nil {
			_ = body.Close()
			return nil, e.cloudFault(err)
		}
		out = wired
		body.payload.data, out.size = data, int64(len(data))
	}
	in, err := sends.do(ctx, out)
	if err != nil {
		fault := e.fault(&body.watch, err, phaseHeader)
		_ = body.Close()
		return nil, fault
	}
	body.from = in.body
	body.direct, _ = in.body.(*http1.Response)
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

func (c *Call) method() string {
	switch c.Operation {
	case ListModels:
		return http.MethodGet
	case Pass:
		return c.Method
	default:
		return http.MethodPost
	}
}

func (p *Provider) missingCredential() *codec.Error {
	err := codec.Errorf(codec.KindAuthentication,
		"There is no credential for provider %s. Set one with: mneme account credential set ACCOUNT %s; or send your own; or let the operator set providers.%s.api_key.",
		p.name, p.name, p.name)
	err.Code = "provider_credential_missing"
	return err
}

// unusable returns why an answer cannot be passed on, or nil.
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

// redirectTarget returns the host of a Location header; the rest of it may hold secrets.
func redirectTarget(h Header) string {
	u, err := url.Parse(h.Get("Location"))
	if err != nil || u.Host == "" {
		return ""
	}
	return " to " + u.Scheme + "://" + u.Host
}
