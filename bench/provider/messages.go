package provider

import (
	"net/http"
	"strconv"
	"strings"
)

// messagesFormat is Messages.
type messagesFormat struct{ messagesErrors }

type messagesErrors struct{}

func (messagesErrors) status(f *fault) int { return f.messagesStatus() }

func (messagesErrors) errorBody(f *fault, requestID string) []byte {
	return f.messagesError(nil, requestID)
}

func (messagesFormat) authorize(r *http.Request) *fault {
	if r.Header.Get("X-Api-Key") == "" && !strings.HasPrefix(r.Header.Get("Authorization"), "Bearer ") {
		return &fault{class: classAuthentication, message: "x-api-key header is required"}
	}
	if strings.HasPrefix(r.URL.Path, "/anthropic/") {
		return nil // DeepSeek's endpoint ignores the version
	}
	switch version := r.Header.Get("Anthropic-Version"); version {
	case "":
		return refuse("", "anthropic-version: header is required")
	case "2023-06-01", "2026-10-21":
		return nil
	default:
		return refuse("", "anthropic-version: %q is not a valid version", version)
	}
}

func (messagesFormat) header(h http.Header, requestID string) {
	h.Set("Request-Id", requestID)
	h.Set("Anthropic-Organization-Id", "00000000-0000-4000-8000-000000000000")
	h.Set("Anthropic-Ratelimit-Requests-Limit", "4000")
	h.Set("Anthropic-Ratelimit-Requests-Remaining", "3999")
	h.Set("Anthropic-Ratelimit-Requests-Reset", "2026-11-20T09:46:41Z")
}

func (messagesFormat) read(c *call, strict bool) (*prompt, *fault) {
	p := &prompt{members: c.object, stream: c.object.flag("stream")}
	p.model, p.marker = cutMarker(c.object.text("model"))
	messages := c.object.list("messages")
	if strict {
		if refusal := checkMessages(c.object, c.r.Header, messages); refusal != nil {
			return nil, refusal
		}
	}
	p.hideReasoning = c.object.object("thinking").text("display") == "omitted"
	p.schema = c.object.object("output_config").object("format")["schema"]
	for _, value := range c.object.list("tools") {
		o, _ := parseObject(value)
		p.tools = append(p.tools, tool{name: o.text("name"), schema: o["input_schema"]})
	}
	p.locate(len(messages), func(i int) turn { return messagesTurn(messages[i]) })
	return p, nil
}

func messagesTurn(value raw) turn {
	message, _ := parseObject(value)
	switch message.text("role") {
	case "assistant":
		return turn{speaker: speakerModel}
	case "user":
	default:
		return turn{}
	}
	t := turn{speaker: speakerUser, text: contentText(message["content"], "text")}
	blocks, _ := parseList(message["content"])
	for _, value := range blocks {
		if block, _ := parseObject(value); block.text("type") == "tool_result" {
			t.speaker = speakerTool
			t.results++
		}
	}
	return t
}

// envelope appends the message object up to its content.
func (messagesFormat) envelope(dst []byte, a *answer) []byte {
	dst = append(dst, `{"id":"msg_`...)
	dst = append(dst, a.id...)
	dst = append(dst, `","type":"message","role":"assistant","model":`...)
	dst = appendString(dst, a.model)
	if a.unknown {
		dst = append(dst, `,"novelty":{"from":"simulated provider"}`...)
	}
	return append(dst, `,"content":[`...)
}

func (f messagesFormat) complete(dst []byte, a *answer, p *prompt) []byte {
	dst = f.envelope(dst, a)
	first := true
	f.blocks(a, func(b *block) bool {
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = f.whole(dst, a, p, b)
		return true
	})
	dst = append(dst, `],`...)
	dst = f.stop(dst, a)
	dst = append(dst, `,"container":null,"diagnostics":null,"usage":`...)
	dst = f.usage(dst, a, a.usage.output, a.usage.reasoning)
	return append(dst, '}')
}

// A block is one content block: a part of the answer, or one half of a search.
type block struct {
	*part
	kind blockKind
}

type blockKind uint8

