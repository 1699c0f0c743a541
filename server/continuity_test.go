package server_test

import (
	"strings"
	"testing"
)

// secretWords are values that must never be found in what goes upstream.
const (
	threadInHeader  = "thread-from-header"
	threadInBody    = "thread-from-body"
	sessionInHeader = "session-from-header"
	sessionInBody   = "session-from-body"
)

func TestContinuityIsKeptAndNeverGoesUpstream(t *testing.T) {
	h := build(t)
	for _, s := range surfaces {
		plain := s.body(`text "hi"`, false)
		marked := with(plain, `"service_chat_key":"`+threadInBody+`","service_external_session_id":"`+sessionInBody+`"`)
		trailing := strings.TrimSuffix(plain, "}") + `,"service_chat_key" : "` + threadInBody + `"}`
		for _, test := range []struct {
			name, body      string
			headers         []string
			thread, session string
		}{
			{"in the body", marked, nil, threadInBody, sessionInBody},
			{"at the end of the body", trailing, nil, threadInBody, ""},
			{"in headers", plain, []string{"X-Service-Chat-Key", threadInHeader, "X-Service-External-Session-ID", sessionInHeader}, threadInHeader, sessionInHeader},
			{"in both", marked, []string{"X-Service-Chat-Key", threadInHeader, "X-Service-External-Session-ID", sessionInHeader}, threadInHeader, sessionInHeader},
			{"one in each", marked, []string{"X-Service-Chat-Key", threadInHeader}, threadInHeader, sessionInBody},
			{"nowhere", plain, nil, "", ""},
		} {
			a := h.post(s.path, test.body, test.headers...)
			if a.status != 200 {
				t.Fatalf("%s %s: %d %s", s.name, test.name, a.status, a.body)
			}
			x := h.record(a.exchange())
			if x.ChatKey != test.thread || x.ExternalSession != test.session {
				t.Errorf("%s %s: on record as %q and %q", s.name, test.name, x.ChatKey, x.ExternalSession)
			}
			if string(x.RawRequest) != test.body {
				t.Errorf("%s %s: the request on record is not the client's: %s", s.name, test.name, x.RawRequest)
			}
			up := h.upstream()
			if string(up.Body) != s.sent(plain) {
				t.Errorf("%s %s: upstream came\n%s\nand not\n%s", s.name, test.name, up.Body, plain)
			}
			for name, values := range up.Header {
				line := strings.ToLower(name + ": " + strings.Join(values, ","))
				if strings.Contains(line, "service") || strings.Contains(line, "thread-from") || strings.Contains(line, "session-from") {
					t.Errorf("%s %s: the provider sees the header %s", s.name, test.name, line)
				}
			}
		}
	}
}

func TestInvalidContinuityIsRefused(t *testing.T) {
	h := build(t)
	long := strings.Repeat("k", 5000)
	for _, s := range surfaces {
		plain := s.body(`text "hi"`, false)
		for name, test := range map[string]struct {
			body    string
			headers []string
			names   string
		}{
			"a number":             {with(plain, `"service_chat_key":7`), nil, "service_chat_key"},
			"null members":         {with(plain, `"service_external_session_id":{}`), nil, "service_external_session_id"},
			"too long":             {with(plain, `"service_chat_key":"`+long+`"`), nil, "service_chat_key"},
			"too long in a header": {plain, []string{"X-Service-Chat-Key", long}, "Chat-Key"},
			"too long an id":       {plain, []string{"X-Service-External-Session-ID", long}, "External-Session"},
		} {
			a := h.post(s.path, test.body, test.headers...)
			_, message := errorOf(t, s, a)
			if a.status != 400 || !strings.Contains(strings.ToLower(a.body), strings.ToLower(test.names)) {
				t.Errorf("%s, %s: %d %s", s.name, name, a.status, message)
			}
		}
	}
	if n := len(h.provider.Requests()); n != 0 {
		t.Errorf("%d requests went upstream", n)
	}
}
