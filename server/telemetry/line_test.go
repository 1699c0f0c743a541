package telemetry

import (
	"bytes"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store"
)

var timeOfLine = regexp.MustCompile(`^\{"time":"([^"]+)"`)

// timeless takes the time out of a line, which is checked to be one.
func timeless(t *rapid.T, line string) string {
	found := timeOfLine.FindStringSubmatch(line)
	if found == nil {
		t.Fatalf("%q has no time", line)
	}
	if _, err := time.Parse(time.RFC3339Nano, found[1]); err != nil {
		t.Fatal(err)
	}
	return strings.Replace(line, found[1], "", 1)
}

// A reader of the log cannot tell which lines went through slog.
func TestLinesAreThoseThatSlogWrites(t *testing.T) {
	var handled, direct bytes.Buffer
	through := New(Options{Log: slog.New(slog.NewJSONHandler(&handled, nil))})
	past := New(Options{Log: slog.New(slog.NewJSONHandler(&direct, nil)), Lines: &direct})
	outcomes := []store.Outcome{store.OutcomeComplete, store.OutcomeUpstreamError, store.OutcomeClientClosed, store.OutcomeRefused}
	formats := []codec.Format{codec.FormatUnknown, codec.Chat, codec.Responses, codec.Messages, codec.Gemini, codec.Embeddings}
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.Just(""), rapid.StringMatching(`[!-~]{1,200}`), rapid.String(), rapid.Just("\xff\b\u2028<&>"))
		now := time.Now()
		r := &Report{
			ID: text.Draw(t, "id"), Session: text.Draw(t, "session"), Account: text.Draw(t, "account"), KeyID: text.Draw(t, "key"),
			Surface: rapid.SampledFrom(formats).Draw(t, "surface"), Format: rapid.SampledFrom(formats).Draw(t, "format"),
			Provider: text.Draw(t, "provider"), Model: text.Draw(t, "model"), StandIn: text.Draw(t, "stand-in"),
			Stream: rapid.Bool().Draw(t, "stream"), Status: rapid.Int().Draw(t, "status"),
			Outcome: rapid.SampledFrom(outcomes).Draw(t, "outcome"), Attempts: rapid.IntRange(0, 3).Draw(t, "attempts"),
			Usage:   codec.Usage{InputUncached: rapid.Int64Range(0, 1<<40).Draw(t, "input"), Output: rapid.Int64().Draw(t, "output")},
			Started: now, Ended: now.Add(time.Duration(rapid.Int64().Draw(t, "duration"))),
		}
		if rapid.Bool().Draw(t, "failed") {
			r.Error = codec.Errorf(codec.KindTimeout, "late")
		}
		if rapid.Bool().Draw(t, "answered") {
			r.FirstByte = now.Add(time.Second)
		}
		handled.Reset()
		direct.Reset()
		through.logExchange(r, nil)
		past.logExchange(r, nil)
		if r.ID == "" {
			if direct.Len() > 0 {
				t.Fatalf("%s: a request that is not on record is for debugging only", direct.String())
			}
			return
		}
		if got, want := timeless(t, direct.String()), timeless(t, handled.String()); got != want {
			t.Fatalf("the line is\n%s, slog writes\n%s", got, want)
		}
	})
}
