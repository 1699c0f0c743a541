package provider

import (
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"
)

// chatFormat is Chat Completions, of OpenAI or, by model name, of DeepSeek.
type chatFormat struct{ openaiErrors }

// openaiErrors is the error shape of chat, responses and embeddings.
type openaiErrors struct{}

func (openaiErrors) status(f *fault) int { return f.openaiStatus() }

func (openaiErrors) errorBody(f *fault, _ string) []byte {
	return append(f.openaiError([]byte(`{"error":`)), '}')
}

func (openaiErrors) authorize(r *http.Request) *fault {
	if strings.HasPrefix(r.Header.Get("Authorization"), "Bearer ") {
		return nil
	}
	return &fault{class: classAuthentication, message: "You didn't provide an API key. You need to provide your API key in an Authorization header using Bearer auth (i.e. Authorization: Bearer YOUR_KEY)."}
}

func (openaiErrors) header(h http.Header, requestID string) {
	h.Set("X-Request-Id", requestID)
	h.Set("Openai-Version", "2020-10-01")
	h.Set("Openai-Processing-Ms", "1")
	h.Set("X-Ratelimit-Limit-Requests", "10000")
	h.Set("X-Ratelimit-Remaining-Requests", "9999")
	h.Set("X-Ratelimit-Reset-Requests", "6ms")
}

func (chatFormat) read(c *call, strict bool) (*prompt, *fault) {
	p := &prompt{members: c.object, stream: c.object.flag("stream")}
	p.model, p.marker = cutMarker(c.object.text("model"))
	messages := c.object.list("messages")
	if strict {
		if refusal := checkChat(c.object, p.model, messages); refusal != nil {
			return nil, refusal
		}
	}
	if isDeepSeekModel(p.model) {
		c.w.Header().Set("X-Ds-Trace-Id", c.id)
	}
	p.hideReasoning = isOpenAIModel(p.model)
	p.tools = chatTools(c.object.list("tools"))
	if format := c.object.object("response_format"); format.text("type") == "json_schema" {
		p.schema = format.object("json_schema")["schema"]
	} else if format.text("type") == "json_object" {
		p.schema = raw("{}")
	}
	p.locate(len(messages), func(i int) turn { return chatTurn(messages[i]) })
	return p, nil
}

// isOpenAIModel tells the models of OpenAI, which never show their reasoning in chat, from those of other hosts.
func isOpenAIModel(model string) bool {
	for _, prefix := range []string{"gpt", "chatgpt", "codex", "computer-use"} {
		if strings.HasPrefix(model, prefix) {
			return true
		}
	}
	return isOSeries(model)
}

// isSearchModel tells the models that search for every answer. They have no other endpoint than that of Chat.
func isSearchModel(model string) bool {
	return strings.Contains(model, "-search-preview") || strings.Contains(model, "-search-api")
}

// isOSeries tells o1, o3, o4-mini and what may follow them.
func isOSeries(model string) bool {
	return len(model) > 1 && model[0] == 'o' && model[1] >= '1' && model[1] <= '9'
}

func isDeepSeekModel(model string) bool { return strings.HasPrefix(model, "deepseek") }

func chatTools(list []raw) []tool {
	tools := make([]tool, 0, len(list))
	for _, value := range list {
		o, _ := parseObject(value)
		if o.text("type") == "custom" {
			tools = append(tools, tool{name: o.object("custom").text("name"), custom: true})
			continue
		}
		function := o.object("function")
		tools = append(tools, tool{name: function.text("name"), schema: function["parameters"]})
	}
	return tools
}

func chatTurn(value raw) turn {
	message, _ := parseObject(value)
	switch message.text("role") {
	case "user":
		return turn{speaker: speakerUser, text: contentText(message["content"], "text")}
	case "assistant":
		return turn{speaker: speakerModel}
	case "tool", "function":
		return turn{speaker: speakerTool, results: 1}
	}
	return turn{}
}

