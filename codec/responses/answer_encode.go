package responses

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
)

// Status words of answers and items.
const (
	statusInProgress = "in_progress"
	statusCompleted  = "completed"
	statusIncomplete = "incomplete"
	statusFailed     = "failed"
)

// AppendAnswer implements [codec.ClientHalf]. The answer is played to a stream encoder, whose terminal event holds the
// same object: the two cannot drift apart.
func (c client) AppendAnswer(dst []byte, a *codec.Answer, o *codec.AnswerOptions) []byte {
	e := new(streamEncoder)
	e.Reset(o)
	events := replay(e, a)
	status, failure := statusFailed, a.Err
	if failure == nil {
		status, failure = e.outcome(max(a.End, codec.EndTerminal))
	}
	if failure == nil {
		e.finishAll(events, status)
	}
	return e.response(dst, status, failure)
}

// replay gives the encoder the events that the answer was folded from. It returns the encoder's output, which nobody
// reads.
func replay(e *streamEncoder, a *codec.Answer) []byte {
	var dst []byte
	give := func(ev codec.Event) { dst = e.Append(dst[:0], &ev) }
	give(codec.Event{Kind: codec.EventStart, ID: a.ID, Model: a.Model, Created: a.Created})
	for i := range a.Items {
		it, item := &a.Items[i], int32(i)
		give(codec.Event{
			Kind: codec.EventItemOpen, Type: it.Type, Item: item, ID: it.ID, CallID: it.CallID, Name: it.Name,
			Namespace: it.Namespace,
		})
		if kind, ok := bodyEvent(it.Type); ok {
			give(codec.Event{Kind: kind, Item: item, Raw: it.Text})
		}
		for j, s := range it.Summaries {
			give(codec.Event{Kind: codec.EventReasoning, Item: item, Sub: int32(j), Raw: s.Text, Summary: s.Summary})
		}
		give(codec.Event{Kind: codec.EventSignature, Item: item, Raw: it.Signature, Family: it.Family})
		for _, note := range it.Notes {
			give(codec.Event{Kind: codec.EventAnnotation, Item: item, Raw: note.Raw, Origin: note.Origin})
		}
		if it.Closed {
			give(codec.Event{Kind: codec.EventItemClose, Type: it.Type, Item: item, Raw: it.Raw, Origin: it.Origin})
		}
	}
	give(codec.Event{Kind: codec.EventFinish, Finish: a.Finish, Raw: a.Stop})
	if a.HasUse {
		give(codec.Event{Kind: codec.EventUsage, Usage: a.Usage})
	}
	return dst
}

func bodyEvent(t codec.ItemType) (codec.EventKind, bool) {
	switch t {
	case codec.ItemText:
		return codec.EventText, true
	case codec.ItemRefusal:
		return codec.EventRefusal, true
	case codec.ItemToolCall:
		return codec.EventArguments, true
	case codec.ItemCustomCall:
		return codec.EventCustomInput, true
	}
	return codec.EventNone, false
}

// outcome is the status of the answer, with the error of one that failed.
func (e *streamEncoder) outcome(end codec.End) (string, *codec.Error) {
	switch {
	case end == codec.EndTerminal, end == codec.EndEOF && e.finished:
	case end == codec.EndCancelled:
		return statusFailed, codec.Errorf(codec.KindUpstream, "The request was cancelled.")
	default:
		return statusFailed, codec.Errorf(codec.KindUpstream, "The provider broke off the answer.")
	}
	switch e.finish {
	case codec.FinishLength, codec.FinishContext:
		return statusIncomplete, nil
	case codec.FinishFilter:
		if !e.refused {
			return statusIncomplete, nil
		}
	case codec.FinishMalformedCall:
		return statusFailed, codec.Errorf(codec.KindUpstream, "The model produced a tool call that cannot be read.")
	}
	return statusCompleted, nil
}

// terminal ends the answer. Of one that failed the open items get no done event: clients would take them for finished
// ones. They stand in the terminal event, marked as incomplete. One that fails before it has begun is its terminal event
// alone, which can also stand behind a stream that was begun by somebody else.
func (e *streamEncoder) terminal(dst []byte, status string, failure *codec.Error) []byte {
	if failure == nil && status == statusFailed {
		failure = codec.Errorf(codec.KindUpstream, "The provider reported an error without saying which.")
	}
	if failure == nil {
		dst = e.start(dst)
		dst = e.finishAll(dst, status)
	}
	e.ended = true
	dst = append(e.event(dst, terminalEvent(status)), `,"response":`...)
	return finish(e.response(dst, status, failure))
}

func terminalEvent(status string) string {
	switch status {
	case statusIncomplete:
		return "response.incomplete"
	case statusFailed:
		return "response.failed"
	}
	return "response.completed"
}

