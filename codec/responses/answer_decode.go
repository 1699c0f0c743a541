package responses

import (
	"bytes"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
)

// wireItem is one item of an answer's output with the members that matter here.
type wireItem struct {
	kind                                 outputKind
	wireType, id, callID, name           []byte // string bodies
	namespace, arguments, input, encoded []byte // string bodies
	object                               []byte // arguments that a host sent as an object
	content, summary                     []byte
}

func readOutput(v []byte) (it wireItem) {
	for m := scan.Object(v); m.Next(); {
		switch string(m.Key) {
		case "type":
			it.wireType = scan.Body(m.Value)
		case "id":
			it.id = scan.Body(m.Value)
		case "call_id":
			it.callID = scan.Body(m.Value)
		case "name":
			it.name = scan.Body(m.Value)
		case "namespace":
			it.namespace = scan.Body(m.Value)
		case "arguments":
			it.arguments = scan.Body(m.Value)
			if scan.IsObject(m.Value) {
				it.object = m.Value
			}
		case "input":
			it.input = scan.Body(m.Value)
		case "encrypted_content":
			it.encoded = scan.Body(m.Value)
		case "content":
			it.content = m.Value
		case "summary":
			it.summary = m.Value
		}
	}
	it.kind = kindOfOutput(it.wireType)
	if it.callID == nil && (it.kind == outputCall || it.kind == outputCustomCall) {
		it.callID = it.id
	}
	return it
}

func kindOfOutput(wireType []byte) outputKind {
	switch string(wireType) {
	case typeMessage:
		return outputMessage
	case typeReasoning:
		return outputReasoning
	case typeCall:
		return outputCall
	case typeCustomCall:
		return outputCustomCall
	case typeWebSearch, "file_search_call", typeImageGeneration, "code_interpreter_call", "mcp_call",
		"mcp_list_tools":
		return outputServerTool
	}
	return outputOpaque
}

// match returns the known item that a complete item ends, or nil if it was never announced. The call id is the most
// reliable evidence, then the output index, then the item's id.
func (d *streamDecoder) match(v []byte, index int64) *outputItem {
	w := readOutput(v)
	if len(w.callID) > 0 {
		for i := range d.items {
			if it := &d.items[i]; it.kind == w.kind && bytes.Equal(it.callID, w.callID) {
				return it
			}
		}
	}
	for i := range d.items {
		if it := &d.items[i]; it.kind == w.kind && index >= 0 && it.index == index && !it.closed {
			return it
		}
	}
	for i := range d.items {
		it := &d.items[i]
		if it.kind != w.kind {
			continue
		}
		if same := len(w.id) > 0 && bytes.Equal(it.id, w.id); same && (!it.closed || it.index == index) {
			return it
		}
		if index < 0 && !it.closed {
			return it
		}
	}
	return nil
}

// itemAdded opens an item if it can be opened yet: a call whose name is known, or a tool of the provider. Messages and
// reasoning open with their first text, so that an empty one leaves no trace (pitfall P19).
func (d *streamDecoder) itemAdded(dst []codec.Event, f *frame) []codec.Event {
	dst = d.begin(dst)
	w := readOutput(f.item)
	it := d.add(w.kind, w.id, w.callID, f.output)
	if w.kind == outputMessage || w.kind == outputReasoning {
		return dst
	}
	return d.openItem(dst, it, &w)
}

func (d *streamDecoder) openItem(dst []codec.Event, it *outputItem, w *wireItem) []codec.Event {
	ev := codec.Event{CallID: w.callID, Name: w.name, Namespace: w.namespace}
	switch it.kind {
	case outputCall, outputCustomCall:
		if len(w.name) == 0 || len(w.callID) == 0 {
			return dst // opened later, with the complete item (pitfall P11)
		}
		ev.Type = codec.ItemToolCall
		if it.kind == outputCustomCall {
			ev.Type = codec.ItemCustomCall
		}
		if len(w.namespace) == 0 {
			ev.Namespace = nil
		}
	case outputServerTool:
		ev.Type, ev.Name = codec.ItemServerTool, w.wireType
	default:
		ev.Type, ev.Name = codec.ItemOpaque, w.wireType
	}
	return d.open(dst, it, ev)
}

// itemDone decodes a complete item: everything that its deltas did not contain, and then its end. it is nil for an item
// that was never announced.
func (d *streamDecoder) itemDone(dst []codec.Event, v []byte, it *outputItem, index int64) []codec.Event {
	if !scan.IsObject(v) || it != nil && it.closed {
		return dst
	}
	dst = d.begin(dst)
	w := readOutput(v)
	if it == nil {
		it = d.add(w.kind, w.id, w.callID, index)
	}
	switch it.kind {
	case outputMessage:
		dst = d.messageDone(dst, it, w.content)
	case outputReasoning:
		dst = d.reasoningItemDone(dst, it, &w)
	case outputCall, outputCustomCall:
		dst = d.callItemDone(dst, it, &w)
	default:
		dst = d.openItem(dst, it, &w)
		it.closed = true
		return append(dst, codec.Event{
			Kind: codec.EventItemClose, Item: it.ordinal, Type: it.itemType(), Raw: v, Origin: codec.Responses,
		})
	}
	if d.ended {
		return dst
	}
	return closeItem(dst, it)
}

