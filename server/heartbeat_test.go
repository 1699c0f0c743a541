package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/codec/crossing"
	"github.com/mnemeproxy/mneme/store/record"
)

// sign is a sign of life as the surface's clients read it before the first event.
func (s surface) sign() string { return string(crossing.AppendHeartbeat(nil, s.format, 0)) }

var numberedSign = regexp.MustCompile(`event: keepalive\ndata: {"type":"keepalive","sequence_number":\d+}\n\n`)

// withoutSigns is a stream without its signs of life.
func (s surface) withoutSigns(stream string) string {
	return strings.ReplaceAll(numberedSign.ReplaceAllString(stream, ""), s.sign(), "")
}

func TestHeartbeatsAreSentOnASilentStream(t *testing.T) {
	onEveryTransport(t, heartbeatsAreSentOnASilentStream)
}

func heartbeatsAreSentOnASilentStream(t *testing.T, on transportPlan) {
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
				ctx, leave := context.WithTimeout(context.Background(), timeout)
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
				if rest := strings.ReplaceAll(received, s.sign(), ""); rest != strings.ReplaceAll(test.arrives, s.sign(), "") {
					t.Errorf("%s: beside the signs came %q", s.name, rest)
				}
				x := h.settled(response.Header.Get("X-Service-Exchange-ID"))
				if x.Outcome != record.OutcomeClientClosed || string(x.RawResponse) != test.arrives {
					t.Errorf("%s: on record as %v with %q", s.name, x.Outcome, x.RawResponse)
				}
			}
		})
	}
}

// Signs of life come between events; without them the answer is the provider's own.
func TestHeartbeatsDisturbNothing(t *testing.T) { onEveryTransport(t, heartbeatsDisturbNothing) }

func heartbeatsDisturbNothing(t *testing.T, on transportPlan) {
	h := build(t, on, func(p *plan) { p.server.Heartbeat = 4 * time.Millisecond })
	for _, s := range generating {
		body := s.body(`events 10; delay 12ms; burst 1`, true)
		a, want := h.post(s.path, body), h.direct(s, body)
		if got := s.withoutSigns(a.body); got != s.withoutSigns(want.body) || a.cut != nil {
			t.Errorf("%s: %v\n%q\nwant\n%q", s.name, a.cut, got, want.body)
		}
		if x := h.record(a.exchange()); string(x.RawResponse) != want.body {
			t.Errorf("%s: on record is %q", s.name, x.RawResponse)
		}
	}
}

// A client that does not read must not keep the others from their signs of life.
func TestAStalledClientDelaysNoOtherHeartbeats(t *testing.T) {
	onEveryTransport(t, aStalledClientDelaysNoOtherHeartbeats)
}

func aStalledClientDelaysNoOtherHeartbeats(t *testing.T, on transportPlan) {
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
	ctx, leave := context.WithTimeout(context.Background(), timeout)
	defer leave()
	response, err := h.client.Do(h.request(ctx, http.MethodPost, messages.path, messages.body("", true), "Authorization", "Bearer "+h.key))
	ok(t, err)
	defer response.Body.Close()
	readEvents(t, response.Body, 3)
	ok(t, conn.Close())
}

// Clients count the events of a Responses stream, and some resume after the newest. A sign of life has the number of the
// event before it, no matter who numbers the events; the failure that ends a broken stream goes on after the last, as a part of the
// response that the provider began.
func TestHeartbeatsAndFailuresContinueTheNumbering(t *testing.T) {
	for _, test := range []struct {
		name, model, request string
		begins, goesOn       []string
		response             map[string]string // members of the response that fails
	}{
		{
			"the provider numbers", responses.model, `"metadata":{"job":"7"}`,
			append([]string{
				`{"type":"response.created","response":{"id":"resp_provider1","object":"response","created_at":1795168001,"status":"in_progress","model":"gpt-5.5-2026-10-01","store":false,"output":[]},"sequence_number":0}`,
				`{"type":"response.in_progress","sequence_number":1,"response":{"id":"resp_provider1","output":[{"sequence_number":99}]}}`,
			}, numberedDeltas(2, 20)...),
			numberedDeltas(20, 30),
			map[string]string{"id": "resp_provider1", "created_at": "1.795168001e+09", "model": "gpt-5.5-2026-10-01", "store": "false", "status": "failed", "metadata": "map[job:7]"},
		},
		{
			"the provider does not say whether it keeps the response", responses.model, `"store":false`,
			append([]string{`{"type":"response.created","sequence_number":0,"response":{"id":"0c8f","created_at":1795168001,"model":"gpt-5.5"}}`}, numberedDeltas(1, 3)...),
			numberedDeltas(3, 4),
			map[string]string{"id": "0c8f", "store": "false"},
		},
		{
			"we number", messages.model, `"store":false`,
			[]string{
				`{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude-opus-4-8","content":[],"usage":{"input_tokens":1,"output_tokens":1}}}`,
				`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
				`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}`,
			},
			[]string{`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"b"}}`},
			map[string]string{"store": "false", "status": "failed"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			signs := make(chan struct{}, 100)
			up := newUpstream(t, func(c *upstreamCall) {
				await := func() {
					for range 2 {
						select {
						case <-signs:
						case <-c.gone:
						}
					}
				}
				c.chunked()
				c.chunk(framed(test.begins))
				await()
				c.chunk(framed(test.goesOn))
				await()
			})
			h := build(t, up.serves, func(p *plan) { p.server.Heartbeat = 20 * time.Millisecond })
			ctx, leave := context.WithTimeout(context.Background(), timeout)
			defer leave()
			body := strings.Replace(with(responses.body("", true), test.request), responses.model, test.model, 1)
			response, err := h.client.Do(h.request(ctx, http.MethodPost, responses.path, body, "Authorization", "Bearer "+h.key))
			ok(t, err)
			defer response.Body.Close()
			before, begun, last, in := -1, "", "", bufio.NewScanner(response.Body)
			for in.Scan() {
				data, isData := strings.CutPrefix(in.Text(), "data: ")
				if !isData {
					continue
				}
				var event struct {
					Type     string
					Number   *int `json:"sequence_number"`
					Response struct{ ID string }
				}
				ok(t, json.Unmarshal([]byte(data), &event))
				want := before + 1
				if event.Type == "keepalive" {
					want = max(before, 0)
				}
				if event.Number == nil || *event.Number != want {
					t.Errorf("%s after number %d: %s", event.Type, before, data)
				}
				switch event.Type {
				case "keepalive":
					if before >= 0 {
						signs <- struct{}{}
					}
					continue
				case "response.created":
					begun = event.Response.ID
				}
				before, last = want, data
			}
			if id := member(last, "response", "id"); id == "" || id != begun || member(last, "type") != "response.failed" {
				t.Errorf("the response %s ends with %s", begun, last)
			}
			for name, want := range test.response {
				if got := member(last, "response", name); got != want {
					t.Errorf("%s is %s, want %s in %s", name, got, want, last)
				}
			}
		})
	}
}

// numberedDeltas are the events of a text with these numbers.
func numberedDeltas(from, to int) (events []string) {
	for n := from; n < to; n++ {
		events = append(events, fmt.Sprintf(`{"type":"response.output_text.delta","sequence_number":%d,"item_id":"msg_1","output_index":0,"content_index":0,"delta":"word"}`, n))
	}
	return events
}

// framed are events as a stream has them, by the names of their types.
func framed(events []string) (stream string) {
	for _, data := range events {
		stream += "event: " + member(data, "type") + "\ndata: " + data + "\n\n"
	}
	return stream
}
