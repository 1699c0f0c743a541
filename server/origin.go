package server

import (
	"context"
	"net/http"
	"slices"

	"github.com/mnemeproxy/mneme/server/edge"
)

// origins are those of pages that may call the surfaces; "*": of all.
type origins []string

// forPages lets pages of the configured origins read the answers of a handler (the CORS protocol of the Fetch Standard).
func (o origins) forPages(next edge.Handler) edge.Handler {
	if len(o) == 0 {
		return next
	}
	return func(ctx context.Context, in *edge.Request, out *edge.Response) {
		o.allow(in, out)
		next(ctx, in, out)
	}
}

// allow reports whether a page of the request's origin may read the answer, and tells its browser.
func (o origins) allow(in *edge.Request, out *edge.Response) bool {
	if len(o) == 0 {
		return false
	}
	origin := in.Header("Origin")
	out.Add("Vary", "Origin")
	if origin == "" || !slices.Contains(o, origin) && !slices.Contains(o, "*") {
		return false
	}
	out.Set("Access-Control-Allow-Origin", origin)
	out.Set("Access-Control-Expose-Headers", "*")
	return true
}

// preflight answers a browser that asks what a page may send, and anybody else with the methods of the path, which edge
// adds.
func (o origins) preflight(in *edge.Request, out *edge.Response) {
	if !o.allow(in, out) || !in.HasHeader("Access-Control-Request-Method") {
		return
	}
	out.Set("Access-Control-Allow-Methods", http.MethodGet+", "+http.MethodPost+", "+http.MethodDelete)
	if asked := in.Header("Access-Control-Request-Headers"); asked != "" {
		out.Set("Access-Control-Allow-Headers", asked)
	}
	out.Set("Access-Control-Max-Age", "600")
}
