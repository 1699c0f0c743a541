package admin

import (
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"strings"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/server/listen"
	"github.com/mnemeproxy/mneme/store"
)

// WithInspection adds two views of the whole process to a management handler: /metrics for Prometheus, and the profiles
// of net/http/pprof under /debug/pprof/. Neither shows conversations, but both cover every account, so they need an
// admin key of account default, which is the operator's.
//
// openMetrics serves metrics without a key, for listeners that only this machine can reach. Profiles, which also slow
// the process down, always need one.
func WithInspection(next http.Handler, keys Keys, log *slog.Logger, metrics http.Handler, openMetrics bool) http.Handler {
	operator := func(view http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if err := requireOperatorKey(keys, r); err != nil {
				writeError(w, log, err)
				return
			}
			view.ServeHTTP(w, r)
		})
	}
	if !openMetrics {
		metrics = operator(metrics)
	}
	mux := http.NewServeMux()
	mux.Handle("/", next)
	mux.Handle("GET /metrics", metrics)
	for pattern, view := range map[string]http.HandlerFunc{
		"GET /debug/pprof/":        pprof.Index,
		"GET /debug/pprof/cmdline": pprof.Cmdline,
		"GET /debug/pprof/profile": pprof.Profile,
		"GET /debug/pprof/symbol":  pprof.Symbol,
		"GET /debug/pprof/trace":   pprof.Trace,
	} {
		mux.Handle(pattern, operator(view))
	}
	return mux
}

func requireOperatorKey(keys Keys, r *http.Request) error {
	key, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	identity, err := keys.Authenticate(key)
	if err != nil {
		return err
	}
	if !identity.Scopes.Has(store.ScopeOperator) && (identity.Account != DefaultAccount || !identity.Scopes.Has(store.ScopeAdmin)) {
		return codec.Errorf(codec.KindPermission, "this shows the whole server, and needs a key of scope operator, or of account %s with scope admin", DefaultAccount)
	}
	return nil
}

// WithNames refuses requests that a page of another site may have sent to a listener.
func WithNames(next http.Handler, log *slog.Logger, names listen.Names, address net.Addr) http.Handler {
	loopback := listen.IsLoopback(address)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if fault := names.Refuse(loopback, r.Host, r.Header.Get("Origin")); fault != "" {
			writeError(w, log, codec.Errorf(codec.KindPermission,
				"%s, and management is not for pages of other sites. If it is reached by that name, add it to public_names.", fault))
			return
		}
		next.ServeHTTP(w, r)
	})
}
