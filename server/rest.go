package server

import (
	"context"
	"net/http"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/server/edge"
	"github.com/mnemeproxy/mneme/server/resource"
	"github.com/mnemeproxy/mneme/store"
)

// serveRest serves the paths that have no handler of their own.
func (s *proxy) serveRest(ctx context.Context, in *edge.Request, out *edge.Response) {
	x, found := s.passes(ctx, in, out)
	switch {
	case !found:
		s.notFound(ctx, in, out)
	case in.Method() == http.MethodOptions:
		origins(s.opts.Origins).preflight(in, out)
		out.Set("Allow", "DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT")
		out.SetStatus(http.StatusNoContent)
	case s.opts.NoModels:
		s.refuseModels(ctx, in, out)
	default:
		origins(s.opts.Origins).allow(in, out)
		defer x.finish()
		x.runSurface()
	}
}

// passes returns the exchange for a path that leads to a provider: that whose name it begins with, or that owns it.
func (s *proxy) passes(ctx context.Context, in *edge.Request, out *edge.Response) (x *exchange, found bool) {
	routes, path := s.router.Load(), in.Path()
	if routes == nil {
		return nil, false
	}
	first, rest := resource.Cut(path)
	p := passing{owner: routes.Provider(first)}
	if p.owner == nil {
		owner, known := resource.Find(path, speaks(in))
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