// finishAll ends the items that are open, in their order. What the provider left open in an answer that was cut off is
// incomplete itself.
func (e *streamEncoder) finishAll(dst []byte, status string) []byte {
	for i := range e.slots {
		if e.slots[i].held != nil {
			dst = e.releaseCall(dst, &e.slots[i])
		}
	}
	last := e.message
	e.message = -1
	for i := range e.outputs {
		itemStatus := status
		if i == last && e.outputs[i].partsClosed() {
			itemStatus = statusCompleted
		}
		dst = e.finishItem(dst, &e.outputs[i], itemStatus)
	}
	return dst
}

func (out *output) partsClosed() bool {
	for i := range out.parts {
		if !out.parts[i].closed {
			return false
		}
	}
	return true
}

// appendItem writes an item as far as it has come; one that is in progress has an empty body.
func appendItem(dst []byte, out *output, status string) []byte {
	dst = append(dst, `{"id":"`...)
	dst = append(dst, out.id...)
	dst = append(dst, '"')
	whole := status != statusInProgress
	switch out.kind {
	case outputMessage:
		dst = append(dst, `,"type":"message","status":"`...)
		dst = append(dst, status...)
		dst = append(dst, `","role":"assistant","content":[`...)
		for i := range out.parts {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendPart(dst, &out.parts[i], true)
		}
		return append(dst, `]}`...)
	case outputReasoning:
		dst = append(dst, `,"type":"reasoning","summary":[`...)
		for i := range out.parts {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendSummary(dst, &out.parts[i])
		}
		dst = append(dst, ']')
		if whole && len(out.signature) > 0 {
			dst = append(dst, `,"encrypted_content":`...)
			dst = scan.QuoteBody(dst, out.signature)
		}
		return append(dst, '}')
	case outputCall, outputCustomCall:
		return appendCall(dst, out, status)
	}
	return append(dst, out.raw...)
}

func appendCall(dst []byte, out *output, status string) []byte {
	body := `,"input":"`
	if out.kind == outputCall {
		dst = append(dst, `,"type":"function_call","status":"`...)
		body = `,"arguments":"`
	} else {
		dst = append(dst, `,"type":"custom_tool_call","status":"`...)
	}
	dst = append(dst, status...)
	dst = append(dst, `","call_id":`...)
	dst = scan.QuoteBody(dst, out.callID)
	dst = append(dst, `,"name":`...)
	dst = scan.QuoteBody(dst, out.name)
	if len(out.namespace) > 0 {
		dst = append(dst, `,"namespace":`...)
		dst = scan.QuoteBody(dst, out.namespace)
	}
	dst = append(dst, body...)
	dst = append(dst, out.text...)
	return append(dst, `"}`...)
}

// appendPart writes a content part; one that is just being added has no text.
func appendPart(dst []byte, p *part, whole bool) []byte {
	if p.refusal {
		dst = append(dst, `{"type":"refusal","refusal":"`...)
		if whole {
			dst = append(dst, p.text...)
		}
		return append(dst, `"}`...)
	}
	dst = append(dst, `{"type":"output_text","text":"`...)
	if whole {
		dst = append(dst, p.text...)
	}
	dst = append(dst, `","annotations":[`...)
	if whole {
		dst = append(dst, p.annotations...)
	}
	return append(dst, `],"logprobs":[]}`...)
}

func appendSummary(dst []byte, p *part) []byte {
	dst = append(dst, `{"type":"summary_text","text":"`...)
	dst = append(dst, p.text...)
	return append(dst, `"}`...)
}

// response writes the response object. Members that an answer repeats are the client's own where it sent them, and the
// format's defaults otherwise: clients require them to be there (wire sheet: responses, section 8).
func (e *streamEncoder) response(dst []byte, status string, failure *codec.Error) []byte {
	dst = append(dst, `{"id":"resp_`...)
	dst = append(dst, e.o.ID...)
	dst = append(dst, `","object":"response","created_at":`...)
	dst = strconv.AppendInt(dst, e.created(), 10)
	dst = append(dst, `,"status":"`...)
	dst = append(dst, status...)
	dst = append(dst, `","error":`...)
	if failure != nil {
		dst = appendFailure(dst, failure)
	} else {
		dst = append(dst, "null"...)
	}
	dst = append(dst, `,"incomplete_details":`...)
	dst = e.appendIncomplete(dst, status)
	dst = append(dst, `,"model":`...)
	dst = scan.QuoteBody(dst, e.model)
	for i := range echoes {
		dst = append(dst, `,"`...)
		dst = append(dst, echoes[i].name...)
		dst = append(dst, `":`...)
		dst = e.echo(dst, echoes[i].name, echoes[i].absent)
	}
	dst = append(dst, `,"output":[`...)
	if status != statusInProgress {
		dst = e.appendOutput(dst)
	}
	dst = append(dst, `],"usage":`...)
	if status == statusInProgress {
		return append(dst, "null}"...)
	}
	return append(e.appendUsage(dst), '}')
}

