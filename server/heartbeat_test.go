package server_test

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/codec/crossing"
	"github.com/mnemeproxy/mneme/store"
)

// sign is a sign of life as the surface's clients read it.
func (s surface) sign() string { return string(crossing.AppendHeartbeat(nil, s.format)) }

func TestSignsOfLifeAreSentOnASilentStream(t *testing.T) {
	onEveryTransport(t, signsOfLifeAreSentOnASilentStream)
}

func signsOfLifeAreSentOnASilentStream(t *testing.T, on transportPlan) {
	const begun = "event: message_start\ndata: {\"type\":\"message_start\"}\n\n"
	for _, test := range []struct{ name, sent, arrives string }{
		{"before the first event", "", ""},
		{"between two events", begun, begun},
		{"inside an event", begun + "event: content_block_del", begun},
	} {
		up := newUpstream(t, func(c *upstreamCall) {
			c.chunked()
			if test.sent != "" {
				c.chunk(test.sent)
			}
			<-c.gone
		})
		t.Run(test.name, func(t *testing.T) {
			up.t = t
			h := build(t, on, up.serves, func(p *plan) { p.server.Heartbeat = 10 * time.Millisecond })
			for _, s := range generating {
				ctx, leave := context.WithTimeout(context.Background(), patience)
				response, err := h.client.Do(h.request(ctx, http.MethodPost, s.path, s.body("", true), "Authorization", "Bearer "+h.key))
				ok(t, err)
				in, received := bufio.NewReader(response.Body), ""
				behind := func() string { // what is to arrive; there may be signs in front of it, too
					_, rest, _ := strings.Cut(received, test.arrives)
					return rest
				}
				for strings.Count(behind(), s.sign()) < 3 {
					line, err := in.ReadString('\n')
					if err != nil {
						t.Fatalf("%s: %v after %q", s.name, err, received)
					}
					received += line
				}
				leave()
				_ = response.Body.Close()
				if rest := strings.ReplaceAll(received, s.sign(), ""); rest != test.arrives {
					t.Errorf("%s: beside the signs came %q", s.name, rest)
				}
				x := h.settled(response.Header.Get("X-Service-Exchange-ID"))
				if x.Outcome != store.OutcomeClientClosed || string(x.RawResponse) != test.arrives {
					t.Errorf("%s: on record as %v with %q", s.name, x.Outcome, x.RawResponse)
				}
			}
		})
	}
}

// Signs of life come between events; without them the answer is the provider's own.
func TestSignsOfLifeDisturbNothing(t *testing.T) { onEveryTransport(t, signsOfLifeDisturbNothing) }

func signsOfLifeDisturbNothing(t *testing.T, on transportPlan) {
	h := build(t, on, func(p *plan) { p.server.Heartbeat = 4 * time.Millisecond })
	for _, s := range generating {
		body := s.body(`events 10; delay 12ms; burst 1`, true)
		a, want := h.post(s.path, body), h.direct(s, body)
		if got := strings.ReplaceAll(a.body, s.sign(), ""); got != strings.ReplaceAll(want.body, s.sign(), "") || a.cut != nil {
			t.Errorf("%s: %v\n%q\nwant\n%q", s.name, a.cut, got, want.body)
		}
		if x := h.record(a.exchange()); string(x.RawResponse) != want.body {
			t.Errorf("%s: on record is %q", s.name, x.RawResponse)
		}
	}
}

// A client that does not read must not keep the others from their signs of life.
func TestAStalledClientHoldsUpNobodysSignsOfLife(t *testing.T) {
	onEveryTransport(t, aStalledClientHoldsUpNobodysSignsOfLife)
}

func aStalledClientHoldsUpNobodysSignsOfLife(t *testing.T, on transportPlan) {
	stalled := make(chan struct{})
	up := newUpstream(t, func(c *upstreamCall) {
		c.chunked()
		if c.request.URL.Path == messages.path {
			<-c.gone
			return
		}
		event := "data: {\"x\":\"" + strings.Repeat("x", 16<<10) + "\"}\n\n"
		for {
			_ = c.SetWriteDeadline(time.Now().Add(300 * time.Millisecond))
			if _, err := c.Write([]byte("4010\r\n" + event + "\r\n")); err != nil {
				break
			}
		}
		close(stalled)
		<-c.gone
	})
	h := build(t, on, up.serves, func(p *plan) { p.server.Heartbeat = 10 * time.Millisecond })
	conn := h.dial()
	_, err := conn.Write([]byte(h.raw(chat, chat.body("", true))))
	ok(t, err)
	closed(t, "the stall", stalled)
	ctx, leave := context.WithTimeout(context.Background(), patience)
	defer leave()
	response, err := h.client.Do(h.request(ctx, http.MethodPost, messages.path, messages.body("", true), "Authorization", "Bearer "+h.key))
	ok(t, err)
	defer response.Body.Close()
	readEvents(t, response.Body, 3)
	ok(t, conn.Close())
}
