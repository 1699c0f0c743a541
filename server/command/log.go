package command

import (
	"bytes"
	"context"
	"io"
	standard "log"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/mnemeproxy/mneme/server/telemetry"
	"github.com/mnemeproxy/mneme/store/redact"
)

// newLog writes text lines to a terminal, and JSON anywhere else, where the lines of exchanges are batched. The caller
// flushes it in the end. Credentials are masked in every line.
func newLog(w io.Writer, redactor *redact.Redactor) (log *slog.Logger, flush func()) {
	masked := &maskedLines{to: w, redactor: redactor}
	if isTerminal(w) {
		return slog.New(slog.NewTextHandler(masked, nil)), func() {}
	}
	gathered := &gatheredLines{to: masked}
	return slog.New(urgent{slog.NewJSONHandler(gathered, nil), gathered, true}), gathered.flush
}

// maskedLines masks credentials in log lines. Errors of libraries quote what they could not read.
type maskedLines struct {
	to       io.Writer
	redactor *redact.Redactor
}

// Write writes one or several lines.
func (m *maskedLines) Write(lines []byte) (int, error) {
	out := lines
	if m.redactor.Holds(lines) {
		out = bytes.Clone(lines)
		m.redactor.Mask(out)
	}
	return m.to.Write(out)
}

// libraryLog logs what libraries write to Go's standard logger, without what they quote: net/http quotes bytes that a
// provider sends unasked, which may belong to anyone's answer.
type libraryLog struct{ log *slog.Logger }

// Write logs one line.
func (l libraryLog) Write(line []byte) (int, error) {
	text, _, _ := bytes.Cut(bytes.TrimSpace(line), []byte(` starting with "`))
	l.log.Warn(string(text))
	return len(line), nil
}

// takeStandardLog redirects Go's standard logger to log until giveBack is called.
func takeStandardLog(log *slog.Logger) (giveBack func()) {
	former, flags := standard.Writer(), standard.Flags()
	standard.SetOutput(libraryLog{log})
	standard.SetFlags(0)
	return func() {
		standard.SetOutput(former)
		standard.SetFlags(flags)
	}
}

// gatheredLines batches the lines of a tenth of a second: a write for each exchange would cost a system call and wake
// the log's reader. Writers wait for the reader only when the buffer is full.
type gatheredLines struct {
	to io.Writer

	mu      sync.Mutex
	pending []byte
	timer   *time.Timer // nil until the first line; runs while lines are pending
}

const (
	gatherLines = 100 * time.Millisecond
	roomOfLines = 64 << 10
)

// Write buffers one line.
func (g *gatheredLines) Write(line []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.take(append(g.pending, line...))
	return len(line), nil
}

// writeExchange buffers the line of an exchange, and reports whether it could, see appendLine.
func (g *gatheredLines) writeExchange(r *slog.Record) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	lines, ok := appendLine(g.pending, r)
	if ok {
		g.take(lines)
	}
	return ok
}

// take replaces the pending lines by the same with one more.
func (g *gatheredLines) take(lines []byte) {
	if len(g.pending) == 0 {
		g.start()
	}
	if g.pending = lines; len(lines) >= roomOfLines {
		g.write()
	}
}

func (g *gatheredLines) start() {
	if g.timer == nil {
		g.timer = time.AfterFunc(gatherLines, g.flush)
		return
	}
	g.timer.Reset(gatherLines)
}

func (g *gatheredLines) flush() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.write()
}

func (g *gatheredLines) write() {
	if len(g.pending) == 0 {
		return
	}
	g.timer.Stop()
	_, _ = g.to.Write(g.pending) // there is nowhere to report a failure
	g.pending = g.pending[:0]
}

// urgent writes warnings, errors and everything except the lines of exchanges at once, with all pending lines.
type urgent struct {
	slog.Handler
	lines *gatheredLines
	bare  bool // the handler adds nothing to a record
}

func (u urgent) Handle(ctx context.Context, r slog.Record) error {
	if u.bare && r.Level < slog.LevelWarn && r.Message == telemetry.ExchangeLine && u.lines.writeExchange(&r) {
		return nil
	}
	err := u.Handler.Handle(ctx, r)
	if r.Level >= slog.LevelWarn || r.Message != telemetry.ExchangeLine {
		u.lines.flush()
	}
	return err
}

func (u urgent) WithAttrs(attrs []slog.Attr) slog.Handler {
	return urgent{u.Handler.WithAttrs(attrs), u.lines, false}
}

func (u urgent) WithGroup(name string) slog.Handler {
	return urgent{u.Handler.WithGroup(name), u.lines, false}
}

// appendLine appends the line that slog's JSON handler writes for a record, in less than half its time: there is one for
// each exchange. It returns false for values that would need more than being copied, which are rare in these lines.
func appendLine(dst []byte, r *slog.Record) (line []byte, ok bool) {
	dst = append(dst, `{"time":"`...)
	dst = r.Time.AppendFormat(dst, time.RFC3339Nano)
	dst = append(dst, `","level":"`...)
	dst = append(dst, r.Level.String()...)
	dst = append(dst, `","msg":`...)
	dst, ok = appendPlain(dst, r.Message)
	r.Attrs(func(a slog.Attr) bool {
		if !ok {
			return false
		}
		dst = append(dst, ',')
		if dst, ok = appendPlain(dst, a.Key); !ok {
			return false
		}
		dst = append(dst, ':')
		switch a.Value.Kind() {
		case slog.KindString:
			dst, ok = appendPlain(dst, a.Value.String())
		case slog.KindInt64:
			dst = strconv.AppendInt(dst, a.Value.Int64(), 10)
		case slog.KindBool:
			dst = strconv.AppendBool(dst, a.Value.Bool())
		default:
			ok = false
		}
		return ok
	})
	return append(dst, '}', '\n'), ok && r.Time.Year() > 0
}

// appendPlain appends a string in quotes, and reports whether JSON writes it as it is.
func appendPlain(dst []byte, s string) ([]byte, bool) {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return dst, false
		}
	}
	dst = append(dst, '"')
	dst = append(dst, s...)
	return append(dst, '"'), true
}
