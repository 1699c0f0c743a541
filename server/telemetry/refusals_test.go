package telemetry

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestARefusedCallerIsLoggedOnceAMinuteForEachAddressAndKey(t *testing.T) {
	var log bytes.Buffer
	r := NewRefusals(slog.New(slog.NewTextHandler(&log, nil)))
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	for range 3 {
		r.Log(now, Refusal{Client: "192.0.2.1", Reason: "no key"})
		r.Log(now, Refusal{Client: "192.0.2.2", Reason: "no key"})
		r.Log(now, Refusal{Client: "192.0.2.1", Account: "acme", KeyID: "key_1", KeyLabel: "ci", Reason: "revoked"})
	}
	if n := strings.Count(log.String(), "a caller was refused"); n != 3 {
		t.Errorf("%d lines for three callers:\n%s", n, log.String())
	}
	for _, want := range []string{"client=192.0.2.2 reason=\"no key\"", "client=192.0.2.1 account=acme key=key_1 label=ci reason=revoked"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("%s is missing in:\n%s", want, log.String())
		}
	}
	log.Reset()
	r.Log(now.Add(refusalRest), Refusal{Client: "192.0.2.1", Reason: "no key"})
	if !strings.Contains(log.String(), "refused_since_last_line=2") {
		t.Errorf("a minute later: %s", log.String())
	}
}

func TestRefusalsAreBounded(t *testing.T) {
	var log bytes.Buffer
	r := NewRefusals(slog.New(slog.NewTextHandler(&log, nil)))
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	for i := range 3 * mostRefusals {
		r.Log(now, Refusal{Client: fmt.Sprint("2001:db8::", i), Reason: "no key"})
	}
	if n := strings.Count(log.String(), "a caller was refused"); n != mostRefusals+1 || len(r.logged) != mostRefusals+1 {
		t.Errorf("%d lines and %d entries", n, len(r.logged))
	}
	log.Reset()
	r.Log(now.Add(2*refusalRest), Refusal{Client: "192.0.2.1", Reason: "no key"})
	if !strings.Contains(log.String(), "192.0.2.1") || len(r.logged) != 1 {
		t.Errorf("a minute later: %d entries, %s", len(r.logged), log.String())
	}
}
