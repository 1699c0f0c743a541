package telemetry

import (
	"context"
	"log/slog"
	"time"

	"github.com/mnemeproxy/mneme/codec"
)

// ExchangeLine is the message of the one log line per exchange.
const ExchangeLine = "exchange"

// Line takes the attributes of a log line in order. Their keys need no escapes in JSON.
type Line interface {
	Text(key, value string)
	Int(key string, value int64)
	Bool(key string, value bool)
	// End writes the line. It reports false, and writes nothing, if the line has to be a record.
	End() (written bool)
}

// LineHandler is a handler that writes lines of exchanges without making records of them first: there is one line for
// each exchange.
type LineHandler interface {
	// Line begins a line; nil: it has to be a record.
	Line(at time.Time, level slog.Level) Line
}

// recordLine is a line that is a record.
type recordLine struct {
	slog.Record
	to slog.Handler
}

func (l *recordLine) Text(key, value string)      { l.AddAttrs(slog.String(key, value)) }
func (l *recordLine) Int(key string, value int64) { l.AddAttrs(slog.Int64(key, value)) }
func (l *recordLine) Bool(key string, value bool) { l.AddAttrs(slog.Bool(key, value)) }

func (l *recordLine) End() bool {
	_ = l.to.Handle(context.Background(), l.Record) // a failure cannot be reported
	return true
}

func (t *Telemetry) logExchange(r *Report, trace *Trace) {
	level := slog.LevelInfo
	if r.ID == "" {
		level = slog.LevelDebug
	}
	if !t.log.Enabled(context.Background(), level) {
		return
	}
	handler := t.log.Handler()
	if quick, ok := handler.(LineHandler); ok {
		if line := quick.Line(r.Ended, level); line != nil && describe(line, r, trace) {
			return
		}
	}
	record := slog.NewRecord(r.Ended, level, ExchangeLine, 0) // without its caller, which is always this one
	describe(&recordLine{record, handler}, r, trace)
}

// describe writes what an operator wants to see first about an exchange.
func describe(line Line, r *Report, trace *Trace) (written bool) {
	text := func(key, value string) { // omits empty values
		if value != "" {
			line.Text(key, value)
		}
	}
	text("exchange", r.ID)
	text("session", r.Session)
	text("account", r.Account)
	text("key", r.KeyID)
	text("surface", r.Surface.String())
	text("provider", r.Provider)
	if r.Format != codec.FormatUnknown {
		text("format", r.Format.String())
	}
	text("model", r.Model[:min(len(r.Model), maxName)])
	line.Bool("stream", r.Stream)
	line.Int("status", int64(r.Status))
	text("outcome", r.Outcome.String())
	if r.Error != nil {
		text("error", r.Error.Kind.String())
	}
	if r.Attempts > 0 {
		line.Int("attempts", int64(r.Attempts))
	}
	text("stand_in", r.StandIn)
	if !r.Usage.IsZero() {
		line.Int("input_tokens", r.Usage.TotalInput())
		line.Int("output_tokens", r.Usage.Output)
		if r.Usage.Estimated {
			line.Bool("tokens_estimated", true)
		}
	}
	if !r.FirstByte.IsZero() {
		line.Int("first_byte_ms", r.FirstByte.Sub(r.Started).Milliseconds())
	}
	line.Int("duration_ms", r.Ended.Sub(r.Started).Milliseconds())
	text("trace_id", trace.ID())
	return line.End()
}
