package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/mnemeproxy/mneme/bench/provider"
	"github.com/mnemeproxy/mneme/server/command"
)

// Target is the hidden command that a run starts its targets with: one process each. Its first line of output is the
// address of the target and that of its profiles. It ends with its standard input.
type Target struct {
	Kind string `arg:"" enum:"provider,pump,reverseproxy,mneme" help:"What to run."`
	Of   string `arg:"" optional:"" help:"Address of the provider; for mneme the configuration file."`
}

// Run serves until standard input ends.
func (c *Target) Run(ctx context.Context, s *command.Env) error {
	ctx = untilStdinEnds(ctx)
	profiles, err := serveProfiles(ctx)
	if err != nil {
		return err
	}
	if c.Kind == targetMneme {
		inner := *s
		inner.Out = &addressLine{to: s.Out, profiles: profiles}
		serve := command.Serve{StoreFlags: command.StoreFlags{Config: c.Of}}
		return serve.Run(ctx, &inner)
	}
	if c.Kind == "provider" {
		server, err := provider.Start(provider.Options{FreshIDs: true, Clock: time.Now, Keep: -1})
		if err != nil {
			return err
		}
		fmt.Fprintln(s.Out, strings.TrimPrefix(server.URL(), "http://"), profiles)
		<-ctx.Done()
		return server.Close()
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Fprintln(s.Out, listener.Addr(), profiles)
	if c.Kind == targetPump {
		return relay(ctx, listener, c.Of)
	}
	return reverseProxy(ctx, listener, c.Of)
}

// addressLine turns the line that mneme prints when it serves into that of a target.
type addressLine struct {
	to       io.Writer
	profiles string
}

func (w *addressLine) Write(p []byte) (int, error) {
	_, origin, _ := strings.Cut(strings.TrimSpace(string(p)), "http://")
	_, err := fmt.Fprintln(w.to, origin, w.profiles)
	return len(p), err
}

const allocationsPath = "/allocations"

// serveProfiles serves profiles, and the number of allocations with their bytes, on a free port, until ctx is done.
func serveProfiles(ctx context.Context) (address string, err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	mux.HandleFunc(allocationsPath, func(w http.ResponseWriter, _ *http.Request) {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		fmt.Fprintln(w, m.Mallocs, m.TotalAlloc)
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			fmt.Fprintln(os.Stderr, "profiles:", err)
		}
	}()
	return listener.Addr().String(), nil
}
