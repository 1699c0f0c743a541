package admin

import (
	"context"
	"net/http"
)

// Provider is one that a running server leads to.
type Provider struct {
	Name      string `json:"name"`
	Simulated bool   `json:"simulated"`
}

// WithProviders puts before a handler of the management what only a running server knows: GET /providers.
func WithProviders(next http.Handler, providers func() []Provider) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", next)
	mux.HandleFunc("GET /providers", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, List[Provider]{Data: providers()})
	})
	return mux
}

// Providers lists those of the running server; none where no server runs.
func (c *Client) Providers(ctx context.Context) ([]Provider, error) {
	if c.InProcess() {
		return nil, nil
	}
	var list List[Provider]
	err := c.call(ctx, http.MethodGet, "/providers", nil, &list)
	return list.Data, err
}
