package command

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"

	"github.com/mnemeproxy/mneme/server/admin"
	"github.com/mnemeproxy/mneme/server/cluster"
	"github.com/mnemeproxy/mneme/server/config"
	"github.com/mnemeproxy/mneme/server/listen"
)

// probes is the listener of a worker, for what supervises it: /healthz, /readyz and /metrics. It shows no memory.
type probes struct {
	listener net.Listener
	stop     context.CancelFunc
	served   chan struct{} // closed when nothing is served any more
}

// serveProbes begins to listen. taking returns the worker, or nil until that has started, and idle reports whether it
// embeds nothing although it should. Probes need no key, and metrics need one where others than this machine can reach the
// address.
func serveProbes(address string, taking func() *cluster.Centre, idle func() bool, cfg *config.Config, keys admin.Keys, metrics http.Handler, log *slog.Logger) (*probes, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("--listen of a worker is the HOST:PORT of its metrics and probes: %w", err)
	}
	views := admin.WithInspection(http.NotFoundHandler(), keys, log, metrics, listen.IsLoopback(listener.Addr()))
	mux := http.NewServeMux()
	mux.Handle("/", admin.WithNames(views, log, listen.Names(cfg.PublicNames), listener.Addr()))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok\n") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if missing := unready(taking()); missing != "" {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = fmt.Fprintln(w, missing)
			return
		}
		_, _ = io.WriteString(w, "ready\n")
		if idle() { // it does the rest of its work, and to start it again would not help
			_, _ = io.WriteString(w, "no turns are embedded here; the log says why\n")
		}
	})
	ctx, stop := context.WithCancel(context.Background())
	p := &probes{listener, stop, make(chan struct{})}
	go func() {
		defer close(p.served)
		if err := admin.Serve(ctx, listener, mux); err != nil {
			log.Error("metrics and probes are not served any more", "cause", err)
		}
	}()
	return p, nil
}

// unready returns why a worker takes nothing, or "". Anybody may read that, so that the cause is in the log alone.
func unready(worker *cluster.Centre) string {
	switch {
	case worker == nil:
		return "starting: waiting for the centre's accounts or the database"
	case worker.Status().Problem != "":
		return "nothing is taken from the edges; the log says why"
	}
	return ""
}

func (p *probes) close() {
	p.stop()
	<-p.served
}
