package provider

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// itemStatus is the status member of an item.
type itemStatus string

const (
	itemInProgress itemStatus = "in_progress"
	itemCompleted  itemStatus = "completed"
	itemIncomplete itemStatus = "incomplete"
)

// A responsesWriter renders the objects of one response.
type responsesWriter struct {
	a         *answer
	p         *prompt
	encrypted bool // reasoning items carry their encrypted content
	tools     []byte
}

func newResponsesWriter(a *answer, p *prompt) *responsesWriter {
	w := &responsesWriter{a: a, p: p}
	w.tools = wholeTools(p.members.list("tools"))
	for _, value := range p.members.list("include") {
		if s, _ := parseString(value); s == "reasoning.encrypted_content" {
			w.encrypted = !a.omit["signature"]
		}
	}
	return w
}

func (f responsesFormat) complete(dst []byte, a *answer, p *prompt) []byte {
	f.remember(a, p)
	w := newResponsesWriter(a, p)
	return w.response(dst, w.status(), true)
}

// status of the response when it ends.
func (w *responsesWriter) status() string {
	switch {
	case w.a.blocked || w.a.stop == stopFilter || w.a.stop == stopLength || w.a.stop == stopContext:
		return "incomplete"
	case w.a.stop == stopMalformed:
		return "failed"
	}
	return "completed"
}

// response appends the response object. The members that a request sets come back as they were sent.
func (w *responsesWriter) response(dst []byte, status string, ended bool) []byte {
	m := w.p.members
	dst = append(dst, `{"id":"resp_`...)
	dst = append(dst, w.a.id...)
	dst = append(dst, `","object":"response","created_at":`...)
	dst = strconv.AppendInt(dst, w.a.created, 10)
	dst = append(dst, `,"completed_at":`...)
	if status == "completed" {
		dst = strconv.AppendInt(dst, w.a.created+1, 10)
	} else {
		dst = append(dst, "null"...)
	}
	dst = append(dst, `,"status":"`+status+`","background":false,"error":`...)
	if status == "failed" {
		dst = append(dst, w.failure()...)
	} else {
		dst = append(dst, "null"...)
	}
	dst = append(dst, `,"incomplete_details":`...)
	if status == "incomplete" {
		reason := "max_output_tokens"
		if w.a.blocked || w.a.stop == stopFilter {
			reason = "content_filter"
		}
		dst = append(dst, `{"reason":"`+reason+`"}`...)
	} else {
		dst = append(dst, "null"...)
	}
	dst = append(dst, `,"instructions":`+m.or("instructions", "null")...)
	dst = append(dst, `,"max_output_tokens":`+m.or("max_output_tokens", "null")...)
	dst = append(dst, `,"max_tool_calls":`+m.or("max_tool_calls", "null")...)
	dst = append(dst, `,"model":`...)
	dst = appendString(dst, w.a.model)
	dst = append(dst, `,"access_programs":null,"output":[`...)
	if ended {
		for i := range w.a.parts {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = w.item(dst, &w.a.parts[i], itemCompleted)
		}
	}
	dst = append(dst, `],"parallel_tool_calls":`+m.or("parallel_tool_calls", "true")...)
	dst = append(dst, `,"previous_response_id":`+m.or("previous_response_id", "null")...)
	dst = append(dst, `,"prompt_cache_key":`+m.or("prompt_cache_key", "null")...)
	dst = append(dst, `,"reasoning":`+whole(m.or("reasoning", "{}"), "effort", "null", "summary", "null")...)
	dst = append(dst, `,"safety_identifier":`+m.or("safety_identifier", "null")...)
	dst = append(dst, `,"service_tier":"default","store":`+m.or("store", "true")...)
	dst = append(dst, `,"temperature":`+m.or("temperature", "1.0")...)
	dst = append(dst, `,"text":`+whole(m.or("text", "{}"), "format", `{"type":"text"}`, "verbosity", `"medium"`)...)
	dst = append(dst, `,"tool_choice":`+m.or("tool_choice", `"auto"`)...)
	dst = append(dst, `,"presence_penalty":0,"frequency_penalty":0,"tools":`...)
	dst = append(dst, w.tools...)
	dst = append(dst, `,"top_logprobs":0,"top_p":`+m.or("top_p", "1.0")...)
	dst = append(dst, `,"truncation":"disabled","usage":`...)
	if ended && !w.a.omit["usage"] && status != "failed" {
		dst = w.usage(dst)
	} else {
		dst = append(dst, "null"...)
	}
	dst = append(dst, `,"user":null,"metadata":`+m.or("metadata", "{}")...)
	if w.a.unknown {
		dst = append(dst, `,"novelty":{"from":"simulated provider"}`...)
	}
	return append(dst, '}')
}

