package chat

import (
	"bytes"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
	"github.com/mnemeproxy/mneme/codec/template"
)

// decoder reads one stream. It emits text, reasoning and arguments as they arrive, and holds until the end what hosts
// send too early or more than once: the finish reason (content may follow it) and the usage (the last one wins).
type decoder struct {
	endsWithoutFinish bool

	started  bool // EventStart was emitted
	over     bool // nothing more is emitted except, after a failure, EventEnd
	ended    bool // EventEnd was emitted
	answered bool // a choice was seen
	choice   int64
	anyForm  bool // a frame may be a complete answer

	items int32          // ordinals assigned so far
	open  codec.ItemType // the open text, refusal or reasoning item; 0 if none is open
	item  int32          // its ordinal
	calls []call

	plainReasoning bool // reasoning arrived as strings: structured copies of it are not read again
	detail         detail

	finish   codec.FinishReason
	finished bool
	usage    codec.Usage
	tier     codec.Tier
	counted  bool // usage was reported
	template template.Delta
}

// NewDecoder starts to read one stream.
func (p provider) NewDecoder() codec.StreamDecoder {
	return &decoder{endsWithoutFinish: p.endsWithoutFinish}
}

// Reset prepares the decoder for another stream and keeps its memory.
func (d *decoder) Reset() {
	*d = decoder{endsWithoutFinish: d.endsWithoutFinish, calls: d.calls[:0], template: d.template.Emptied(), detail: d.detail.emptied()}
}

var done = []byte("[DONE]")

// Decode appends the events of one frame. After [DONE] or an error it reads nothing.
func (d *decoder) Decode(dst []codec.Event, name, data []byte) []codec.Event {
	if d.over {
		return dst
	}
	if ev := d.template.Match(nil, data); ev != nil {
		return d.repeat(dst, ev)
	}
	trimmed := bytes.TrimSpace(data)
	switch {
	case len(trimmed) == 0:
		return append(dst, codec.Event{Kind: codec.EventPing})
	case bytes.Equal(trimmed, done):
		return d.terminal(dst)
	case !scan.Valid(trimmed):
		return d.fail(dst, codec.Errorf(codec.KindUpstream, "the provider's stream cannot be read: a chunk %s", scan.Explain(trimmed)))
	}
	return d.chunk(dst, name, data)
}

// Repeats implements [codec.StreamDecoder].
func (d *decoder) Repeats() bool { return d.template.Fits() }

// Skipped implements [codec.StreamDecoder].
func (d *decoder) Skipped(*codec.Event) {}

// repeatable reports whether all chunks of the same template have the same meaning. The arguments of a call without an
// id have to be followed to their end, chunk by chunk.
func (d *decoder) repeatable(ev *codec.Event) bool {
	switch ev.Kind {
	case codec.EventText, codec.EventReasoning:
		return true
	case codec.EventArguments:
	default:
		return false
	}
	for i := range d.calls {
		if c := &d.calls[i]; c.opened && c.item == ev.Item {
			return len(c.id) > 0
		}
	}
	return false
}

// repeat appends the event of a chunk whose template is known. Only its item may have changed: something else may have come
// between.
func (d *decoder) repeat(dst []codec.Event, ev *codec.Event) []codec.Event {
	switch ev.Kind {
	case codec.EventText:
		return d.text(dst, codec.ItemText, ev.Raw)
	case codec.EventReasoning:
		return d.text(dst, codec.ItemReasoning, ev.Raw)
	}
	return append(dst, *ev) // arguments: a call stays open to the end
}

// chunk is the top level of one frame; the views are nil if the member is absent.
type chunk struct {
	id, model, created, object, kind, choices, usage, tier, failure []byte
}

func readChunk(data []byte) (c chunk) {
	for m := scan.Object(data); m.Next(); {
		switch string(m.Key) {
		case "id":
			c.id = scan.Body(m.Value)
		case "model":
			c.model = scan.Body(m.Value)
		case "created":
			c.created = m.Value
		case "object":
			c.object = scan.Body(m.Value)
		case "type":
			c.kind = scan.Body(m.Value)
		case "choices":
			c.choices = m.Value
		case "usage":
			c.usage = m.Value
		case "service_tier":
			c.tier = scan.Body(m.Value)
		case "error":
			c.failure = m.Value
		}
	}
	return c
}

