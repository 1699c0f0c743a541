package memory

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/server/api"
	"github.com/mnemeproxy/mneme/store/record"
)

// An export is lines of JSON: first a header, then sessions and exchanges, each session before its exchanges. A session
// has its model-written summary if all of its exchanges follow. Nothing is lost: an import into an empty account
// exports the same lines. Exports may follow each other in one file, as one that was interrupted and its continuation do.
// Lines may get further members, which older readers ignore; any other change is another version.

const (
	exportObject  = "memory.export"
	exportVersion = 1
)

// exportHeader is the first line.
type exportHeader struct {
	Object  string `json:"object"`
	Version int    `json:"version"`
}

func (h *handler) export(c *call) (any, error) {
	selection := record.Selection{
		Sessions: c.query.list("session"), Exchanges: c.query.list("exchange"),
		ChatKey: c.query.text("chat_key"), ExternalSession: c.query.text("external_id"),
		Since: c.query.time("since"), Until: c.query.time("until"), After: c.query.text("after"),
		All: true, // if no filter is set
	}
	if err := c.query.end(); err != nil {
		return nil, err
	}
	if c.r.Method == http.MethodHead {
		c.w.Header().Set("Content-Type", ndjson)
		c.w.WriteHeader(http.StatusOK)
		return nil, nil
	}
	lines := NewExportWriter(c.w)
	begun := false
	begin := sync.OnceFunc(func() {
		begun = true
		c.w.Header().Set("Content-Type", ndjson)
		_ = lines.begin()
	})
	for step, err := range h.Archive.Export(c.ctx(), c.account, selection) {
		if err != nil && !begun {
			return nil, err
		}
		if err != nil {
			panic(http.ErrAbortHandler) // an export without its end must not look complete
		}
		begin()
		if err := lines.Write(&step); err != nil {
			return nil, nil // the caller has left
		}
	}
	begin()
	_ = lines.Flush()
	return nil, nil
}

// ExportWriter writes the lines of an export. After an error it writes nothing more.
type ExportWriter struct {
	out   *bufio.Writer
	lines *json.Encoder
	begun bool
}

// NewExportWriter returns a writer to w; the caller flushes it.
func NewExportWriter(w io.Writer) *ExportWriter {
	out := bufio.NewWriterSize(w, 64<<10)
	lines := json.NewEncoder(out)
	lines.SetEscapeHTML(false)
	return &ExportWriter{out: out, lines: lines}
}

func (w *ExportWriter) begin() error {
	if w.begun {
		return nil
	}
	w.begun = true
	return w.lines.Encode(exportHeader{exportObject, exportVersion})
}

// Write writes one step; a session has to come before its exchanges.
func (w *ExportWriter) Write(step *record.Exported) error {
	if err := w.begin(); err != nil {
		return err
	}
	return w.lines.Encode(exportLine(step))
}

// Flush writes what is buffered; for an empty export, its first line.
func (w *ExportWriter) Flush() error {
	if err := w.begin(); err != nil {
		return err
	}
	return w.out.Flush()
}

const ndjson = "application/x-ndjson"

// damagedObject is a line about an object that could not be exported.
const damagedObject = "memory.damaged"

func exportLine(step *record.Exported) any {
	if step.Damaged != nil {
		return struct {
			Object string `json:"object"`
			*record.Damaged
		}{damagedObject, step.Damaged}
	}
	if step.Session != nil {
		s := api.NewSession(step.Session)
		s.Summary = step.Summary
		return s
	}
	x := api.NewExchange(&step.Exchange.ExchangeInfo)
	x.SetRequest(step.Exchange.RawRequest)
	x.SetResponse(step.Exchange.RawResponse)
	return x
}

// maxLine is the default bound on a line of an import: a request and an answer of the largest size, in base64.
const maxLine = 1 << 30

func (h *handler) importAll(c *call) (any, error) {
	if err := c.query.end(); err != nil {
		return nil, err
	}
	_ = http.NewResponseController(c.w).SetReadDeadline(time.Time{}) // an import has no time limit, if the transport allows that
	done := api.Import{Object: "memory.import"}
	lines := bufio.NewScanner(c.r.Body)
	lines.Buffer(make([]byte, 0, 64<<10), h.LineBytes)
	number := 0
	for lines.Scan() {
		number++
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		if err := h.importLine(c, line, number == 1, &done); err != nil {
			return nil, atLine(number, err)
		}
		if h.Forget != nil {
			h.Forget(c.r)
		}
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, atLine(number+1, codec.Errorf(codec.KindTooLarge,
			"the line has more than the %d bytes that are taken in here: import the file on the server itself, with mneme import, or leave the line out", h.LineBytes))
	case err != nil:
		return nil, atLine(number+1, codec.Errorf(codec.KindInvalidRequest, "the export ends here before its time"))
	case number == 0:
		return nil, codec.Errorf(codec.KindInvalidRequest, "The body is empty; it should be what export.jsonl gave.")
	}
	c.records = done.Exchanges
	if age := h.Archive.RetentionOf(c.account).MaxAge; age > 0 && done.Exchanges > 0 {
		done.ErasedAfter = time.Now().Add(age).UTC().Truncate(time.Second)
	}
	return done, nil
}

// atLine adds the line at which an import stopped. Earlier lines are imported and will be skipped next time.
func atLine(number int, err error) error {
	known := new(codec.Error)
	if !errors.As(err, &known) {
		return err
	}
	told := *known
	told.Message = codec.Errorf(known.Kind, "line %d: %s; the lines before it were imported", number, known.Message).Message
	return &told
}

func (h *handler) importLine(c *call, line []byte, first bool, done *api.Import) error {
	var head exportHeader
	isHeader := json.Unmarshal(line, &head) == nil && head.Object == exportObject
	if first && !isHeader {
		return codec.Errorf(codec.KindInvalidRequest, "this is not an export of mneme")
	}
	if isHeader {
		if head.Version != exportVersion {
			return codec.Errorf(codec.KindInvalidRequest, "the export has version %d, this mneme reads version %d", head.Version, exportVersion)
		}
		return nil
	}
	if head.Object == damagedObject {
		return nil // nothing to import
	}
	step, count, err := readStep(head.Object, line, done)
	if err != nil {
		invalid := codec.Errorf(codec.KindInvalidRequest, "this is neither a session nor an exchange of an export")
		invalid.Cause = err
		return invalid
	}
	taken, err := h.Archive.Import(c.ctx(), c.account, step)
	if err != nil {
		return err
	}
	if !taken {
		count = &done.Skipped
	}
	*count++
	return nil
}

// readStep reads a line and returns the counter for its kind.
func readStep(object string, line []byte, done *api.Import) (step record.Exported, count *int64, err error) {
	switch object {
	case "memory.session":
		var s api.Session
		err := json.Unmarshal(line, &s)
		return record.Exported{Session: &s.Session, Summary: s.Summary}, &done.Sessions, err
	case "memory.exchange":
		var x api.Exchange
		if err := json.Unmarshal(line, &x); err != nil {
			return step, nil, err
		}
		request, err := x.Request()
		if err != nil {
			return step, nil, err
		}
		response, err := x.Response()
		exchange := record.Exchange{ExchangeInfo: x.ExchangeInfo, RawRequest: request, RawResponse: response}
		return record.Exported{Exchange: &exchange}, &done.Exchanges, err
	}
	return step, nil, io.ErrUnexpectedEOF
}
