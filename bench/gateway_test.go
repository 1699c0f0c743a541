package bench

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"testing"
)

func TestAnotherGatewayIsNamedByItsURL(t *testing.T) {
	t.Parallel()
	got, err := parseURLTarget("other=http://127.0.0.1:8080,4711")
	if err != nil || got.Name != "other" || got.address != "127.0.0.1:8080" || got.process.pid != 4711 {
		t.Errorf("%+v, %v", got, err)
	}
	for _, wrong := range []string{"other", "other=127.0.0.1:80", "other=https://127.0.0.1:80", "other=http://127.0.0.1:80/v1", "other=http://127.0.0.1:80,abc"} {
		if _, err := parseURLTarget(wrong); err == nil {
			t.Errorf("%q was taken", wrong)
		}
	}
	for _, wrong := range []string{"X-Name", ": value", "X-Name: a\r\nX-Other: b"} {
		if _, err := (&Run{Header: []string{wrong}}).gateways(); err == nil {
			t.Errorf("the header %q was taken", wrong)
		}
	}
}

// A gateway that wants a key and a header of its own, measured by its process beside one that gets neither right: the
// first is measured, and the second has failures and no figures.
func TestAnotherGatewayIsMeasuredBesideTheFloors(t *testing.T) {
	t.Parallel()
	fleet, err := startFleet("test", nil, "")
	if err != nil {
		t.Fatal(err)
	}
	defer fleet.stop()
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: fleet.upstream})
	gateway := func(wants string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer their-key" || r.Header.Get("X-Wanted") != wants {
				http.Error(w, "not for\nyou", http.StatusUnauthorized)
				return
			}
			proxy.ServeHTTP(w, r)
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	dir := t.TempDir()
	run := Run{
		Lanes: []string{"chat"}, Targets: []string{"direct"}, Rounds: 1, Scale: 1e-9, Out: dir, Upstream: fleet.upstream,
		URL: []string{fmt.Sprintf("theirs=%s,%d", gateway("this: and that"), os.Getpid()), "strict=" + gateway("something else")},
		Key: "their-key", Header: []string{"X-Wanted: this: and that"},
	}
	report, said := measured(t, &run)
	l := report.lane("chat")
	if theirs := l.result("theirs").Rounds[0]; theirs.Requests != l.Connections || theirs.failures() > 0 || theirs.PeakMemory <= 0 {
		t.Errorf("of the gateway came %+v", theirs)
	}
	_, table, _ := strings.Cut(said, "|---|")
	_, rows, _ := strings.Cut(table, "\n")
	want := "| strict |  |  |  |  |  |  |  |  |  | 16 |\n\nFirst failure of strict: `HTTP 401: not for you`\n"
	if _, last, _ := strings.Cut(rows, "| strict |"); "| strict |"+last != want {
		t.Errorf("the table ends with\n%s\nwant\n%s", rows, want)
	}
}

func TestDirectionsForOtherGatewaysNameEveryModelOfTheLanes(t *testing.T) {
	t.Parallel()
	var said strings.Builder
	address := (&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 4711}).String()
	if err := writeDirections(&said, address); err != nil {
		t.Fatal(err)
	}
	for i := range lanes {
		if !strings.Contains(said.String(), lanes[i].model) {
			t.Errorf("%s of lane %s is missing in\n%s", lanes[i].model, lanes[i].Name, said.String())
		}
	}
}