// failed reports whether the chunk reports an error: in OpenAI's form, in the flat forms of Mistral and xAI, or by the
// name of its frame. A null error is none (P34 is the opposite case: an error next to empty choices is one).
func (c *chunk) failed(name []byte) bool {
	if !scan.IsNull(c.failure) && !scan.IsFalse(c.failure) && string(c.failure) != `""` {
		return true
	}
	return c.choices == nil && (string(name) == "error" || string(c.object) == "error" || string(c.kind) == "error")
}

func (d *decoder) chunk(dst []codec.Event, name, data []byte) []codec.Event {
	c := readChunk(data)
	if c.failed(name) {
		return d.fail(dst, readError(0, 0, data))
	}
	if c.tier != nil {
		d.tier = codec.ReadTier(c.tier)
	}
	if scan.IsObject(c.usage) {
		d.count(c.usage)
	}
	choices := scan.Array(c.choices)
	if !choices.Next() {
		if !d.started && !d.counted {
			return append(dst, codec.Event{Kind: codec.EventPing})
		}
		return dst
	}
	dst = d.start(dst, &c)
	before := len(dst)
	for more := true; more; more = choices.Next() {
		dst = d.readChoice(dst, choices.Value)
		if d.over {
			return dst
		}
	}
	if len(dst) == before+1 && d.repeatable(&dst[before]) {
		d.template.Learn(nil, data, &dst[before])
	}
	return dst
}

func (d *decoder) start(dst []codec.Event, c *chunk) []codec.Event {
	if d.started {
		return dst
	}
	d.started = true
	created, _ := scan.Int(c.created)
	return append(dst, codec.Event{
		Kind: codec.EventStart, ID: c.id, Model: c.model, Created: created, Usage: d.usage, Origin: codec.Chat,
	})
}

// readChoice reads one choice of a chunk. Only one choice makes an answer: the first one seen.
func (d *decoder) readChoice(dst []codec.Event, choice []byte) []codec.Event {
	var index int64
	var delta, finish, usage []byte
	for m := scan.Object(choice); m.Next(); {
		switch string(m.Key) {
		case "index":
			index, _ = scan.Int(m.Value)
		case "delta":
			delta = m.Value
		case "message":
			if d.anyForm && delta == nil {
				delta = m.Value
			}
		case "finish_reason":
			finish = scan.Body(m.Value)
		case "usage": // Moonshot reports it here
			usage = m.Value
		}
	}
	if !d.answered {
		d.answered, d.choice = true, index
	}
	if index != d.choice {
		return dst
	}
	if scan.IsObject(usage) {
		d.count(usage)
	}
	dst = d.delta(dst, delta, false)
	return d.stop(dst, finish)
}

// delta appends the events of a delta, or of the message of a complete answer, always in the order reasoning, text,
// refusal, calls.
func (d *decoder) delta(dst []codec.Event, delta []byte, whole bool) []codec.Event {
	var content, refusal, annotations, images, calls, function, extra []byte
	var r reasoning
	for m := scan.Object(delta); m.Next(); {
		switch string(m.Key) {
		case "content":
			content = m.Value
		case "refusal":
			refusal = scan.Body(m.Value)
		case "reasoning_content":
			r.content = scan.Body(m.Value)
		case "reasoning":
			r.plain = scan.Body(m.Value)
		case "thinking_blocks":
			r.blocks = m.Value
		case "reasoning_details":
			r.details = m.Value
		case "annotations":
			annotations = m.Value
		case "images":
			images = m.Value
		case "tool_calls":
			calls = m.Value
		case "function_call":
			function = m.Value
		case "extra_content":
			extra = m.Value
		}
	}
	if !r.empty() {
		dst = d.readReasoning(dst, &r)
	}
	dst = d.content(dst, content)
	dst = d.text(dst, codec.ItemRefusal, refusal)
	dst = d.annotations(dst, annotations)
	if extra != nil {
		dst = d.textSignature(dst, extra)
	}
	for e := scan.Array(images); e.Next(); {
		dst = d.picture(dst, e.Value)
	}
	dst = d.readCalls(dst, calls, whole)
	if scan.IsObject(function) {
		dst = d.readFunction(dst, function, whole)
	}
	if r.details != nil {
		dst = d.callSignatures(dst, r.details)
	}
	return dst
}

