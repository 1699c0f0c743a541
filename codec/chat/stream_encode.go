package chat

import (
	"strconv"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
)

// encoder writes the chunks of one stream in the order that the accumulators of the official SDKs need
// (docs/wire/chat-completions.md#3.5): the role once and first, id, type and name of a call once, the finish reason
// once after all content, the usage once and last, [DONE] only after success. Finish, usage and citations are held
// until then.
type encoder struct {
	o        codec.AnswerOptions
	legacy   bool // the client declared functions, so it expects function_call
	begun    bool
	over     bool
	envelope []byte // a chunk up to the value of choices
	model    []byte // string body
	written  int    // bytes of output, for estimating a usage that was not reported

	calls     []openCall
	reasoning reasoningState
	citations []byte // elements of annotations
	media     []byte // type of the open image
	pictures  int
	finish    codec.FinishReason
	usage     codec.Usage
	counted   bool
}

// openCall is a call that the client has seen.
type openCall struct {
	item   int32
	custom bool
	filled bool // arguments were written
}

// NewEncoder starts the stream of one answer.
func (client) NewEncoder(o *codec.AnswerOptions) codec.StreamEncoder {
	return &encoder{o: *o, legacy: legacyFunctions(o.Request), model: scan.Escape(nil, []byte(o.Model)), reasoning: reasoningState{item: -1}}
}

// Next implements [codec.StreamEncoder]: chunks have no numbers.
func (e *encoder) Next() int64 { return 0 }

// Append writes the chunks for the event. After the end of the answer it writes nothing.
func (e *encoder) Append(dst []byte, ev *codec.Event) []byte {
	if e.over {
		return dst
	}
	switch ev.Kind {
	case codec.EventText, codec.EventRefusal, codec.EventReasoning, codec.EventArguments, codec.EventCustomInput:
		e.written += len(ev.Raw)
	}
	switch ev.Kind {
	case codec.EventStart:
		return e.start(dst, ev)
	case codec.EventItemOpen:
		return e.openItem(dst, ev)
	case codec.EventText:
		return e.text(dst, `"content":"`, ev.Raw)
	case codec.EventRefusal:
		return e.text(dst, `"refusal":"`, ev.Raw)
	case codec.EventReasoning:
		return e.think(dst, ev)
	case codec.EventSignature:
		return e.sign(dst, ev)
	case codec.EventArguments:
		return e.arguments(dst, ev, false)
	case codec.EventCustomInput:
		return e.arguments(dst, ev, true)
	case codec.EventAnnotation:
		e.citations = appendCitation(e.citations, ev.Raw, ev.Origin)
	case codec.EventItemClose:
		return e.closeItem(dst, ev)
	case codec.EventFinish:
		e.finish = ev.Finish
	case codec.EventUsage:
		e.usage, e.counted = ev.Usage, true
	case codec.EventError:
		return e.fail(dst, ev.Err)
	case codec.EventEnd:
		return e.end(dst, ev.End)
	}
	return dst
}

func (e *encoder) start(dst []byte, ev *codec.Event) []byte {
	if len(ev.Model) > 0 && !e.begun {
		e.model = append(e.model[:0], ev.Model...)
	}
	return e.begin(dst)
}

// begin writes the first chunk, which carries the role (P31).
func (e *encoder) begin(dst []byte) []byte {
	if e.begun {
		return dst
	}
	e.begun = true
	e.envelope = append(e.envelope, "data: "...)
	e.envelope = appendHead(e.envelope, &e.o, "chat.completion.chunk", e.model)
	dst = e.openChunk(dst)
	dst = append(dst, `"role":"assistant","content":""`...)
	return e.closeChunk(dst)
}

// appendHead opens an answer or a chunk of it, up to the value of choices.
func appendHead(dst []byte, o *codec.AnswerOptions, object string, model []byte) []byte {
	dst = append(dst, `{"id":"chatcmpl-`...)
	dst = append(dst, o.ID...)
	dst = append(dst, `","object":"`...)
	dst = append(dst, object...)
	dst = append(dst, `","created":`...)
	dst = strconv.AppendInt(dst, o.Created.Unix(), 10)
	dst = append(dst, `,"model":`...)
	dst = scan.QuoteBody(dst, model)
	return append(dst, `,"choices":`...)
}

func (e *encoder) openChunk(dst []byte) []byte {
	dst = append(dst, e.envelope...)
	return append(dst, `[{"index":0,"delta":{`...)
}

