package telemetry

import (
	"log/slog"

	"github.com/mnemeproxy/mneme/codec"
)

// ExchangeLine is the message of the one log line per exchange.
const ExchangeLine = "exchange"

// attributes are the attributes of a line, in order.
type attributes struct {
	all [mostAttributes]slog.Attr // no allocation
	n   int
}

// mostAttributes is how many [attributes.describe] adds at most.
const mostAttributes = 20

// describe returns what an operator wants to see first about an exchange.
func (a *attributes) describe(r *Report, trace *Trace) []slog.Attr {
	a.text("exchange", r.ID)
	a.text("session", r.Session)
	a.text("account", r.Account)
	a.text("key", r.KeyID)
	a.text("surface", r.Surface.String())
	a.text("provider", r.Provider)
	if r.Format != codec.FormatUnknown {
		a.text("format", r.Format.String())
	}
	a.text("model", r.Model[:min(len(r.Model), maxName)])
	a.add(slog.Bool("stream", r.Stream))
	a.add(slog.Int("status", r.Status))
	a.text("outcome", r.Outcome.String())
	if r.Error != nil {
		a.text("error", r.Error.Kind.String())
	}
	if r.Attempts > 0 {
		a.add(slog.Int("attempts", r.Attempts))
	}
	a.text("stand_in", r.StandIn)
	if !r.Usage.IsZero() {
		a.add(slog.Int64("input_tokens", r.Usage.TotalInput()))
		a.add(slog.Int64("output_tokens", r.Usage.Output))
		if r.Usage.Estimated {
			a.add(slog.Bool("tokens_estimated", true))
		}
	}
	if !r.FirstByte.IsZero() {
		a.add(slog.Int64("first_byte_ms", r.FirstByte.Sub(r.Started).Milliseconds()))
	}
	a.add(slog.Int64("duration_ms", r.Ended.Sub(r.Started).Milliseconds()))
	a.text("trace_id", trace.ID())
	return a.all[:a.n]
}

func (a *attributes) add(attr slog.Attr) {
	a.all[a.n] = attr
	a.n++
}

// text omits empty values.
func (a *attributes) text(key, value string) {
	if value != "" {
		a.add(slog.String(key, value))
	}
}
