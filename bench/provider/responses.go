package provider

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// responsesFormat is Responses.
type responsesFormat struct {
	openaiErrors
	stored *storedAnswers
}

// storedAnswers is what previous_response_id refers to: enough of an answer to go on with its script.
type storedAnswers struct {
	mu    sync.Mutex
	byID  map[string]storedAnswer
	order []string
}

type storedAnswer struct {
	script string   // the marker, "" for none
	step   int      // of the script
	calls  []string // call ids that wait for their outputs
}

// Bounds of the stored answers.
const (
	maxStored       = 1024
	maxStoredScript = 16 << 10
)

func newStoredAnswers() *storedAnswers {
	return &storedAnswers{byID: make(map[string]storedAnswer)}
}

func (s *storedAnswers) get(id string) (storedAnswer, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept, ok := s.byID[id]
	return kept, ok
}

func (s *storedAnswers) put(id string, kept storedAnswer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, again := s.byID[id]; !again {
		if len(s.order) == maxStored {
			delete(s.byID, s.order[0])
			s.order = s.order[1:]
		}
		s.order = append(s.order, id)
	}
	s.byID[id] = kept
}

func (f responsesFormat) read(c *call, strict bool) (*prompt, *fault) {
	p := &prompt{members: c.object, stream: c.object.flag("stream")}
	p.model, p.marker = cutMarker(c.object.text("model"))
	var previous storedAnswer
	previousID := c.object.text("previous_response_id")
	if previousID != "" {
		var known bool
		if previous, known = f.stored.get(previousID); !known {
			f := refuse("previous_response_id", "Previous response with id '%s' not found.", previousID).coded("previous_response_not_found")
			f.status = 404
			return nil, f
		}
	}
	items := c.object.list("input")
	if strict {
		if refusal := checkResponses(c.object, p.model, items, previous.calls, f.stored); refusal != nil {
			return nil, refusal
		}
	}
	p.tools = responsesTools(nil, c.object.list("tools"), "")
	for _, value := range items {
		if item, _ := parseObject(value); item.text("type") == "additional_tools" {
			p.tools = responsesTools(p.tools, item.list("tools"), "")
		}
	}
	if format := c.object.object("text").object("format"); format.text("type") == "json_schema" {
		p.schema = format["schema"]
	} else if format.text("type") == "json_object" {
		p.schema = raw("{}")
	}
	if text, ok := parseString(c.object["input"]); ok {
		p.text = text
	} else {
		p.locate(len(items), func(i int) turn { return responsesTurn(items[i]) })
	}
	if p.text == "" && previousID != "" {
		p.text, p.step = previous.script, p.step+previous.step+1
	}
	return p, nil
}

// remember keeps an answer for previous_response_id.
func (f responsesFormat) remember(a *answer, p *prompt) {
	if string(p.members["store"]) == "false" {
		return
	}
	kept := storedAnswer{step: p.step}
	if at := strings.LastIndex(p.text, markerOpen); at >= 0 && len(p.text)-at <= maxStoredScript {
		kept.script = strings.Clone(p.text[at:])
	}
	for i := range a.parts {
		if a.parts[i].isCall() {
			kept.calls = append(kept.calls, "call_"+a.parts[i].callID)
		}
	}
	f.stored.put("resp_"+a.id, kept)
}

func responsesTools(tools []tool, list []raw, namespace string) []tool {
	for _, value := range list {
		o, _ := parseObject(value)
		switch o.text("type") {
		case "namespace":
			tools = responsesTools(tools, o.list("tools"), o.text("name"))
		case "custom":
			tools = append(tools, tool{name: o.text("name"), namespace: namespace, custom: true})
		case "function":
			tools = append(tools, tool{name: o.text("name"), namespace: namespace, schema: o["parameters"]})
		}
	}
	return tools
}

func responsesTurn(value raw) turn {
	item, _ := parseObject(value)
	switch kind := item.text("type"); kind {
	case "", "message":
		switch item.text("role") {
		case "user":
			return turn{speaker: speakerUser, text: contentText(item["content"], "input_text")}
		case "assistant":
			return turn{speaker: speakerModel}
		}
		return turn{}
	case "additional_tools", "item_reference", "configuration_update", "compaction", "compaction_trigger":
		return turn{}
	default:
		if strings.HasSuffix(kind, "_output") {
			return turn{speaker: speakerTool, results: 1}
		}
		return turn{speaker: speakerModel}
	}
}

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
}

