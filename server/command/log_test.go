package command

import (
	"bytes"
	standard "log"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

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