// wholeTools are the tools of a request with the members that every function has in an answer.
func wholeTools(tools []raw) []byte {
	dst := []byte{'['}
	for i, tool := range tools {
		if i > 0 {
			dst = append(dst, ',')
		}
		text := oneLine(aliasString(tool))
		if o, _ := parseObject(tool); o.text("type") == "function" {
			text = whole(text, "description", "null", "parameters", "null", "strict", "true")
		}
		dst = append(dst, text...)
	}
	return append(dst, ']')
}

// whole is an object with the members that it lacks: names and values in turn.
func whole(value string, members ...string) string {
	o, is := parseObject([]byte(value))
	if !is {
		return value
	}
	for i := 0; i < len(members); i += 2 {
		if _, has := o[members[i]]; has {
			continue
		}
		separator := ","
		if len(o) == 0 && i == 0 {
			separator = ""
		}
		value = value[:strings.LastIndexByte(value, '}')] + separator + `"` + members[i] + `":` + members[i+1] + "}"
	}
	return value
}

// failure is the error of a failed response.
func (w *responsesWriter) failure() []byte {
	f := w.a.insideFault
	if f == nil {
		f = &fault{class: classServer, message: "The model produced a call that cannot be read."}
	}
	code := f.code
	if code == "" {
		code = classRows[f.class].openaiCode
	}
	if code == "" {
		code = "invalid_prompt"
	}
	return []byte(`{"code":` + quote(code) + `,"message":` + quote(f.text()) + `}`)
}

func (w *responsesWriter) usage(dst []byte) []byte {
	u := w.a.usage
	dst = append(dst, `{"input_tokens":`...)
	dst = strconv.AppendInt(dst, int64(u.input), 10)
	dst = append(dst, `,"input_tokens_details":{"cached_tokens":`...)
	dst = strconv.AppendInt(dst, int64(u.cached), 10)
	dst = append(dst, `,"cache_write_tokens":`...)
	dst = strconv.AppendInt(dst, int64(u.written), 10)
	dst = append(dst, `},"output_tokens":`...)
	dst = strconv.AppendInt(dst, int64(u.output), 10)
	dst = append(dst, `,"output_tokens_details":{"reasoning_tokens":`...)
	dst = strconv.AppendInt(dst, int64(u.reasoning), 10)
	dst = append(dst, `},"total_tokens":`...)
	dst = strconv.AppendInt(dst, int64(u.input+u.output), 10)
	return append(dst, '}')
}

// prefixes of item ids; they say what kind of item it is.
var prefixes = map[partKind]string{
	partText: "msg_", partRefusal: "msg_", partReasoning: "rs_", partRedacted: "rs_",
	partCall: "fc_", partCustom: "ctc_", partSearch: "ws_", partCompaction: "cmp_",
}

// itemID names an item by its answer and its place there. An item that follows reasoning also names the place of
// that reasoning, so that the request checker can tell when the two were torn apart.
func (w *responsesWriter) itemID(pt *part) string {
	id := fmt.Sprintf("%s%s%03d", prefixes[pt.kind], w.a.id, pt.ordinal)
	if pt.isReasoning() {
		return id
	}
	for i := pt.ordinal - 1; i >= 0; i-- {
		if w.a.parts[i].isReasoning() {
			return fmt.Sprintf("%s%03d", id, i)
		}
	}
	return id
}

// parseItemID returns the stem of the answer that an item id belongs to, and the id of the reasoning before the item;
// both are "" where there is none.
func parseItemID(id string) (stem, reasoning string) {
	_, rest, ok := strings.Cut(id, "_")
	if !ok || len(rest) < 27 {
		return "", ""
	}
	stem = rest[:24]
	if len(rest) == 30 {
		reasoning = "rs_" + stem + rest[27:]
	}
	return stem, reasoning
}

// item appends an output item; in progress it is still empty.
func (w *responsesWriter) item(dst []byte, pt *part, status itemStatus) []byte {
	started := status == itemInProgress
	if pt.open && !started {
		status = itemIncomplete
	}
	if !started && w.a.stop == stopLength && pt.ordinal == len(w.a.parts)-1 {
		status = itemIncomplete
	}
	dst = append(dst, `{"id":"`+w.itemID(pt)+`"`...)
	switch pt.kind {
	case partReasoning, partRedacted:
		return w.reasoningItem(dst, pt, started)
	case partCall, partCustom:
		return w.callItem(dst, pt, status)
	case partCompaction:
		return append(dst, `,"type":"compaction","encrypted_content":"gAAAA-`+w.a.id+`"}`...)
	case partSearch:
		dst = append(dst, `,"type":"web_search_call","status":"`+string(status)+`","action":{"type":"search"`...)
		if !started {
			dst = append(dst, `,"query":`+quote(pt.text)+`,"queries":[`+quote(pt.text)+`],"sources":[{"type":"url","url":`+quote(pt.url)+`}]`...)
		}
		return append(dst, `}}`...)
	}
	dst = append(dst, `,"type":"message","status":"`+string(status)+`","role":"assistant","content":[`...)
	if !started {
		dst = w.contentPart(dst, pt, true)
	}
	return append(dst, `]}`...)
}