// content reads a string, or the typed chunks that Mistral sends; both may occur in one stream.
func (d *decoder) content(dst []codec.Event, content []byte) []codec.Event {
	if !scan.IsArray(content) {
		return d.text(dst, codec.ItemText, scan.Body(content))
	}
	for e := scan.Array(content); e.Next(); {
		var kind, text, thinking, signature []byte
		for m := scan.Object(e.Value); m.Next(); {
			switch string(m.Key) {
			case "type":
				kind = scan.Body(m.Value)
			case "text":
				text = scan.Body(m.Value)
			case "thinking":
				thinking = m.Value
			case "signature":
				signature = scan.Body(m.Value)
			}
		}
		switch string(kind) {
		case "text", "output_text":
			dst = d.text(dst, codec.ItemText, text)
		case "thinking":
			dst = d.thinkingChunk(dst, thinking, signature)
		case "image_url":
			dst = d.picture(dst, e.Value)
		default:
			dst = d.opaque(dst, e.Value)
		}
	}
	return dst
}

// text appends a fragment of text, refusal or reasoning, and opens its item first. An empty fragment opens nothing (P19).
func (d *decoder) text(dst []codec.Event, kind codec.ItemType, body []byte) []codec.Event {
	if len(body) == 0 {
		return dst
	}
	dst = d.enter(dst, kind)
	ev := codec.EventText
	switch kind {
	case codec.ItemRefusal:
		ev = codec.EventRefusal
	case codec.ItemReasoning:
		ev = codec.EventReasoning
	}
	return append(dst, codec.Event{Kind: ev, Item: d.item, Raw: body})
}

// enter opens an item of that type unless it is open. Of text, refusal and reasoning only one is open at a time.
func (d *decoder) enter(dst []codec.Event, kind codec.ItemType) []codec.Event {
	if d.open == kind {
		return dst
	}
	dst = d.leave(dst)
	d.open, d.item = kind, d.items
	d.items++
	return append(dst, codec.Event{Kind: codec.EventItemOpen, Type: kind, Item: d.item})
}

func (d *decoder) leave(dst []codec.Event) []codec.Event {
	if d.open == 0 {
		return dst
	}
	if d.open == codec.ItemReasoning {
		dst = d.endDetail(dst)
	}
	dst = append(dst, codec.Event{Kind: codec.EventItemClose, Type: d.open, Item: d.item})
	d.open = 0
	return dst
}

func (d *decoder) opaque(dst []codec.Event, raw []byte) []codec.Event {
	dst = d.leave(dst)
	item := d.items
	d.items++
	return append(dst,
		codec.Event{Kind: codec.EventItemOpen, Type: codec.ItemOpaque, Item: item},
		codec.Event{Kind: codec.EventItemClose, Type: codec.ItemOpaque, Item: item, Raw: raw, Origin: codec.Chat})
}

// annotations belong to the preceding text; without an open text item there is nothing to annotate.
func (d *decoder) annotations(dst []codec.Event, list []byte) []codec.Event {
	if d.open != codec.ItemText {
		return dst
	}
	for e := scan.Array(list); e.Next(); {
		if scan.IsObject(e.Value) {
			dst = append(dst, codec.Event{Kind: codec.EventAnnotation, Item: d.item, Raw: e.Value, Origin: codec.Chat})
		}
	}
	return dst
}

// stop notes a finish reason. The weightiest of several is kept (docs/wire/translation.md#1.4 and #3.1).
func (d *decoder) stop(dst []codec.Event, word []byte) []codec.Event {
	if len(word) == 0 {
		return dst
	}
	switch string(word) {
	case "error": // Mistral, OpenRouter
		return d.fail(dst, codec.Errorf(codec.KindUpstream, "the provider broke off the answer and gave no reason"))
	case "insufficient_system_resource": // DeepSeek
		return d.fail(dst, codec.Errorf(codec.KindOverloaded, "the provider broke off the answer: it is out of capacity"))
	}
	if reason := finishReason(word); !d.finished || weight(reason) > weight(d.finish) {
		d.finish = reason
	}
	d.finished = true
	return dst
}

// finishReason reads the finish reason. Words of other formats are included because hosts that front other models pass
// them on; an unknown word is an ordinary end.
func finishReason(word []byte) codec.FinishReason {
	switch string(word) {
	case "length", "model_length", "max_tokens", "MAX_TOKENS":
		return codec.FinishLength
	case "tool_calls", "function_call", "tool_use":
		return codec.FinishToolCalls
	case "content_filter", "refusal", "SAFETY", "PROHIBITED_CONTENT":
		return codec.FinishFilter
	case "stop_sequence":
		return codec.FinishStopSequence
	case "pause_turn":
		return codec.FinishPause
	case "model_context_window_exceeded":
		return codec.FinishContext
	case "malformed_function_call", "MALFORMED_FUNCTION_CALL":
		return codec.FinishMalformedCall
	}
	return codec.FinishEnd
}

