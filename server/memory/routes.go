package memory

import (
	"cmp"
	"net/http"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/server/promptcache"
	"github.com/mnemeproxy/mneme/store"
)

// routes are the paths of the package, each with the scope that it requires.
var routes = []struct {
	pattern string
	scope   store.Scopes
	serve   func(*handler, *call) (any, error)
}{
	{"GET /v1/memory/sessions", store.ScopeRead, (*handler).sessions},
	{"GET /v1/memory/sessions/{id}", store.ScopeRead, (*handler).session},
	{"PATCH /v1/memory/sessions/{id}", store.ScopeWrite, (*handler).describeSession},
	{"GET /v1/memory/sessions/{id}/timeline", store.ScopeRead, (*handler).timeline},
	{"GET /v1/memory/sessions/{id}/cache", store.ScopeRead, (*handler).sessionCache},
	{"GET /v1/memory/sessions/{id}/forecast", store.ScopeRead, (*handler).forecast},
	{"POST /v1/memory/sessions/{id}/merge", store.ScopeWrite, (*handler).mergeSession},
	{"POST /v1/memory/sessions/{id}/split", store.ScopeWrite, (*handler).splitSession},
	{"DELETE /v1/memory/sessions/{id}", store.ScopeErase, (*handler).eraseSession},
	{"GET /v1/memory/exchanges", store.ScopeRead, (*handler).exchanges},
	{"GET /v1/memory/exchanges/{id}", store.ScopeRead, (*handler).exchange},
	{"PATCH /v1/memory/exchanges/{id}", store.ScopeWrite, (*handler).describeExchange},
	{"GET /v1/memory/exchanges/{id}/translation", store.ScopeRead, (*handler).translation},
	{"GET /v1/memory/exchanges/{id}/context", store.ScopeRead, (*handler).contextOf},
	{"GET /v1/memory/exchanges/{id}/messages/{message}/parts/{part}", store.ScopeRead, (*handler).requestPicture},
	{"GET /v1/memory/exchanges/{id}/answer/parts/{part}", store.ScopeRead, (*handler).answerPicture},
	{"DELETE /v1/memory/exchanges/{id}", store.ScopeErase, (*handler).eraseExchange},
	{"POST /v1/memory/erasures", store.ScopeErase, (*handler).erase},
	{"GET /v1/memory/erasures/{id}", store.ScopeErase, (*handler).erasure},
	{"POST /v1/memory/search", store.ScopeRead, (*handler).search},
	{"POST /v1/memory/recall", store.ScopeRead, (*handler).recall},
	{"GET /v1/memory/stats", store.ScopeRead, (*handler).stats},
	{"GET /v1/memory/usage", store.ScopeRead, (*handler).usage},
	{"GET /v1/memory/costs", store.ScopeRead, (*handler).costs},
	{"GET /v1/memory/cache", store.ScopeRead, (*handler).cache},
	{"GET /v1/memory/events", store.ScopeRead, (*handler).events},
	{"GET /v1/memory/export.jsonl", store.ScopeRead, (*handler).export},
	{"POST /v1/memory/imports", store.ScopeWrite, (*handler).importAll},
}

// Patterns returns the methods and paths that a [Handler] serves, as [http.ServeMux] writes them.
func Patterns() []string {
	patterns := make([]string, len(routes))
	for i := range routes {
		patterns[i] = routes[i].pattern
	}
	return patterns
}

// Handler serves the paths of the package.
func Handler(o Options) http.Handler {
	if o.LineBytes == 0 {
		o.LineBytes = maxLine
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	h := &handler{Options: o, epoch: newEpoch(), caches: promptcache.Caches{
		Archive: o.Archive, Prices: o.Prices, Warn: cmp.Or(o.Warn, promptcache.LeastWarning), Clock: o.Clock,
	}}
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		h.Fail(w, r, codec.Errorf(codec.KindNotFound, "There is no %s %s.", r.Method, r.URL.Path))
	})
	for _, route := range routes {
		mux.HandleFunc(route.pattern, h.endpoint(route.scope, func(c *call) (any, error) { return route.serve(h, c) }))
	}
	return mux
}