const (
	blockText blockKind = iota
	blockThinking
	blockRedacted
	blockToolUse
	blockServerToolUse
	blockSearchResult
)

// blocks visits the content blocks in order, until visit returns false.
func (messagesFormat) blocks(a *answer, visit func(*block) bool) {
	for i := range a.parts {
		pt := &a.parts[i]
		kinds := []blockKind{blockText}
		switch pt.kind {
		case partReasoning:
			kinds = []blockKind{blockThinking}
		case partRedacted:
			kinds = []blockKind{blockRedacted}
		case partCall, partCustom:
			kinds = []blockKind{blockToolUse}
		case partSearch:
			kinds = []blockKind{blockServerToolUse, blockSearchResult}
		}
		for _, kind := range kinds {
			if !visit(&block{part: pt, kind: kind}) {
				return
			}
		}
	}
}

// whole appends a block as the complete answer holds it.
func (f messagesFormat) whole(dst []byte, a *answer, p *prompt, b *block) []byte {
	switch b.kind {
	case blockText:
		dst = append(dst, `{"type":"text","text":"`...)
		dst = append(dst, b.escaped...)
		if len(b.citations) == 0 {
			return append(dst, `"}`...) // and no null, which not every client takes for none
		}
		dst = append(dst, `","citations":`...)
		for i, c := range b.citations {
			dst = append(dst, "[,"[min(i, 1)])
			dst = f.citation(dst, a, b, c)
		}
		return append(dst, `]}`...)
	case blockThinking:
		dst = append(dst, `{"type":"thinking","thinking":"`...)
		if !p.hideReasoning {
			dst = append(dst, b.escaped...)
		}
		dst = append(dst, `","signature":"`...)
		dst = append(dst, f.signature(a, b)...)
		return append(dst, `"}`...)
	case blockToolUse, blockServerToolUse:
		dst = f.callStart(dst, b)
		return append(append(dst, f.input(b)...), `,"caller":{"type":"direct"}}`...)
	}
	return f.ready(dst, a, b)
}

func (messagesFormat) signature(a *answer, b *block) string {
	if a.omit["signature"] {
		return ""
	}
	return opaque(stateSignature, a.id, b.ordinal)
}

// ready appends the blocks that streams, too, send in one piece.
func (messagesFormat) ready(dst []byte, a *answer, b *block) []byte {
	if b.kind == blockRedacted {
		dst = append(dst, `{"type":"redacted_thinking","data":"`...)
		dst = append(dst, opaque(stateRedacted, a.id, b.ordinal)...)
		return append(dst, `"}`...)
	}
	dst = append(dst, `{"type":"web_search_tool_result","tool_use_id":"srvtoolu_`...)
	dst = append(dst, b.searchID...)
	dst = append(dst, `","content":[{"type":"web_search_result","title":`...)
	dst = appendString(dst, b.title)
	dst = append(dst, `,"url":`...)
	dst = appendString(dst, b.url)
	dst = append(dst, `,"encrypted_content":"`...)
	dst = append(dst, opaque("search", a.id, b.ordinal)...)
	return append(dst, `","page_age":null}],"caller":{"type":"direct"}}`...)
}

// callStart appends a call's block up to the value of its input.
func (messagesFormat) callStart(dst []byte, b *block) []byte {
	if b.kind == blockServerToolUse {
		dst = append(dst, `{"type":"server_tool_use","id":"srvtoolu_`...)
		dst = append(dst, b.searchID...)
		return append(dst, `","name":"web_search","input":`...)
	}
	dst = append(dst, `{"type":"tool_use","id":"toolu_`...)
	dst = append(dst, b.callID...)
	dst = append(dst, `","name":`...)
	dst = appendString(dst, b.name)
	return append(dst, `,"input":`...)
}

// input is a call's input as a JSON object. What is no object cannot stand in a complete answer.
func (f messagesFormat) input(b *block) string {
	if text := f.partialJSON(b); text != "" && !b.malformed {
		return text
	}
	return "{}"
}

// partialJSON is the text that a call's deltas add up to.
func (messagesFormat) partialJSON(b *block) string {
	switch b.part.kind {
	case partSearch:
		return `{"query":` + quote(b.text) + `}`
	case partCustom:
		return `{"input":` + quote(b.text) + `}`
	}
	return b.text
}