func (it *outputItem) itemType() codec.ItemType {
	switch it.kind {
	case outputReasoning:
		return codec.ItemReasoning
	case outputCall:
		return codec.ItemToolCall
	case outputCustomCall:
		return codec.ItemCustomCall
	case outputServerTool:
		return codec.ItemServerTool
	}
	return codec.ItemOpaque
}

// closeItem closes an item and all of its parts.
func closeItem(dst []codec.Event, it *outputItem) []codec.Event {
	if it.closed {
		return dst
	}
	it.closed = true
	if it.kind == outputMessage {
		return closeParts(dst, it)
	}
	if !it.opened {
		return dst
	}
	return append(dst, codec.Event{Kind: codec.EventItemClose, Item: it.ordinal, Type: it.itemType()})
}

func (d *streamDecoder) messageDone(dst []codec.Event, it *outputItem, content []byte) []codec.Event {
	i := int64(0)
	for e := scan.Array(content); e.Next() && !d.ended; i++ {
		dst = d.partRepeated(dst, it, i, e.Value)
	}
	return dst
}

// partRepeated decodes a complete part of a message.
func (d *streamDecoder) partRepeated(dst []codec.Event, it *outputItem, i int64, part []byte) []codec.Event {
	var text, refusal, annotations []byte
	for m := scan.Object(part); m.Next(); {
		switch string(m.Key) {
		case "text":
			text = scan.Body(m.Value)
		case "refusal":
			refusal = scan.Body(m.Value)
		case "annotations":
			annotations = m.Value
		}
	}
	dst = d.partWhole(dst, it, i, codec.ItemText, text)
	if len(refusal) > 0 && !d.ended {
		dst = d.partWhole(dst, it, i, codec.ItemRefusal, refusal)
	}
	if p := it.contentPart(i); d.ended || p == nil || p.annotated || !p.opened {
		return dst
	}
	for a := scan.Array(annotations); a.Next(); {
		if scan.IsObject(a.Value) {
			dst = d.partAnnotation(dst, it, i, a.Value)
		}
	}
	return dst
}

// reasoningItemDone emits the parts that had no deltas, and the state, which is complete only here
// (docs/wire/responses.md#7.4).
func (d *streamDecoder) reasoningItemDone(dst []codec.Event, it *outputItem, w *wireItem) []codec.Event {
	dst = d.reasoningParts(dst, it, w.summary, it.summaries, false)
	dst = d.reasoningParts(dst, it, w.content, it.contents, true)
	if len(w.encoded) == 0 {
		return dst
	}
	dst = d.open(dst, it, codec.Event{Type: codec.ItemReasoning})
	return append(dst, codec.Event{
		Kind: codec.EventSignature, Item: it.ordinal, Raw: w.encoded, Family: codec.FamilyOpenAI,
	})
}

// reasoningParts decodes complete parts of a reasoning item, of which the first ones were streamed.
func (d *streamDecoder) reasoningParts(dst []codec.Event, it *outputItem, list []byte, streamed int, full bool) []codec.Event {
	i := 0
	for e := scan.Array(list); e.Next(); i++ {
		text, part := scan.Body(scan.Get(e.Value, "text")), reasoningPart{full: full, index: int64(i)}
		if i < streamed {
			if it.part != part {
				continue
			}
			text, _ = d.missing(it.ordinal, text)
		}
		if len(text) > 0 {
			dst = d.reasoningText(dst, it, part, text)
		}
	}
	return dst
}

func (d *streamDecoder) callItemDone(dst []codec.Event, it *outputItem, w *wireItem) []codec.Event {
	dst = d.openItem(dst, it, w)
	if !it.opened {
		return dst
	}
	body := w.arguments
	if it.kind == outputCustomCall {
		body = w.input
	}
	if w.object != nil {
		body = scan.Escape(nil, w.object)
	}
	return d.callWhole(dst, it, body)
}

// terminal decodes the response object that ends an answer.
func (d *streamDecoder) terminal(dst []codec.Event, f *frame) []codec.Event {
	return d.response(dst, &f.response, bytes.TrimPrefix(f.kind, []byte("response.")))
}

// response has the members of a response object that are used here, raw.
type response struct {
	object                               []byte // all of it
	head                                 responseHead
	status, output, details, usage, tier []byte
}

// read decodes a response object, and reports whether the text of its members is valid.
func (r *response) read(object []byte) bool {
	valid := true
	for m := scan.Object(object); m.Next(); {
		valid = r.take(&m) && valid
	}
	r.object = object
	return valid
}

// take stores a member, and reports whether its text is valid. The text of members that repeat the request is not
// checked.
func (r *response) take(m *scan.Members) bool {
	r.head.take(m)
	switch string(m.Key) {
	case "status":
		r.status = m.Value
	case "output":
		r.output = m.Value
	case "incomplete_details":
		r.details = m.Value
	case "usage":
		r.usage = m.Value
	case "service_tier":
		r.tier = scan.Body(m.Value)
	}
	return repeatsRequest(m.Key) || scan.TextIsValid(m.Value)
}

