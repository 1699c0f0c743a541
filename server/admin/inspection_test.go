package admin

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/server/listen"
	"github.com/mnemeproxy/mneme/store"
)

func TestProfilesAndMetricsAreForTheOperator(t *testing.T) {
	st := withServer(t, t.TempDir())
	if _, err := st.Accounts().Create("tenant"); err != nil {
		t.Fatal(err)
	}
	key := func(account string, scopes store.Scopes) string {
		secret, _, err := st.Keys().Create(account, scopes, "")
		if err != nil {
			t.Fatal(err)
		}
		return secret
	}
	metrics := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "mneme_build_info 1\n") })
	callers := map[string]string{
		"nobody":                "",
		"an account's own":      key("tenant", store.AllScopes),
		"the operator, no role": key(DefaultAccount, store.ScopeWrite|store.ScopeRead),
		"the operator":          key(DefaultAccount, store.ScopeAdmin),
	}
	for _, tt := range []struct {
		path   string
		open   bool
		caller string
		want   int
	}{
		{"/metrics", true, "nobody", http.StatusOK},
		{"/metrics", false, "nobody", http.StatusUnauthorized},
		{"/metrics", false, "an account's own", http.StatusForbidden},
		{"/metrics", false, "the operator, no role", http.StatusForbidden},
		{"/metrics", false, "the operator", http.StatusOK},
		{"/debug/pprof/", true, "nobody", http.StatusUnauthorized},
		{"/debug/pprof/cmdline", true, "nobody", http.StatusUnauthorized},
		{"/debug/pprof/heap", true, "an account's own", http.StatusForbidden},
		{"/debug/pprof/heap", true, "the operator", http.StatusOK},
		{"/keys", true, "nobody", http.StatusUnauthorized},
		{"/keys", true, "an account's own", http.StatusOK},
	} {
		handler := WithInspection(AccountHandler(Over(st), quiet, lineBytes), st.Keys(), quiet, metrics, tt.open)
		answer := httptest.NewRecorder()
		request := httptest.NewRequest(http.MethodGet, tt.path, http.NoBody)
		request.Header.Set("Authorization", "Bearer "+callers[tt.caller])
		handler.ServeHTTP(answer, request)
		if answer.Code != tt.want {
			t.Errorf("%s for %s (open: %t): want %d, got %d: %s", tt.path, tt.caller, tt.open, tt.want, answer.Code, answer.Body)
		}
		if tt.path == "/metrics" && answer.Code == http.StatusOK && !strings.Contains(answer.Body.String(), "mneme_build_info") {
			t.Errorf("no metrics: %s", answer.Body)
		}
	}
}

func TestOnlyLoopbackAddressesAreThisMachineAlone(t *testing.T) {
	for text, want := range map[string]bool{"127.0.0.1:7789": true, "[::1]:7789": true, "0.0.0.0:7789": false, "[::]:7789": false, "10.0.0.1:7789": false} {
		address, err := net.ResolveTCPAddr("tcp", text)
		if err != nil {
			t.Fatal(err)
		}
		if got := listen.IsLoopback(address); got != want {
			t.Errorf("%s: got %t", text, got)
		}
	}
	if listen.IsLoopback(&net.UnixAddr{}) {
		t.Error("a socket has no address of a network")
	}
}