// head appends the members that all chunks of a stream and the complete answer share.
func (chatFormat) head(dst []byte, a *answer, object string) []byte {
	dst = append(dst, `{"id":"chatcmpl-`...)
	dst = append(dst, a.id...)
	dst = append(dst, `","object":"`...)
	dst = append(dst, object...)
	dst = append(dst, `","created":`...)
	dst = strconv.AppendInt(dst, a.created, 10)
	dst = append(dst, `,"model":`...)
	dst = appendString(dst, a.model)
	if !isDeepSeekModel(a.model) {
		dst = append(dst, `,"service_tier":"default"`...)
	}
	dst = append(dst, `,"system_fingerprint":"fp_simulated"`...)
	if a.unknown {
		dst = append(dst, `,"novelty":{"from":"simulated provider","null":null}`...)
	}
	return dst
}

func (f chatFormat) complete(dst []byte, a *answer, p *prompt) []byte {
	dst = f.head(dst, a, "chat.completion")
	dst = append(dst, `,"choices":[{"index":0,"message":{"role":"assistant","content":`...)
	text, refusal := a.text(partText), a.text(partRefusal)
	reasoning := a.text(partReasoning)
	if p.hideReasoning {
		reasoning = ""
	}
	switch {
	case a.quirk["thinking-parts"] && reasoning != "":
		dst = append(dst, `[{"type":"thinking","thinking":[{"type":"text","text":`...)
		dst = f.appendText(dst, a, reasoning)
		dst = append(dst, `}]},{"type":"text","text":`...)
		dst = append(f.appendText(dst, a, text), `}]`...)
	case text == "" && (a.calls > 0 || refusal != "") && !isDeepSeekModel(a.model):
		dst = append(dst, "null"...)
	default:
		dst = f.appendText(dst, a, text)
	}
	dst = append(dst, `,"refusal":`...)
	dst = appendStringOrNull(dst, refusal)
	if reasoning != "" && !a.quirk["thinking-parts"] {
		dst = append(dst, `,"`+f.reasoningMember(a)+`":`...)
		dst = f.appendText(dst, a, reasoning)
	}
	dst = append(dst, `,"annotations":`...)
	dst = f.annotations(dst, a.parts, 0)
	if a.calls > 0 {
		dst = append(dst, `,"tool_calls":[`...)
		for i := range a.parts {
			if pt := &a.parts[i]; pt.isCall() {
				if pt.call > 0 {
					dst = append(dst, ',')
				}
				dst = f.callStart(append(dst, '{'), pt, pt.escapedArguments(), pt.escaped)
				dst = append(dst, '}')
			}
		}
		dst = append(dst, ']')
	}
	dst = append(dst, `},"logprobs":null,"finish_reason":`...)
	dst = f.finish(dst, a)
	dst = append(dst, `}]`...)
	if !a.omit["usage"] {
		dst = append(dst, `,"usage":`...)
		dst = f.usage(dst, a)
	}
	return append(dst, '}')
}

// reasoningMember is where visible reasoning stands: DeepSeek's name for it, or the other one that is in use.
func (chatFormat) reasoningMember(a *answer) string {
	if a.quirk["reasoning-member"] {
		return "reasoning"
	}
	return "reasoning_content"
}

func (chatFormat) appendText(dst []byte, a *answer, text string) []byte {
	dst = append(dst, '"')
	dst = appendEscaped(dst, text, a.splitPairs)
	return append(dst, '"')
}

// callStart appends the members that open a call, with as much of its arguments or input as is given.
func (chatFormat) callStart(dst []byte, pt *part, arguments, input string) []byte {
	dst = append(dst, `"id":"call_`...)
	dst = append(dst, pt.callID...)
	if pt.kind == partCustom {
		dst = append(dst, `","type":"custom","custom":{"name":`...)
		dst = appendString(dst, pt.name)
		dst = append(dst, `,"input":"`...)
		dst = append(dst, input...)
		return append(dst, `"}`...)
	}
	dst = append(dst, `","type":"function","function":{"name":`...)
	dst = appendString(dst, pt.name)
	dst = append(dst, `,"arguments":"`...)
	dst = append(dst, arguments...)
	return append(dst, `"}`...)
}