// weight orders finish reasons: length over calls over filter over stop (docs/wire/translation.md#1.4).
func weight(f codec.FinishReason) int {
	switch f {
	case codec.FinishMalformedCall:
		return 4
	case codec.FinishLength, codec.FinishContext:
		return 3
	case codec.FinishToolCalls:
		return 2
	case codec.FinishFilter:
		return 1
	}
	return 0
}

// terminal handles [DONE]. A host may send it without a finish reason (P27), but not without an answer.
func (d *decoder) terminal(dst []codec.Event) []codec.Event {
	if !d.finished && d.items == 0 && len(d.calls) == 0 {
		return d.fail(dst, codec.Errorf(codec.KindUpstream, "the provider ended its stream without an answer"))
	}
	if d.finish == codec.FinishMalformedCall && d.items == 0 {
		return d.fail(dst, errMalformed)
	}
	dst = d.leave(dst)
	dst = d.closeCalls(dst)
	dst = append(dst, codec.Event{Kind: codec.EventFinish, Finish: d.finishOfItems()})
	dst = d.report(dst)
	return d.end(dst, codec.EndTerminal)
}

// finishOfItems corrects the reason by the items: calls make the finish a call, and no calls make it none (P95). If the
// host gave no reason, it is not known yet whether the calls are complete.
func (d *decoder) finishOfItems() codec.FinishReason {
	if !d.finished {
		return codec.FinishUnknown
	}
	called := false
	for i := range d.calls {
		called = called || d.calls[i].opened
	}
	switch {
	case called && d.finish == codec.FinishFilter: // it may have cut a call off
	case called && weight(d.finish) < weight(codec.FinishToolCalls):
		return codec.FinishToolCalls
	case !called && d.finish == codec.FinishToolCalls:
		return codec.FinishEnd
	}
	return d.finish
}

// report emits the usage, once.
func (d *decoder) report(dst []codec.Event) []codec.Event {
	if !d.counted {
		return dst
	}
	d.counted = false
	return append(dst, codec.Event{Kind: codec.EventUsage, Usage: d.usage})
}

func (d *decoder) end(dst []codec.Event, end codec.End) []codec.Event {
	d.over, d.ended = true, true
	return append(dst, codec.Event{Kind: codec.EventEnd, End: end})
}

func (d *decoder) fail(dst []codec.Event, err *codec.Error) []codec.Event {
	d.over = true
	dst = d.report(dst)
	return append(dst, codec.Event{Kind: codec.EventError, Err: err})
}

// Finish handles the end of the input. A stream that closes after a finish reason is complete without [DONE]; one that
// closes before it is not, unless the host is known to leave it out (docs/wire/translation.md#3.4). After [DONE]
// nothing is appended.
func (d *decoder) Finish(dst []codec.Event, end codec.End, residue []byte) []codec.Event {
	if d.ended {
		return dst
	}
	if end != codec.EndCancelled {
		dst = d.residue(dst, residue)
	}
	switch {
	case d.ended:
		return dst
	case end == codec.EndCancelled:
		return d.end(d.report(dst), codec.EndCancelled)
	case d.over:
		return d.end(dst, codec.EndBroken)
	case end != codec.EndBroken && (d.finished || d.endsWithoutFinish && d.items > 0):
		dst = d.terminal(dst)
	default:
		dst = d.fail(dst, codec.Errorf(codec.KindUpstream, "the provider's stream broke off before the answer was complete"))
	}
	if d.ended {
		return dst
	}
	return d.end(dst, codec.EndBroken)
}

// residue reads what has no frame end: a whole data line, or a bare JSON object that reports an error (P48). Half a
// frame is ignored.
func (d *decoder) residue(dst []codec.Event, residue []byte) []codec.Event {
	data := bytes.TrimSpace(residue)
	for line := range bytes.SplitSeq(data, []byte{'\n'}) {
		if value, found := bytes.CutPrefix(line, []byte("data:")); found {
			data = bytes.TrimSpace(value)
			break
		}
	}
	if bytes.Equal(data, done) || scan.IsObject(data) && scan.Valid(data) {
		return d.Decode(dst, nil, data)
	}
	return dst
}
