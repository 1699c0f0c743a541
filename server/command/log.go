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

// Line begins the line of an exchange.
func (u urgent) Line(at time.Time, level slog.Level) telemetry.Line {
	if !u.bare || level >= slog.LevelWarn || at.Year() <= 0 {
		return nil
	}
	l := exchangeLines.Get().(*exchangeLine)
	l.to, l.plain = u.lines, true
	l.text = append(l.text[:0], `{"time":"`...)
	l.text = at.AppendFormat(l.text, time.RFC3339Nano)
	l.text = append(l.text, `","level":"`...)
	l.text = append(l.text, level.String()...)
	l.text = append(l.text, `","msg":"`+telemetry.ExchangeLine+`"`...)
	return l
}

// exchangeLine is the line that slog's JSON handler writes, made in less than half its time: there is one for
// each exchange.
type exchangeLine struct {
	to    *gatheredLines
	text  []byte
	plain bool // JSON writes all values so far as they are; others are rare in these lines
}

var exchangeLines = sync.Pool{New: func() any { return new(exchangeLine) }}

func (l *exchangeLine) key(key string) {
	l.text = append(l.text, ',', '"')
	l.text = append(l.text, key...)
	l.text = append(l.text, '"', ':')
}

func (l *exchangeLine) Text(key, value string) {
	l.key(key)
	var plain bool
	l.text, plain = appendPlain(l.text, value)
	l.plain = l.plain && plain
}

func (l *exchangeLine) Int(key string, value int64) {
	l.key(key)
	l.text = strconv.AppendInt(l.text, value, 10)
}

func (l *exchangeLine) Bool(key string, value bool) {
	l.key(key)
	l.text = strconv.AppendBool(l.text, value)
}

func (l *exchangeLine) End() (written bool) {
	if l.plain {
		_, _ = l.to.Write(append(l.text, '}', '\n'))
	}
	written = l.plain
	exchangeLines.Put(l)
	return written
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