// annotations appends the citations of the parts after the first skip ones; their range is the text that they
// belong to, counted over all parts.
func (chatFormat) annotations(dst []byte, parts []part, skip int) []byte {
	dst = append(dst, '[')
	start, first := 0, true
	for i := range parts {
		pt := &parts[i]
		if pt.kind != partText {
			continue
		}
		end := start + utf8.RuneCountInString(pt.text)
		for _, c := range pt.citations {
			if i < skip {
				break
			}
			if !first {
				dst = append(dst, ',')
			}
			first = false
			dst = append(dst, `{"type":"url_citation","url_citation":`...)
			dst = appendRange(dst, c, start, end)
			dst = append(dst, '}')
		}
		start = end
	}
	return append(dst, ']')
}

// appendRange appends a citation of OpenAI's formats; start and end count characters.
func appendRange(dst []byte, c citation, start, end int) []byte {
	dst = append(dst, `{"start_index":`...)
	dst = strconv.AppendInt(dst, int64(start), 10)
	dst = append(dst, `,"end_index":`...)
	dst = strconv.AppendInt(dst, int64(end), 10)
	dst = append(dst, `,"title":`...)
	dst = appendString(dst, c.title)
	dst = append(dst, `,"url":`...)
	dst = appendString(dst, c.url)
	return append(dst, '}')
}

func (chatFormat) finish(dst []byte, a *answer) []byte {
	switch {
	case a.stop == stopLength || a.stop == stopContext:
		return append(dst, `"length"`...)
	case a.blocked || a.stop == stopFilter:
		return append(dst, `"content_filter"`...)
	case a.calls > 0 && !a.quirk["finish-stop"]:
		return append(dst, `"tool_calls"`...)
	}
	return append(dst, `"stop"`...)
}

func (chatFormat) usage(dst []byte, a *answer) []byte {
	u := a.usage
	dst = append(dst, `{"prompt_tokens":`...)
	dst = strconv.AppendInt(dst, int64(u.input), 10)
	dst = append(dst, `,"completion_tokens":`...)
	dst = strconv.AppendInt(dst, int64(u.output), 10)
	dst = append(dst, `,"total_tokens":`...)
	dst = strconv.AppendInt(dst, int64(u.input+u.output), 10)
	if isDeepSeekModel(a.model) {
		dst = append(dst, `,"prompt_cache_hit_tokens":`...)
		dst = strconv.AppendInt(dst, int64(u.cached), 10)
		dst = append(dst, `,"prompt_cache_miss_tokens":`...)
		dst = strconv.AppendInt(dst, int64(u.input-u.cached), 10)
		dst = append(dst, `,"prompt_tokens_details":{"cached_tokens":`...)
		dst = strconv.AppendInt(dst, int64(u.cached), 10)
		dst = append(dst, `},"completion_tokens_details":{"reasoning_tokens":`...)
		dst = strconv.AppendInt(dst, int64(u.reasoning), 10)
		return append(dst, `}}`...)
	}
	dst = append(dst, `,"prompt_tokens_details":{"cached_tokens":`...)
	dst = strconv.AppendInt(dst, int64(u.cached), 10)
	dst = append(dst, `,"cache_write_tokens":`...)
	dst = strconv.AppendInt(dst, int64(u.written), 10)
	dst = append(dst, `,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":`...)
	dst = strconv.AppendInt(dst, int64(u.reasoning), 10)
	return append(dst, `,"audio_tokens":0,"accepted_prediction_tokens":0,"rejected_prediction_tokens":0}}`...)
}