// echoes are the members that an answer repeats, and what they are when the request has none.
var echoes = [...]struct{ name, absent string }{
	{"access_programs", "null"},
	{"background", "false"},
	{"instructions", "null"},
	{"max_output_tokens", "null"},
	{"max_tool_calls", "null"},
	{"metadata", "{}"},
	{"parallel_tool_calls", "true"},
	{"previous_response_id", "null"},
	{"prompt_cache_key", "null"},
	{"reasoning", `{"effort":null,"summary":null}`},
	{"safety_identifier", "null"},
	{"service_tier", `"default"`},
	{"store", "true"},
	{"temperature", "1"},
	{"text", `{"format":{"type":"text"}}`},
	{"tool_choice", `"auto"`},
	{"tools", "[]"},
	{"top_logprobs", "0"},
	{"top_p", "1"},
	{"truncation", `"disabled"`},
	{"user", "null"},
}

func (e *streamEncoder) echo(dst []byte, name, absent string) []byte {
	if r := e.o.Request; r != nil {
		for i := range r.Echo {
			if string(r.Echo[i].Name) == name {
				return appendFlat(dst, r.Echo[i].Value)
			}
		}
	}
	return append(dst, absent...)
}

// appendFlat copies a raw value without its line breaks: in a valid document those stand between tokens only, and
// inside an event a line break would end the data.
func appendFlat(dst, raw []byte) []byte {
	from := len(dst)
	dst = append(dst, raw...)
	for i := from; i < len(dst); i++ {
		if dst[i] == '\n' || dst[i] == '\r' {
			dst[i] = ' '
		}
	}
	return dst
}

func (e *streamEncoder) created() int64 {
	if e.o.Created.IsZero() {
		return 0
	}
	return e.o.Created.Unix()
}

func (e *streamEncoder) appendIncomplete(dst []byte, status string) []byte {
	switch {
	case status != statusIncomplete:
		return append(dst, "null"...)
	case e.finish == codec.FinishFilter:
		return append(dst, `{"reason":"content_filter"}`...)
	}
	return append(dst, `{"reason":"max_output_tokens"}`...)
}

func (e *streamEncoder) appendOutput(dst []byte) []byte {
	for i := range e.outputs {
		if i > 0 {
			dst = append(dst, ',')
		}
		if out := &e.outputs[i]; out.done {
			dst = append(dst, e.done[out.from:out.to]...)
		} else {
			dst = appendItem(dst, out, statusIncomplete)
		}
	}
	return dst
}

// bytesPerToken is the rule of thumb for an estimate (wire sheet: translation, section 3.2).
const bytesPerToken = 4

// appendUsage writes the counters, all members of both detail objects included: Codex fails on one that lacks its
// member (pitfall P28). Where the provider reported nothing they are estimated, if the prompt's size is known.
func (e *streamEncoder) appendUsage(dst []byte) []byte {
	u := e.usage
	if !e.reported {
		if e.o.EstimatedInput <= 0 {
			return append(dst, "null"...)
		}
		u = codec.Usage{InputUncached: e.o.EstimatedInput, Output: (e.size + bytesPerToken - 1) / bytesPerToken}
	}
	dst = append(dst, `{"input_tokens":`...)
	dst = strconv.AppendInt(dst, u.TotalInput(), 10)
	dst = append(dst, `,"input_tokens_details":{"cached_tokens":`...)
	dst = strconv.AppendInt(dst, u.CacheRead, 10)
	dst = append(dst, `,"cache_write_tokens":`...)
	dst = strconv.AppendInt(dst, u.CacheWrite, 10)
	dst = append(dst, `},"output_tokens":`...)
	dst = strconv.AppendInt(dst, u.Output, 10)
	dst = append(dst, `,"output_tokens_details":{"reasoning_tokens":`...)
	dst = strconv.AppendInt(dst, u.Reasoning, 10)
	dst = append(dst, `},"total_tokens":`...)
	dst = strconv.AppendInt(dst, u.Total(), 10)
	return append(dst, '}')
}

// itemMembers writes the members behind the id of an item that another party made whole, and says how its id begins.
// Nothing is written for an item that has no twin in this format.
func itemMembers(dst, raw []byte, origin codec.Format) (prefix string, members []byte) {
	switch origin {
	case codec.Responses:
		return responsesMembers(dst, raw)
	case codec.Messages:
		return messagesMembers(dst, raw)
	}
	return "", dst
}

