package router

import (
	"context"
	"net/http"
	"net/url"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/router/http1"
)

// call sends c to the endpoint, once. Only a stale pooled connection is silently replaced (see transport.do).
func (e *endpoint) call(ctx context.Context, c *Call, credential Credential) (*Reply, *codec.Error) {
	h := e.peer
	body := &Body{endpoint: e}
	body.payload.data = c.Body
	body.watch.begin(ctx, h.firstByte, h.idle)
	out := outgoing{
		method: c.method(),
		url:    e.urlOf(c),
		header: h.headers.build(c, credential),
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

// unusable returns why an answer cannot be passed on, or nil.
func (e *endpoint) unusable(in *incoming) *codec.Error {
	switch {
	case in.status >= 300 && in.status < 400:
		return e.faultf(codec.KindUpstream, nil,
			"%s (%s) answered with a redirect (HTTP %d)%s, which is never followed: set providers.%s.base_url to the address that serves the API.",
			e.peer.name, e.address, in.status, redirectTarget(in.header), e.peer.name)
	case !readable(in.header):
		return e.faultf(codec.KindUpstream, nil, "%s (%s) answered in the content encoding %q, although none was asked for.",
			e.peer.name, e.address, in.header.Get("Content-Encoding"))
	case in.status < 200:
		return e.faultf(codec.KindUpstream, nil, "%s (%s) answered with HTTP %d, which ends no request.", e.peer.name, e.address, in.status)
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