func (messagesFormat) citation(dst []byte, a *answer, b *block, c citation) []byte {
	dst = append(dst, `{"type":"web_search_result_location","cited_text":`...)
	dst = appendString(dst, firstCharacters(b.text, 150))
	dst = append(dst, `,"encrypted_index":"`...)
	dst = append(dst, opaque("index", a.id, b.ordinal)...)
	dst = append(dst, `","title":`...)
	dst = appendString(dst, c.title)
	dst = append(dst, `,"url":`...)
	dst = appendString(dst, c.url)
	return append(dst, '}')
}

// stop appends the members that say why the answer ended.
func (messagesFormat) stop(dst []byte, a *answer) []byte {
	reason, details := "end_turn", "null"
	switch {
	case a.blocked || a.stop == stopRefusal || a.stop == stopFilter:
		reason = "refusal"
		details = `{"type":"refusal","category":null,"explanation":` + quote("The simulated provider refuses, because the script says so.") + `}`
	case a.stop == stopLength:
		reason = "max_tokens"
	case a.stop == stopContext:
		reason = "model_context_window_exceeded"
	case a.stop == stopPause:
		reason = "pause_turn"
	case a.stop == stopSequence:
		reason = "stop_sequence"
	case a.calls > 0:
		reason = "tool_use"
	}
	dst = append(dst, `"stop_reason":"`...)
	dst = append(dst, reason...)
	dst = append(dst, `","stop_sequence":`...)
	if a.stop == stopSequence {
		dst = appendString(dst, a.stopText)
	} else {
		dst = append(dst, "null"...)
	}
	dst = append(dst, `,"stop_details":`...)
	return append(dst, details...)
}

// usage appends the usage object of a message, of which so many tokens were put out and thought so far.
func (f messagesFormat) usage(dst []byte, a *answer, output, thought int) []byte {
	dst = f.counts(append(dst, '{'), a, output, thought)
	dst = append(dst, `,"cache_creation":{"ephemeral_5m_input_tokens":`...)
	dst = strconv.AppendInt(dst, int64(a.usage.written), 10)
	return append(dst, `,"ephemeral_1h_input_tokens":0},"service_tier":"standard","speed":"standard","inference_geo":null}`...)
}

// counts appends the members of usage that message_delta has too.
func (messagesFormat) counts(dst []byte, a *answer, output, thought int) []byte {
	u := a.usage
	dst = append(dst, `"input_tokens":`...)
	dst = strconv.AppendInt(dst, int64(max(u.input-u.cached-u.written, 0)), 10)
	dst = append(dst, `,"cache_creation_input_tokens":`...)
	dst = strconv.AppendInt(dst, int64(u.written), 10)
	dst = append(dst, `,"cache_read_input_tokens":`...)
	dst = strconv.AppendInt(dst, int64(u.cached), 10)
	dst = append(dst, `,"output_tokens":`...)
	dst = strconv.AppendInt(dst, int64(output), 10)
	dst = append(dst, `,"output_tokens_details":{"thinking_tokens":`...)
	dst = strconv.AppendInt(dst, int64(thought), 10)
	dst = append(dst, `},"server_tool_use":`...)
	if searches := a.count(partSearch); searches > 0 {
		dst = append(dst, `{"web_search_requests":`...)
		dst = strconv.AppendInt(dst, int64(searches), 10)
		return append(dst, `,"web_fetch_requests":0}`...)
	}
	return append(dst, "null"...)
}

// countMessageTokens answers count_tokens with a quarter of the body's size.
func (s *Server) countMessageTokens(c *call) error {
	if err := c.read(messagesFormat{}); err != nil {
		return err
	}
	if s.options.Strict {
		if refusal := checkCountTokens(c.object, c.r.Header); refusal != nil {
			return refusal
		}
	}
	body := append([]byte(`{"input_tokens":`), strconv.Itoa(len(c.body)/4+1)...)
	return deliver(c.w, &delivery{}, http.StatusOK, append(body, '}'))
}