// repeatsRequest reports whether a member of a response object repeats a possibly long one of the request. It is not
// used here, so its strings are not checked.
func repeatsRequest(name []byte) bool {
	return string(name) == "instructions" || string(name) == "tools"
}

// response decodes a complete response object: its items unless they were streamed, then how it ended. status is the
// one that the event's name implies; the object's own status takes precedence.
func (d *streamDecoder) response(dst []codec.Event, r *response, status []byte) []codec.Event {
	if own := scan.Body(r.status); len(own) > 0 {
		status = own
	}
	switch string(status) {
	case "completed", "incomplete":
	case "failed":
		return d.fail(appendUsage(dst, r.usage, r.tier), errorIn(r.object))
	default:
		return d.fail(appendUsage(dst, r.usage, r.tier), codec.Errorf(codec.KindUpstream, "The provider ended the answer without completing it."))
	}
	if !d.started {
		dst = d.start(dst, r.head)
	}
	if dst = d.output(dst, r.output); d.ended {
		return dst
	}
	for i := range d.items {
		dst = closeItem(dst, &d.items[i])
	}
	dst = append(dst, codec.Event{Kind: codec.EventFinish, Finish: d.finish(status, r.details)})
	dst = appendUsage(dst, r.usage, r.tier)
	return d.end(dst, codec.EndTerminal)
}

// output emits the items of the terminal event that were not in the stream. Items are identified by their position
// among those of their kind, because ids in the terminal event have been seen to differ from those in the stream.
func (d *streamDecoder) output(dst []codec.Event, list []byte) []codec.Event {
	var place [outputOpaque + 1]int
	index := int64(0)
	for e := scan.Array(list); e.Next() && !d.ended; index++ {
		kind := readOutput(e.Value).kind
		it := d.nth(kind, place[kind])
		place[kind]++
		dst = d.itemDone(dst, e.Value, it, index)
	}
	return dst
}

func (d *streamDecoder) nth(kind outputKind, n int) *outputItem {
	for i := range d.items {
		if d.items[i].kind != kind {
			continue
		}
		if n == 0 {
			return &d.items[i]
		}
		n--
	}
	return nil
}

// finish returns the finish reason, derived from what was emitted and not only from the provider's status (pitfalls
// P95, P96).
func (d *streamDecoder) finish(status, details []byte) codec.FinishReason {
	if string(status) == "incomplete" {
		if string(scan.Body(scan.Get(details, "reason"))) == "content_filter" {
			return codec.FinishFilter
		}
		return codec.FinishLength // whatever the cause, a truncated answer must not look finished
	}
	switch {
	case d.called:
		return codec.FinishToolCalls
	case d.refused:
		return codec.FinishFilter
	}
	return codec.FinishEnd
}

// appendUsage reports the usage object, if there is one, with the service tier of the answer.
func appendUsage(dst []codec.Event, v, tier []byte) []codec.Event {
	if !scan.IsObject(v) {
		return dst
	}
	u := codec.Usage{Tier: codec.ReadTier(tier)}
	var total, read, write int64
	for m := scan.Object(v); m.Next(); {
		switch string(m.Key) {
		case "input_tokens":
			total = tokens(m.Value)
		case "output_tokens":
			u.Output = tokens(m.Value)
		case "input_tokens_details":
			read = tokens(scan.Get(m.Value, "cached_tokens"))
			write = tokens(scan.Get(m.Value, "cache_write_tokens"))
			u.CacheLong = tokens(scan.Path(m.Value, "cache_write_tokens_details", "ttl_12h_tokens"))
		case "output_tokens_details":
			u.Reasoning = tokens(scan.Get(m.Value, "reasoning_tokens"))
		}
	}
	u.SplitInput(total, read, write)
	return append(dst, codec.Event{Kind: codec.EventUsage, Usage: u})
}

// tokens reads a count; anything else is 0.
func tokens(v []byte) int64 {
	n, _ := codec.ReadTokens(v)
	return n
}

// repeated remembers the tools and instructions that answers repeat from their requests.
var repeated codec.Recurrence

// DecodeAnswer implements [codec.ProviderCodec]: a complete answer is a terminal event without a preceding stream.
func (provider) DecodeAnswer(dst []codec.Event, body []byte, account string) []codec.Event {
	var d streamDecoder
	r, valid := response{object: body}, true
	skip := func(doc []byte, i int) (end int, ok bool) { return repeated.Skip(account, doc, i) }
	object := scan.ReadObject(body, skip, func(m *scan.Members) { valid = r.take(m) && valid })
	switch {
	case !object || !valid:
		return d.fail(dst, codec.Errorf(codec.KindUpstream, "The provider's answer cannot be read: it is not a JSON object."))
	case r.status == nil && r.output == nil:
		return d.fail(dst, errorIn(body))
	}
	return d.response(dst, &r, []byte("completed"))
}
