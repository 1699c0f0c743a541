package server_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/store/record"
)

// Requests of each surface to a model of Gemini.
func toGemini(s surface, stream bool) string {
	return strings.Replace(s.body("", stream), s.model, "gemini-3.8-flash", 1)
}

const geminiText = `data: {"candidates":[{"content":{"role":"model","parts":[{"text":"Half"}]},"index":0}],"modelVersion":"gemini-3.8-flash","responseId":"g1"}` + "\n\n"

// A provider out of capacity may end its stream with a bare error. Clients wait and try again only if it keeps its class.
func TestAnErrorAfterTheLastEventKeepsItsClass(t *testing.T) {
	up := newUpstream(t, func(c *upstreamCall) {
		c.stream(geminiText + `{"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}`)
	})
	h := build(t, func(p *plan) { up.servesAs(p, "gemini") })
	for _, s := range []surface{chat, responses, messages} {
		a := h.post(s.path, toGemini(s, true))
		want := map[string]string{"chat": `"code":"server_is_overloaded"`, "responses": `"code":"server_is_overloaded"`, "messages": `"type":"overloaded_error"`}[s.name]
		if last := lastEvent(a.body); !strings.Contains(last, want) || !strings.Contains(last, "The model is overloaded.") {
			t.Errorf("%s: there is no %s in\n%s", s.name, want, last)
		}
		endsWithError(t, s, "an error without a frame", a)
		if x := h.settled(a.exchange()); x.Outcome != record.OutcomeUpstreamError || x.Error == nil || x.Error.Kind != "overloaded" {
			t.Errorf("%s: on record as %s, %+v", s.name, x.Outcome, x.Error)
		}
	}
}

// What became of a picture is named in the header where that is still to be sent, and on record always.
func TestAPictureInAnAnswerIsNamed(t *testing.T) {
	const drawn = `{"candidates":[{"content":{"role":"model","parts":[{"inlineData":{"mimeType":"image/png","data":"iVBORw0KGgo="}}]},"finishReason":"STOP","index":0}],"modelVersion":"gemini-3.8-flash","responseId":"g1"}`
	up := newUpstream(t, func(c *upstreamCall) {
		switch {
		case strings.Contains(c.request.URL.Path, "streamGenerate"):
			c.stream("data: " + drawn + "\n\n")
		default:
			c.write("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n" + drawn)
		}
	})
	h := build(t, func(p *plan) { up.servesAs(p, "gemini") })
	for _, s := range []surface{chat, responses, messages} {
		for _, stream := range []bool{false, true} {
			a := h.post(s.path, toGemini(s, stream))
			note := map[string]string{"chat": "emulated", "responses": "emulated", "messages": "dropped"}[s.name]
			if got := a.header.Get("X-Service-Translation"); a.status != 200 || !strings.Contains(got, note+"=answer.image") {
				t.Errorf("%s, streamed %v: %d, X-Service-Translation is %q", s.name, stream, a.status, got)
			}
			if x := h.settled(a.exchange()); !slices.Contains(x.Translation, note+":answer.image") {
				t.Errorf("%s, streamed %v: on record is %v", s.name, stream, x.Translation)
			}
		}
	}
}