func responsesMembers(dst, raw []byte) (string, []byte) {
	var wireType []byte
	for m := scan.Object(raw); m.Next(); {
		if string(m.Key) == "id" {
			continue
		}
		if string(m.Key) == "type" {
			wireType = scan.Body(m.Value)
		}
		dst = appendFlat(append(dst, ','), raw[m.Start:m.End])
	}
	switch string(wireType) {
	case "", typeMessage, typeReasoning, typeCall, typeCustomCall: // those have events of their own
		return "", dst[:0]
	}
	return wirePrefix(wireType), append(dst, '}')
}

// wirePrefix is how ids of items of that type begin; types without a prefix here get one out of their own name.
func wirePrefix(wireType []byte) string {
	switch string(wireType) {
	case typeWebSearch:
		return "ws_"
	case "image_generation_call":
		return "ig_"
	case "tool_search_call":
		return "tsc_"
	case "tool_search_output":
		return "tso_"
	case "local_shell_call":
		return "lsh_"
	case "compaction":
		return "cmp_"
	case "file_search_call":
		return "fs_"
	case "code_interpreter_call":
		return "ci_"
	}
	return strings.TrimSuffix(scan.Text(wireType), "_call") + "_"
}

// messagesMembers makes a web_search_call of a search that Anthropic ran. Its results have no place in this format: the
// text's citations name the pages.
func messagesMembers(dst, raw []byte) (string, []byte) {
	if string(scan.Body(scan.Get(raw, "type"))) != "server_tool_use" ||
		string(scan.Body(scan.Get(raw, "name"))) != "web_search" {
		return "", dst
	}
	dst = append(dst, `,"type":"web_search_call","status":"completed","action":{"type":"search","query":`...)
	if query := scan.Path(raw, "input", "query"); scan.IsString(query) {
		dst = append(dst, query...)
	} else {
		dst = append(dst, `""`...)
	}
	return "ws_", append(dst, `}}`...)
}

// appendAnnotation writes a citation in this format's shape, or nothing if it has none. length is the number of
// characters of the text so far: what Anthropic cites is the whole block.
func appendAnnotation(dst, raw []byte, origin codec.Format, length int) []byte {
	if !scan.IsObject(raw) {
		return dst
	}
	switch origin {
	case codec.Responses:
		return appendFlat(dst, raw)
	case codec.Chat:
		if inner := scan.Get(raw, "url_citation"); scan.IsObject(inner) {
			return appendURLCitation(dst, inner, length)
		}
	case codec.Messages:
		if scan.IsString(scan.Get(raw, "url")) {
			return appendURLCitation(dst, raw, length)
		}
	case codec.Gemini:
		if web := scan.Get(raw, "web"); scan.IsObject(web) {
			return appendURLCitation(dst, web, length)
		}
	}
	return dst
}

func appendURLCitation(dst, v []byte, length int) []byte {
	url, title := []byte(nil), []byte(`""`)
	start, end := int64(0), int64(length)
	for m := scan.Object(v); m.Next(); {
		switch string(m.Key) {
		case "url", "uri":
			url = m.Value
		case "title":
			if scan.IsString(m.Value) {
				title = m.Value
			}
		case "start_index":
			start = index(m.Value, start)
		case "end_index":
			end = index(m.Value, end)
		}
	}
	if !scan.IsString(url) {
		return dst
	}
	dst = append(dst, `{"type":"url_citation","url":`...)
	dst = append(dst, url...)
	dst = append(dst, `,"title":`...)
	dst = append(dst, title...)
	dst = append(dst, `,"start_index":`...)
	dst = strconv.AppendInt(dst, start, 10)
	dst = append(dst, `,"end_index":`...)
	dst = strconv.AppendInt(dst, end, 10)
	return append(dst, '}')
}

// characters counts the characters of a string body.
func characters(body []byte) int {
	n := 0
	for i := 0; i < len(body); n++ {
		switch {
		case body[i] != '\\':
			_, size := utf8.DecodeRune(body[i:])
			i += size
		case i+1 < len(body) && body[i+1] == 'u':
			i += len(`\u0000`)
			if i+1 < len(body) && body[i] == '\\' && body[i+1] == 'u' && lowSurrogate(body[i+2:]) {
				i += len(`\u0000`)
			}
		default:
			i += 2
		}
	}
	return n
}

// lowSurrogate tells whether four hex digits are the second half of a character.
func lowSurrogate(hex []byte) bool {
	return len(hex) >= 2 && hex[0]|0x20 == 'd' && (hex[1]|0x20 >= 'c' && hex[1]|0x20 <= 'f')
}