func newResponsesWriter(a *answer, p *prompt) *responsesWriter {
	w := &responsesWriter{a: a, p: p}
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
	if status == "completed" {
		dst = append(dst, `,"completed_at":`...)
		dst = strconv.AppendInt(dst, w.a.created+1, 10)
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
	dst = append(dst, `,"reasoning":`+m.or("reasoning", `{"effort":null,"summary":null}`)...)
	dst = append(dst, `,"safety_identifier":`+m.or("safety_identifier", "null")...)
	dst = append(dst, `,"service_tier":"default","store":`+m.or("store", "true")...)
	dst = append(dst, `,"temperature":`+m.or("temperature", "1.0")...)
	dst = append(dst, `,"text":`+m.or("text", `{"format":{"type":"text"},"verbosity":"medium"}`)...)
	dst = append(dst, `,"tool_choice":`+m.or("tool_choice", `"auto"`)...)
	dst = append(dst, `,"tools":`+m.or("tools", "[]")...)
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
	partCall: "fc_", partCustom: "ctc_", partSearch: "ws_",
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

// parseItemID gives the stem of the answer that an item id belongs to, and the id of the reasoning before the item;
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

// A responsesStream writes the events of one response, numbered from 0.
type responsesStream struct {
	*stream
	*responsesWriter
	sequence  int
	named     bool
	obfuscate bool
}

func (f responsesFormat) stream(s *stream, a *answer, p *prompt) {
	f.remember(a, p)
	r := &responsesStream{stream: s, responsesWriter: newResponsesWriter(a, p), named: !a.omit["event-lines"]}
	r.obfuscate = string(p.members.object("stream_options")["include_obfuscation"]) != "false"
	s.ping = func(dst []byte) []byte {
		dst = r.begin(dst, "keepalive")
		return append(append(append(dst, '}'), s.nl...), s.nl...)
	}
	s.inside = r.fault
	s.queue()
	for _, event := range []string{"response.created", "response.in_progress"} {
		s.buf = r.begin(s.buf, event)
		s.buf = append(s.buf, `,"response":`...)
		s.buf = r.response(s.buf, "in_progress", false)
		r.finish()
	}
	r.items()
	if !s.terminal() || a.omit["finish"] {
		return
	}
	status := r.status()
	s.buf = r.begin(s.buf, "response."+status)
	s.buf = append(s.buf, `,"response":`...)
	s.buf = r.response(s.buf, status, true)
	r.finish()
}

// fault appends what ends a broken stream: response.failed, or, where the script asks for it, an error event in
// the nested form that the service really sends.
func (r *responsesStream) fault(dst []byte) []byte {
	if r.a.insideFault.event {
		dst = r.begin(dst, "error")
		dst = append(dst, `,"error":`...)
		dst = r.a.insideFault.openaiError(dst)
	} else {
		dst = r.begin(dst, "response.failed")
		dst = append(dst, `,"response":`...)
		dst = r.response(dst, "failed", false)
	}
	return append(append(append(dst, '}'), r.nl...), r.nl...)
}

// begin appends an event up to its own members.
func (r *responsesStream) begin(dst []byte, event string) []byte {
	if r.named {
		dst = append(dst, "event: "...)
		dst = append(dst, event...)
		dst = append(dst, r.nl...)
	}
	dst = append(dst, `data: {"type":"`...)
	dst = append(dst, event...)
	dst = append(dst, `","sequence_number":`...)
	dst = strconv.AppendInt(dst, int64(r.sequence), 10)
	r.sequence++
	return dst
}

// finish closes an event's object and hands it on.
func (r *responsesStream) finish() bool {
	r.buf = append(r.buf, '}')
	r.buf = append(r.buf, r.nl...)
	r.buf = append(r.buf, r.nl...)
	return r.end()
}

// event writes an event whose members do not come from a long text.
func (r *responsesStream) event(name string, members ...string) {
	r.buf = r.begin(r.buf, name)
	for _, member := range members {
		r.buf = append(r.buf, member...)
	}
	r.finish()
}

func (r *responsesStream) items() {
	if r.a.unknown {
		r.event("response.novelty.delta", `,"novelty":{"deep":[1,2,3]}`)
	}
	for i := 0; i < len(r.a.parts) && !r.over; i++ {
		n := r.a.run(i)
		if r.a.interleave && n > 1 {
			r.interleaved(r.a.parts[i : i+n])
			i += n - 1
			continue
		}
		pt := &r.a.parts[i]
		r.added(pt)
		r.content(pt)
		r.done(pt)
	}
}

func (r *responsesStream) added(pt *part) {
	r.event("response.output_item.added", r.output(pt), `,"item":`, string(r.item(nil, pt, itemInProgress)))
}

func (r *responsesStream) done(pt *part) {
	r.event("response.output_item.done", r.output(pt), `,"item":`, string(r.item(nil, pt, itemCompleted)))
}

// output is the member that says where in the output an item stands.
func (r *responsesStream) output(pt *part) string {
	return `,"output_index":` + strconv.Itoa(pt.ordinal)
}

// place is what all events inside an item carry; index names the content or summary part, "" for none.
func (r *responsesStream) place(pt *part, index string) string {
	place := `,"item_id":"` + r.itemID(pt) + `"` + r.output(pt)
	if index != "" {
		place += `,"` + index + `":0`
	}
	return place
}

func (r *responsesStream) content(pt *part) {
	switch pt.kind {
	case partText:
		place := r.place(pt, "content_index")
		r.event("response.content_part.added", place, `,"part":`, string(r.contentPart(nil, pt, false)))
		r.deltas("response.output_text.delta", place, `"logprobs":[]`, pt.escaped, pt.size)
		for i, c := range pt.citations {
			r.event("response.output_text.annotation.added", place, `,"annotation_index":`, strconv.Itoa(i), `,"annotation":`, string(r.annotation(nil, pt, c)))
		}
		r.event("response.output_text.done", place, `,"text":"`, pt.escaped, `","logprobs":[]`)
		r.event("response.content_part.done", place, `,"part":`, string(r.contentPart(nil, pt, true)))
	case partRefusal:
		place := r.place(pt, "content_index")
		r.event("response.content_part.added", place, `,"part":`, string(r.contentPart(nil, pt, false)))
		r.deltas("response.refusal.delta", place, "", pt.escaped, pt.size)
		r.event("response.refusal.done", place, `,"refusal":"`, pt.escaped, `"`)
		r.event("response.content_part.done", place, `,"part":`, string(r.contentPart(nil, pt, true)))
	case partReasoning:
		place := r.place(pt, "summary_index")
		r.event("response.reasoning_summary_part.added", place, `,"part":`, string(r.contentPart(nil, pt, false)))
		r.deltas("response.reasoning_summary_text.delta", place, "", pt.escaped, pt.size)
		r.event("response.reasoning_summary_text.done", place, `,"text":"`, pt.escaped, `"`)
		r.event("response.reasoning_summary_part.done", place, `,"part":`, string(r.contentPart(nil, pt, true)))
	case partCall, partCustom:
		name, _ := callEvents(pt)
		r.deltas(name+".delta", r.place(pt, ""), "", callText(pt), pt.size)
		r.callDone(pt)
	case partSearch:
		for _, phase := range []string{"in_progress", "searching", "completed"} {
			r.event("response.web_search_call."+phase, r.place(pt, ""))
		}
	}
}

// callEvents names the events of a call and the member that holds its text.
func callEvents(pt *part) (event, member string) {
	if pt.kind == partCustom {
		return "response.custom_tool_call_input", "input"
	}
	return "response.function_call_arguments", "arguments"
}

func (r *responsesStream) callDone(pt *part) {
	event, member := callEvents(pt)
	r.event(event+".done", r.place(pt, ""), `,"`, member, `":"`, callText(pt), `"`)
}

// deltas writes a text.
func (r *responsesStream) deltas(event, place, extra, escaped string, size int) {
	for escaped != "" {
		var piece string
		piece, escaped = cutEscaped(escaped, size)
		if !r.delta(event, place, extra, piece) {
			return
		}
	}
}

func (r *responsesStream) delta(event, place, extra, piece string) bool {
	r.buf = r.begin(r.buf, event)
	r.buf = append(r.buf, place...)
	r.buf = append(r.buf, `,"delta":"`...)
	r.buf = append(r.buf, piece...)
	r.buf = append(r.buf, '"')
	if extra != "" {
		r.buf = append(append(r.buf, ','), extra...)
	}
	if r.obfuscate {
		r.buf = append(r.buf, `,"obfuscation":"`...)
		r.buf = append(r.buf, padding(r.sequence)...)
		r.buf = append(r.buf, '"')
	}
	return r.finish()
}

// interleaved opens all calls and then takes one fragment of each in turn.
func (r *responsesStream) interleaved(calls []part) {
	rest := make([]string, len(calls))
	for i := range calls {
		r.added(&calls[i])
		rest[i] = callText(&calls[i])
	}
	for slices.ContainsFunc(rest, func(s string) bool { return s != "" }) && !r.over {
		for i := range calls {
			if rest[i] == "" {
				continue
			}
			var piece string
			piece, rest[i] = cutEscaped(rest[i], calls[i].size)
			name, _ := callEvents(&calls[i])
			r.delta(name+".delta", r.place(&calls[i], ""), "", piece)
		}
	}
	for i := range calls {
		r.callDone(&calls[i])
		r.done(&calls[i])
	}
}