func (w *responsesWriter) reasoningItem(dst []byte, pt *part, started bool) []byte {
	dst = append(dst, `,"type":"reasoning","summary":[`...)
	if !started && pt.kind == partReasoning {
		dst = w.contentPart(dst, pt, true)
	}
	dst = append(dst, ']')
	if w.encrypted {
		dst = append(dst, `,"encrypted_content":"`...)
		if !started {
			dst = append(dst, opaque(stateEncrypted, w.a.id, pt.ordinal)...)
		}
		dst = append(dst, '"')
	}
	return append(dst, '}')
}

func (w *responsesWriter) callItem(dst []byte, pt *part, status itemStatus) []byte {
	kind, member, text := "function_call", "arguments", callText(pt)
	if pt.kind == partCustom {
		kind, member = "custom_tool_call", "input"
	}
	if status == itemInProgress {
		text = ""
	}
	dst = append(dst, `,"type":"`+kind+`","status":"`+string(status)+`","call_id":"call_`+pt.callID+`","name":`...)
	dst = appendString(dst, pt.name)
	if pt.namespace != "" {
		dst = append(dst, `,"namespace":`...)
		dst = appendString(dst, pt.namespace)
	}
	dst = append(dst, `,"`+member+`":"`...)
	dst = append(dst, text...)
	return append(dst, `"}`...)
}

// contentPart appends the one part of a message or the one summary of a reasoning item.
func (w *responsesWriter) contentPart(dst []byte, pt *part, filled bool) []byte {
	text := ""
	if filled {
		text = pt.escaped
	}
	switch pt.kind {
	case partReasoning:
		dst = append(dst, `{"type":"summary_text","text":"`...)
		dst = append(dst, text...)
		return append(dst, `"}`...)
	case partRefusal:
		dst = append(dst, `{"type":"refusal","refusal":"`...)
		dst = append(dst, text...)
		return append(dst, `"}`...)
	}
	dst = append(dst, `{"type":"output_text","text":"`...)
	dst = append(dst, text...)
	dst = append(dst, `","annotations":[`...)
	if filled {
		for i, c := range pt.citations {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = w.annotation(dst, pt, c)
		}
	}
	return append(dst, `],"logprobs":[]}`...)
}

func (w *responsesWriter) annotation(dst []byte, pt *part, c citation) []byte {
	dst = append(dst, `{"type":"url_citation",`...)
	citation := appendRange(nil, c, 0, len([]rune(pt.text)))
	return append(dst, citation[1:]...)
}

// compact answers with the user's messages and a compaction that nothing can be read from.
func (s *Server) compact(c *call) error {
	if err := c.read(openaiErrors{}); err != nil {
		return err
	}
	body := fmt.Appendf(nil, `{"id":"resp_%s","object":"response.compaction","created_at":%d,"output":[`, c.id, s.options.Clock().Unix())
	for i, value := range c.object.list("input") {
		if item, _ := parseObject(value); item.text("role") == "user" {
			text, _ := parseString(item["content"])
			for _, part := range item.list("content") {
				o, _ := parseObject(part)
				text += o.text("text")
			}
			body = fmt.Appendf(body, `{"id":"msg_%s%02d","type":"message","role":"user","status":"completed","content":[{"type":"input_text","text":%q}]},`, c.id, i, text)
		}
	}
	body = fmt.Appendf(body, `{"id":"cmp_%s","type":"compaction","encrypted_content":"gAAAA-%s"}],`, c.id, c.id)
	body = append(body, `"usage":{"input_tokens":9,"input_tokens_details":{"cached_tokens":0,"cache_write_tokens":0},"output_tokens":1,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":10}}`...)
	return deliver(c.w, &delivery{}, http.StatusOK, body)
}

// countInputTokens answers input_tokens with a quarter of the body's size.
func (s *Server) countInputTokens(c *call) error {
	if err := c.read(openaiErrors{}); err != nil {
		return err
	}
	body := append([]byte(`{"object":"response.input_tokens","input_tokens":`), strconv.Itoa(len(c.body)/4+1)...)
	return deliver(c.w, &delivery{}, http.StatusOK, append(body, '}'))
}