func (e *encoder) closeChunk(dst []byte) []byte {
	return e.endChunk(append(dst, `},"finish_reason":null}]`...))
}

func (e *encoder) endChunk(dst []byte) []byte {
	if e.o.IncludeUsage {
		dst = append(dst, `,"usage":null`...)
	}
	return append(dst, "}\n\n"...)
}

// text writes one string member of a delta; member ends with the quote that opens the string. Empty deltas are dropped
// (P21).
func (e *encoder) text(dst []byte, member string, body []byte) []byte {
	if len(body) == 0 {
		return dst
	}
	dst = e.openChunk(e.begin(dst))
	dst = append(dst, member...)
	dst = append(dst, body...)
	return e.closeChunk(append(dst, '"'))
}

func (e *encoder) openItem(dst []byte, ev *codec.Event) []byte {
	dst = e.begin(dst)
	switch ev.Type {
	case codec.ItemReasoning, codec.ItemRedacted:
		dst = e.flushReasoning(dst)
		e.reasoning.open(ev)
	case codec.ItemImage:
		e.media = append(e.media[:0], ev.Name...)
	case codec.ItemToolCall, codec.ItemCustomCall:
		if e.callIndex(ev.Item) < 0 {
			return e.openCall(dst, ev)
		}
	}
	return dst
}

// openCall writes the only delta of a call with its id, type and name. Calls are counted separately from other items
// (P16).
func (e *encoder) openCall(dst []byte, ev *codec.Event) []byte {
	n := len(e.calls)
	custom := ev.Type == codec.ItemCustomCall && !e.legacy
	e.calls = append(e.calls, openCall{item: ev.Item, custom: custom})
	if e.legacy && n > 0 {
		return dst // a legacy client knows only one call
	}
	dst = e.openChunk(dst)
	if e.legacy {
		dst = append(dst, `"function_call":{"name":"`...)
		dst = append(dst, ev.Name...)
		return e.closeChunk(append(dst, `","arguments":""}`...))
	}
	dst = append(dst, `"tool_calls":[{"index":`...)
	dst = strconv.AppendInt(dst, int64(n), 10)
	dst = append(dst, `,"id":"`...)
	dst = appendCallID(dst, ev.CallID, e.o.ID, n)
	if custom {
		dst = append(dst, `","type":"custom","custom":{"name":"`...)
		dst = append(dst, ev.Name...)
		dst = append(dst, `","input":""}`...)
	} else {
		dst = append(dst, `","type":"function","function":{"name":"`...)
		dst = append(dst, ev.Name...)
		dst = append(dst, `","arguments":""}`...)
	}
	if len(ev.Raw) > 0 && ev.Family == codec.FamilyGoogle {
		dst = appendThoughtSignature(append(dst, ','), ev.Raw)
	}
	return e.closeChunk(append(dst, `}]`...))
}

// appendCallID writes the id of the n-th call; one is generated if the provider gave none (P13).
func appendCallID(dst, id []byte, exchange string, n int) []byte {
	if len(id) > 0 {
		return append(dst, id...)
	}
	dst = append(dst, "call_"...)
	dst = append(dst, exchange...)
	dst = append(dst, 'c')
	return strconv.AppendInt(dst, int64(n), 10)
}

// callIndex returns an item's position among the calls, -1 if it is none.
func (e *encoder) callIndex(item int32) int {
	for i := len(e.calls) - 1; i >= 0; i-- {
		if e.calls[i].item == item {
			return i
		}
	}
	return -1
}

func (e *encoder) arguments(dst []byte, ev *codec.Event, custom bool) []byte {
	n := e.callIndex(ev.Item)
	if n < 0 || e.calls[n].custom != custom || len(ev.Raw) == 0 {
		return dst
	}
	return e.fill(dst, n, ev.Raw)
}

// fill writes a fragment of the n-th call's arguments or input.
func (e *encoder) fill(dst []byte, n int, body []byte) []byte {
	e.calls[n].filled = true
	if e.legacy {
		if n > 0 {
			return dst
		}
		dst = append(e.openChunk(dst), `"function_call":{"arguments":"`...)
		return e.closeChunk(append(append(dst, body...), `"}`...))
	}
	dst = append(e.openChunk(dst), `"tool_calls":[{"index":`...)
	dst = strconv.AppendInt(dst, int64(n), 10)
	if e.calls[n].custom {
		dst = append(dst, `,"custom":{"input":"`...)
	} else {
		dst = append(dst, `,"function":{"arguments":"`...)
	}
	return e.closeChunk(append(append(dst, body...), `"}}]`...))
}

