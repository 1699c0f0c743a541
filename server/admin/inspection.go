package admin

import (
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"strings"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store"
)

// WithInspection puts two views of the whole process before a handler of the management: /metrics for Prometheus, and
// the profiles of net/http/pprof under /debug/pprof/. Neither shows what was said, but both show the work of every
// account, so a key for them has to be an admin key of account default, which is the operator's.
//
// openMetrics lets metrics be read without a key, for listeners that only this machine can reach. Profiles, which also
// slow the process down, always need one.
func WithInspection(next http.Handler, st *store.Store, log *slog.Logger, metrics http.Handler, openMetrics bool) http.Handler {
	operator := func(view http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if err := requireOperatorKey(st, r); err != nil {
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

func requireOperatorKey(st *store.Store, r *http.Request) error {
	key, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	identity, err := st.Authenticate(key)
	if err != nil {
		return err
	}
	if identity.Account != DefaultAccount || !identity.Scopes.Has(store.ScopeAdmin) {
		return codec.Errorf(codec.KindPermission, "this shows the whole server, and needs a key of account %s with scope admin", DefaultAccount)
	}
	return nil
}

// IsLoopback tells whether only this machine can reach the address of a listener.
func IsLoopback(address net.Addr) bool {
	tcp, ok := address.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}
