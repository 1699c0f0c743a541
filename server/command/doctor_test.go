package command

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/server/admin"
	"github.com/mnemeproxy/mneme/server/config"
)

// The doctor sees an index that cannot be built, and one that has come back.
func TestTheDoctorLooksAtTheSearchIndex(t *testing.T) {
	t.Setenv("MNEME_CONFIG", "")
	dir := t.TempDir()
	recordExchanges(t, dir, 1)
	index := filepath.Join(dir, "index")
	if err := os.WriteFile(index, nil, 0o600); err != nil { // a file where the directory should be
		t.Fatal(err)
	}
	doctor := &Doctor{StoreFlags: StoreFlags{Data: dir}}
	want := func(state string) {
		t.Helper()
		if found := doctor.examineIndex(t.Context()); len(found) != 1 || found[0].State != state {
			t.Errorf("%+v, want one that is %s", found, state)
		}
	}
	want(problem)
	if err := os.Remove(index); err != nil {
		t.Fatal(err)
	}
	doctor.examineIndex(t.Context()) // which begins another one
	want(good)
}

// A server that is stopped has its socket open still, where the system takes connections for it.
func TestTheDoctorGivesUpOnAServerThatDoesNotAnswer(t *testing.T) {
	t.Setenv("MNEME_CONFIG", "")
	dir := t.TempDir()
	socket, err := admin.Listen(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = socket.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	doctor := &Doctor{StoreFlags: StoreFlags{Data: dir}, patience: 50 * time.Millisecond}
	asked := doctor.ask(ctx, admin.Running(ctx, dir))
	if ctx.Err() != nil || !asked.silent || len(asked.findings) > 0 {
		t.Errorf("it is asked until %v, and says %+v", ctx.Err(), asked)
	}
	if found := examineServer(&config.Config{Data: dir}, true, asked.silent); found.State != problem {
		t.Errorf("%+v is no problem", found)
	}
}

// To sum up what lost prompt caches cost, a server reads many exchanges.
func TestAServerThatReadsLongIsNotTakenForSilent(t *testing.T) {
	t.Setenv("MNEME_CONFIG", "")
	dir := t.TempDir()
	socket, err := admin.Listen(dir)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/cache") {
			<-r.Context().Done()
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"object":"list","data":[{"name":"acme"}]}`)
	})}
	go func() { _ = server.Serve(socket) }()
	defer func() { _ = server.Close() }()
	doctor := &Doctor{StoreFlags: StoreFlags{Data: dir}, patience: 3 * time.Second}
	asked := doctor.ask(t.Context(), admin.Running(t.Context(), dir))
	caches := slices.IndexFunc(asked.findings, func(f finding) bool { return f.Check == "prompt caches" })
	if asked.silent || caches < 0 || asked.findings[caches].State != good {
		t.Errorf("it says %+v", asked)
	}
}

func TestALocalHostIsFoundWithTheLineThatLeadsThere(t *testing.T) {
	ollama := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/version" {
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer ollama.Close()
	address := ollama.Listener.Addr().String()
	t.Setenv("OLLAMA_HOST", address)
	t.Setenv("LMSTUDIO_HOST", "127.0.0.1:1")
	routes, err := router.New(router.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer routes.Close()
	found := examineLocalHosts(t.Context(), routes)
	if len(found) != 1 || !strings.Contains(found[0].Fix, `providers: {ollama: {base_url: "http://`+address+`/v1"}}; its models are then ollama/NAME`) {
		t.Errorf("%+v", found)
	}
	led, err := router.New(router.Config{Providers: map[string]router.ProviderConfig{"ollama": {BaseURL: ollama.URL + "/v1"}}})
	if err != nil {
		t.Fatal(err)
	}
	defer led.Close()
	if found := examineLocalHosts(t.Context(), led); len(found) > 0 {
		t.Errorf("a host that is in use is offered: %+v", found)
	}
}
