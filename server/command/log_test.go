package command

import (
	"bytes"
	"io"
	standard "log"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/server/telemetry"
	"github.com/mnemeproxy/mneme/store/redact"
)

// guarded is read by one goroutine while others write.
type guarded struct {
	mu   sync.Mutex
	text strings.Builder
}

func (g *guarded) Write(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.text.Write(p)
}

func (g *guarded) String() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.text.String()
}

func TestLinesOfTheLogLeaveTogetherAndSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out guarded
		log, flush := newLog(&out, nil)
		expect := func(when string, lines int) {
			t.Helper()
			synctest.Wait()
			if n := strings.Count(out.String(), "\n"); n != lines {
				t.Errorf("%s: %d lines are out, not %d", when, n, lines)
			}
		}
		exchange := func(id string) { log.Info(telemetry.ExchangeLine, "exchange", id) }
		exchange("one")
		time.Sleep(gatherLines / 2)
		exchange("two")
		expect("while they gather", 0)
		time.Sleep(gatherLines / 2)
		expect("a tenth of a second after the first", 2)
		exchange("three")
		log.WithGroup("g").Warn("four")
		expect("after a warning", 4)
		log.With("a", "b").Info("what is no exchange")
		expect("after a line of another kind", 5)
		exchange(strings.Repeat("x", roomOfLines))
		expect("when there is no room", 6)
		exchange("seven")
		flush()
		expect("at the end", 7)
		time.Sleep(time.Hour)
		expect("later", 7)
	})
}

// The line of an exchange is the one that slog writes, whatever it holds.
func TestTheLineOfAnExchangeIsThatOfSlog(t *testing.T) {
	began := time.Date(2026, 11, 26, 12, 0, 0, 120_000_000, time.FixedZone("", 3600))
	for name, r := range map[string]*telemetry.Report{
		"usual":         {Model: "gpt-5.5", Status: 200, Usage: codec.Usage{InputUncached: 3, Output: 12, Estimated: true}, FirstByte: began.Add(time.Second)},
		"nothing":       {},
		"failed":        {Stream: true, Attempts: 2, StandIn: "other", Error: &codec.Error{Kind: codec.KindUpstream}},
		"quotes":        {Model: `a "b" \c`},
		"other letters": {Model: "modèle\u2028\x00\xff\n"},
		"HTML":          {Model: "<b>&</b>"},
	} {
		t.Run(name, func(t *testing.T) {
			r.ID, r.Started, r.Ended = "exch_1", began, began.Add(2*time.Second)
			var want bytes.Buffer
			var got guarded
			log, flush := newLog(&got, nil)
			for _, log := range []*slog.Logger{slog.New(slog.NewJSONHandler(&want, nil)), log, log.With("more", "x")} {
				telemetry.New(telemetry.Options{Log: log}).Report(r, nil)
			}
			flush()
			lines := strings.SplitAfter(got.String(), "\n")
			if lines[0] != want.String() || len(lines) != 3 || !strings.Contains(lines[1], `"more":"x"`) {
				t.Errorf("the log says %q, slog %q", lines, want.String())
			}
		})
	}
}

func BenchmarkLineOfAnExchange(b *testing.B) {
	for name, model := range map[string]string{"plain": "gpt-5.5", "escaped": "modèle"} {
		b.Run(name, func(b *testing.B) {
			log, _ := newLog(io.Discard, nil)
			lines, r := telemetry.New(telemetry.Options{Log: log}), &telemetry.Report{
				ID: "exch_06h0example", Account: "default", KeyID: "key_06h0example", Surface: codec.Chat, Provider: "openai", Format: codec.Chat,
				Model: model, Status: 200, Usage: codec.Usage{InputUncached: 10, Output: 4}, Started: time.Now(), FirstByte: time.Now(), Ended: time.Now(),
			}
			b.ReportAllocs()
			for b.Loop() {
				lines.Report(r, nil)
			}
		})
	}
}

// Errors of libraries quote what they could not read, and models have any name.
func TestNoLineOfTheLogShowsACredential(t *testing.T) {
	redactor, err := redact.New(redact.Options{Builtin: true})
	if err != nil {
		t.Fatal(err)
	}
	const configured, shaped = "PROVKEY-corp-credential-778899", "sk-" + "proj-" + "Zx81Qw72Er63Ty54Ui45Op36As27Df18"
	redactor.Guard(configured)
	var out guarded
	log, flush := newLog(&out, redactor)
	log.Error("failed", "cause", `malformed HTTP response "`+configured+`"`)
	log.Info(telemetry.ExchangeLine, "model", "gpt-5-"+shaped)
	flush()
	if text := out.String(); strings.Contains(text, configured) || strings.Contains(text, shaped) || strings.Count(text, "\n") != 2 || !strings.Contains(text, "malformed HTTP") {
		t.Errorf("the log says %s", text)
	}
}

// What net/http tells of bytes that came unasked is in the log, the bytes are not.
func TestLibrariesQuoteNothingInTheLog(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	giveBack := takeStandardLog(log)
	standard.Printf("Unsolicited response received on idle HTTP channel starting with %q; err=%v", "HTTP/1.1 200 OK of somebody", nil)
	giveBack()
	if got := out.String(); !strings.Contains(got, "Unsolicited response received on idle HTTP channel") || strings.Contains(got, "somebody") {
		t.Errorf("the log says %s", got)
	}
}
