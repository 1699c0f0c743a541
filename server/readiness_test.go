package server_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/store/volume"
)

func TestAServerWithoutSpaceForExchangesIsNotReady(t *testing.T) {
	h := build(t, func(p *plan) {
		space, err := volume.SpaceOf(p.store.Dir)
		if err != nil {
			t.Fatal(err)
		}
		p.store.MinFreeDisk = space.Free + space.Free/2
	})
	if a := h.do(http.MethodGet, "/readyz", ""); a.status != 503 || !strings.Contains(a.body, "nearly full") {
		t.Errorf("readyz answers %d %q", a.status, a.body)
	}
}

func TestReadinessShowsProvidersWithoutTheirAddresses(t *testing.T) {
	h := build(t, func(*plan) {})
	a := h.do(http.MethodGet, "/readyz?verbose", "")
	if a.status != 200 || !strings.HasPrefix(a.body, "ready\n") || !strings.Contains(a.body, ": 1 of 1 endpoints take calls\n") || strings.Contains(a.body, "127.0.0.1") {
		t.Errorf("readyz answers %d %q", a.status, a.body)
	}
	if a := h.do(http.MethodGet, "/readyz", ""); a.body != "ready\n" {
		t.Errorf("readyz answers %q", a.body)
	}
}
