package listen_test

import (
	"testing"

	"github.com/mnemeproxy/mneme/server/listen"
)

func TestOtherSitesAreRefused(t *testing.T) {
	public := listen.Names{"mneme.example.com"}
	for _, row := range []struct {
		names        listen.Names
		loopback     bool
		host, origin string
		refused      bool
	}{
		{nil, true, "localhost:7788", "", false},
		{nil, true, "127.0.0.1", "http://localhost:3000", false},
		{nil, true, "[::1]:7788", "http://[::1]", false},
		{nil, true, "LOCALHOST", "", false},
		{nil, true, "evil.example.com", "", true},
		{nil, true, "", "", true},
		{nil, true, "127.0.0.1.evil.example.com", "", true},
		{nil, true, "localhost", "http://evil.example.com", true},
		{nil, true, "localhost", "http://localhost.evil.example.com", true},
		{nil, true, "localhost", "null", true},
		{nil, true, "localhost", "file://localhost", true},
		{public, true, "mneme.example.com", "https://mneme.example.com", false},

		{nil, false, "anything.example.com", "", false},
		{nil, false, "a.example.com:443", "https://a.example.com:443", false},
		{nil, false, "a.example.com", "https://b.example.com", true},
		{nil, false, "a.example.com", "null", true},
		{public, false, "mneme.example.com:8443", "", false},
		{public, false, "mneme.example.com", "https://MNEME.example.com", false},
		{public, false, "localhost:7788", "", false},
		{public, false, "evil.example.com", "", true},
		{public, false, "mneme.example.com", "https://evil.example.com", true},
	} {
		if got := row.names.Refuse(row.loopback, row.host, row.origin); (got != "") != row.refused {
			t.Errorf("%+v: %q", row, got)
		}
	}
}
