package admin

import (
	"context"
	"log/slog"
	"net/http"
	"os"

	"github.com/mnemeproxy/mneme/server/api"
	"github.com/mnemeproxy/mneme/server/telemetry"
)

// Live is known only to a running server.
type Live interface {
	// Origins returns the URLs of its addresses for clients on the same machine.
	Origins() []string
	Providers() []api.Provider
	// Cluster returns its role in a cluster.
	Cluster() Cluster
	// WriteOff declares one of a centre's edges destroyed.
	WriteOff(ctx context.Context, node uint16) error
	// Invite returns a code with which a browser signs in to the page at /ui, for an account, or as an
	// operator.
	Invite(account string, operator bool) (code string, err error)
}

// WithLive adds the endpoints of a running server to the handler of the socket: GET /providers, GET /origins, GET
// /process and GET /cluster, POST /cluster/edges/{node}/write-off, and POST /ui/codes.
func WithLive(next http.Handler, live Live, log *slog.Logger) http.Handler {
	return withLive(next, live, log, func(serve http.HandlerFunc) http.Handler { return serve })
}

// WithLiveForOperators adds the same to a handler for holders of keys, for keys of scope operator.
func WithLiveForOperators(next http.Handler, m Engine, live Live, log *slog.Logger) http.Handler {
	identify := byKey(m, telemetry.NewRefusals(log))
	return withLive(next, live, log, func(serve http.HandlerFunc) http.Handler {
		return operatorOnly(identify, log, func(w http.ResponseWriter, r *http.Request) error {
			serve(w, r)
			return nil
		})
	})
}

func withLive(next http.Handler, live Live, log *slog.Logger, guard func(http.HandlerFunc) http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", next)
	for pattern, serve := range liveRoutes(live, log) {
		mux.Handle(pattern, guard(serve))
	}
	return mux
}

func liveRoutes(live Live, log *slog.Logger) map[string]http.HandlerFunc {
	return map[string]http.HandlerFunc{
		"GET /providers": func(w http.ResponseWriter, _ *http.Request) {
			writeJSON(w, http.StatusOK, api.Page[api.Provider]{Data: live.Providers()})
		},
		"GET /origins": func(w http.ResponseWriter, _ *http.Request) {
			writeJSON(w, http.StatusOK, api.Page[string]{Data: live.Origins()})
		},
		"GET /cluster": func(w http.ResponseWriter, _ *http.Request) {
			writeJSON(w, http.StatusOK, live.Cluster())
		},
		"GET /process": func(w http.ResponseWriter, _ *http.Request) {
			writeJSON(w, http.StatusOK, api.Process{ID: os.Getpid()})
		},
		"POST /cluster/edges/{node}/write-off": func(w http.ResponseWriter, r *http.Request) {
			if err := writeOff(live, r); err != nil {
				writeError(w, log, err)
				return
			}
			w.WriteHeader(http.StatusNoContent)
		},
		"POST /ui/codes": func(w http.ResponseWriter, r *http.Request) {
			var asked api.Invitation
			r.Body = http.MaxBytesReader(w, r.Body, maxBody)
			err := readJSON(r, &asked)
			var code string
			if err == nil {
				code, err = live.Invite(asked.Account, asked.Operator)
			}
			if err != nil {
				writeError(w, log, err)
				return
			}
			writeJSON(w, http.StatusCreated, api.Invited{Code: code})
		},
	}
}

// Origins returns the URLs at which the server that has the store open accepts requests from this machine: none if no
// server runs. For a remote server it returns the URL that the client was given.
func (c *Client) Origins(ctx context.Context) ([]string, error) {
	switch {
	case c.InProcess():
		return nil, nil
	case c.holder != nil:
		return []string{c.origin}, nil
	}
	var list api.Page[string]
	err := c.call(ctx, http.MethodGet, "/origins", nil, &list)
	return list.Data, err
}

// Process returns the process that has the store open; the zero value if no server runs on this machine.
func (c *Client) Process(ctx context.Context) (p api.Process, err error) {
	if c.InProcess() || c.holder != nil {
		return p, nil
	}
	err = c.call(ctx, http.MethodGet, "/process", nil, &p)
	return p, err
}

// Providers lists those of the running server; none if no server runs on this machine.
func (c *Client) Providers(ctx context.Context) ([]api.Provider, error) {
	if c.InProcess() || c.holder != nil {
		return nil, nil
	}
	var list api.Page[api.Provider]
	err := c.call(ctx, http.MethodGet, "/providers", nil, &list)
	return list.Data, err
}

// Invite returns a code with which a browser signs in to the page of the running server.
func (c *Client) Invite(ctx context.Context, account string, operator bool) (string, error) {
	var invited api.Invited
	err := c.call(ctx, http.MethodPost, "/ui/codes", api.Invitation{Account: account, Operator: operator}, &invited)
	return invited.Code, err
}
