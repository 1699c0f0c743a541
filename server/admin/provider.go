package admin

import (
	"context"
	"net/http"
	"os"
)

// Provider is one that a running server leads to.
type Provider struct {
	Name      string `json:"name"`
	Simulated bool   `json:"simulated"`
}

// Live is what only a running server knows.
type Live interface {
	// Origins are the URLs of its addresses for clients of the same machine.
	Origins() []string
	Providers() []Provider
}

// Process is the process of a server.
type Process struct {
	ID int `json:"pid"`
}

// WithLive puts before a handler of the management what only a running server knows: GET /providers, GET
// /origins and GET /process.
func WithLive(next http.Handler, live Live) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", next)
	mux.HandleFunc("GET /providers", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, List[Provider]{Data: live.Providers()})
	})
	mux.HandleFunc("GET /origins", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, List[string]{Data: live.Origins()})
	})
	mux.HandleFunc("GET /process", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, Process{ID: os.Getpid()})
	})
	return mux
}

// Origins are the URLs at which the server that has the store open takes requests of this machine; none where no server
// runs, and of a server elsewhere the one that the client was given.
func (c *Client) Origins(ctx context.Context) ([]string, error) {
	switch {
	case c.InProcess():
		return nil, nil
	case c.holder != nil:
		return []string{c.origin}, nil
	}
	var list List[string]
	err := c.call(ctx, http.MethodGet, "/origins", nil, &list)
	return list.Data, err
}

// Process is that of the server that has the store open; the zero value where no server runs on this machine.
func (c *Client) Process(ctx context.Context) (p Process, err error) {
	if c.InProcess() || c.holder != nil {
		return p, nil
	}
	err = c.call(ctx, http.MethodGet, "/process", nil, &p)
	return p, err
}

// Providers lists those of the running server; none where no server runs on this machine.
func (c *Client) Providers(ctx context.Context) ([]Provider, error) {
	if c.InProcess() || c.holder != nil {
		return nil, nil
	}
	var list List[Provider]
	err := c.call(ctx, http.MethodGet, "/providers", nil, &list)
	return list.Data, err
}