// complete gives a function call without arguments an empty object: SDKs fail on "" (P20).
func (e *encoder) complete(dst []byte, n int) []byte {
	if e.calls[n].filled || e.calls[n].custom {
		return dst
	}
	return e.fill(dst, n, []byte("{}"))
}

func (e *encoder) closeItem(dst []byte, ev *codec.Event) []byte {
	if n := e.callIndex(ev.Item); n >= 0 {
		return e.complete(dst, n)
	}
	if ev.Type == codec.ItemImage {
		return e.picture(dst, ev)
	}
	if e.reasoning.item == ev.Item {
		return e.flushReasoning(dst)
	}
	return dst
}

// picture writes an image in the member that OpenRouter and others use: the format has none.
func (e *encoder) picture(dst []byte, ev *codec.Event) []byte {
	dst = append(e.openChunk(e.begin(dst)), `"images":[{"index":`...)
	dst = strconv.AppendInt(dst, int64(e.pictures), 10)
	e.pictures++
	return e.closeChunk(append(appendPicture(append(dst, ','), e.media, ev.Raw), ']'))
}

// appendPicture writes the members of an image, and closes it.
func appendPicture(dst, media, data []byte) []byte {
	dst = append(dst, `"type":"image_url","image_url":{"url":"data:`...)
	dst = append(dst, media...)
	dst = append(dst, `;base64,`...)
	dst = append(dst, data...)
	return append(dst, `"}}`...)
}

// fail reports an error inside the stream: no finish reason, no [DONE], nothing after it.
func (e *encoder) fail(dst []byte, err *codec.Error) []byte {
	e.over = true
	if err == nil {
		err = errBroken
	}
	dst = append(dst, "data: "...)
	dst = client{}.AppendError(dst, err, &e.o)
	return append(dst, "\n\n"...)
}

var (
	errBroken    = codec.Errorf(codec.KindUpstream, "the answer broke off before it was complete")
	errMalformed = &codec.Error{
		Kind: codec.KindUpstream, Code: "malformed_tool_call", Message: "the model produced a tool call that cannot be read",
	}
)

func (e *encoder) end(dst []byte, end codec.End) []byte {
	switch {
	case end != codec.EndTerminal:
		return e.fail(dst, errBroken)
	case e.finish == codec.FinishMalformedCall:
		return e.fail(dst, errMalformed)
	}
	dst = e.flushReasoning(e.begin(dst))
	for n := range e.calls {
		dst = e.complete(dst, n)
	}
	if len(e.citations) > 0 {
		dst = append(e.openChunk(dst), `"annotations":[`...)
		dst = append(dst, e.citations...)
		dst = e.closeChunk(append(dst, ']'))
	}
	dst = append(dst, e.envelope...)
	dst = append(dst, `[{"index":0,"delta":{},"finish_reason":"`...)
	dst = append(dst, finishWord(e.finish, len(e.calls) > 0, e.legacy)...)
	dst = e.endChunk(append(dst, `"}]`...))
	if e.o.IncludeUsage {
		dst = append(dst, e.envelope...)
		dst = append(dst, `[],"usage":`...)
		usage := e.reported()
		dst = appendUsage(dst, &usage)
		dst = append(dst, "}\n\n"...)
	}
	e.over = true
	return append(dst, "data: [DONE]\n\n"...)
}

// reported returns the usage, or an estimate if the provider reported none, never zeros.
func (e *encoder) reported() codec.Usage {
	if e.counted {
		return e.usage
	}
	return estimate(&e.o, e.written)
}

// finishWord returns the client's finish reason. Whether tools are to be called depends on the calls that the client
// has seen, not on the provider's word (P95), but a truncated answer is never a finished call (P96).
func finishWord(f codec.FinishReason, called, legacy bool) string {
	switch {
	case f == codec.FinishLength || f == codec.FinishContext:
		return "length"
	case called && legacy:
		return "function_call"
	case called:
		return "tool_calls"
	case f == codec.FinishFilter:
		return "content_filter"
	}
	return "stop"
}

// legacyFunctions reports whether the client declared its tools in the old member functions.
func legacyFunctions(r *codec.Request) bool {
	if r == nil {
		return false
	}
	for i := range r.Tools {
		if string(r.Tools[i].WireType) == wireLegacy {
			return true
		}
	}
	return false
}
