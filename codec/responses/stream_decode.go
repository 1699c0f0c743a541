package responses

import (
	"bytes"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
	"github.com/mnemeproxy/mneme/codec/template"
)

// streamDecoder decodes one answer. It remembers what it has seen of every item, because hosts differ in what they
// send: deltas followed by the complete item, complete items only, ids that change in between, or nothing but the
// terminal event.
type streamDecoder struct {
	items   []outputItem
	last    int   // items[last] had the latest delta
	ordinal int32 // of the next content item
	started bool
	ended   bool
	called  bool // a call was opened
	refused bool // a refusal was opened
	delta   template.Delta
	bodies  []streamed // by content item
}

// outputItem is one item of the answer, possibly incomplete.
type outputItem struct {
	kind     outputKind
	index    int64  // output_index, -1 if the host sent none
	id       []byte // owned
	callID   []byte // owned
	ordinal  int32  // of the content item; for messages each part has its own
	opened   bool
	closed   bool
	streamed bool // part of the body was emitted

	parts []contentPart // of a message, by content_index

	// Of a reasoning item: the part that had the latest delta, its ordinal, and how many of each kind there were.
	sub       int32
	part      reasoningPart
	summaries int
	contents  int
}

// contentPart is a part of a message: a content item of its own.
type contentPart struct {
	ordinal   int32
	kind      codec.ItemType
	opened    bool
	closed    bool
	streamed  bool
	annotated bool
}

// reasoningPart identifies a summary or content part of a reasoning item.
type reasoningPart struct {
	full  bool // reasoning_text rather than summary_text
	index int64
}

type outputKind uint8

const (
	outputMessage outputKind = iota + 1
	outputReasoning
	outputCall
	outputCustomCall
	outputServerTool
	outputPicture // written only
	outputOpaque
)

// NewDecoder implements [codec.ProviderCodec].
func (provider) NewDecoder() codec.StreamDecoder { return new(streamDecoder) }

func (d *streamDecoder) Reset() {
	*d = streamDecoder{items: d.items[:0], bodies: d.bodies[:0], delta: d.delta.Emptied()}
}

// maxParts bounds content_index, because a number from outside must not determine the size of a slice.
const maxParts = 1 << 10

// frame has the members of one event that are used here, raw.
type frame struct {
	kind, itemID             []byte // string bodies
	delta, text, refusal     []byte // string bodies
	arguments, input         []byte // string bodies
	item, part               []byte
	annotation, err          []byte
	response                 response
	output, content, summary int64
}

// read decodes data that has not been validated, and reports whether it is an event.
func (f *frame) read(data []byte) bool {
	*f = frame{output: -1}
	valid := true
	object := scan.ReadObject(data, scan.SkipValid, func(m *scan.Members) {
		if string(m.Key) == "response" {
			valid = f.response.read(m.Value) && valid
			return
		}
		f.take(m)
		valid = valid && scan.TextIsValid(m.Value)
	})
	return object && valid
}

func (f *frame) take(m *scan.Members) {
	switch string(m.Key) {
	case "type":
		f.kind = scan.Body(m.Value)
	case "delta":
		f.delta = scan.Body(m.Value)
	case "item_id":
		f.itemID = scan.Body(m.Value)
	case "output_index":
		f.output = index(m.Value, -1)
	case "content_index":
		f.content = index(m.Value, 0)
	case "summary_index":
		f.summary = index(m.Value, 0)
	case "text":
		f.text = scan.Body(m.Value)
	case "refusal":
		f.refusal = scan.Body(m.Value)
	case "arguments":
		f.arguments = scan.Body(m.Value)
	case "input":
		f.input = scan.Body(m.Value)
	case "item":
		f.item = m.Value
	case "part":
		f.part = m.Value
	case "annotation":
		f.annotation = m.Value
	case "error":
		f.err = m.Value
	}
}

func index(v []byte, fallback int64) int64 {
	if n, ok := scan.Int(v); ok && n >= 0 {
		return n
	}
	return fallback
}

// Decode implements [codec.StreamDecoder].
func (d *streamDecoder) Decode(dst []codec.Event, name, data []byte) []codec.Event {
	if d.ended {
		return dst
	}
	if ev := d.delta.Match(name, data); ev != nil {
		d.heard(ev)
		return append(dst, *ev)
	}
	if len(data) == 0 {
		return append(dst, codec.Event{Kind: codec.EventPing})
	}
	if string(data) == "[DONE]" {
		return dst // not part of this format, but some hosts send it after the terminal event
	}
	var f frame
	if !f.read(data) {
		return d.fail(dst, codec.Errorf(codec.KindUpstream, "The provider sent an event that cannot be read."))
	}
	if f.kind == nil {
		f.kind = name
	}
	before := len(dst)
	dst = d.event(dst, &f, data)
	d.learn(dst[before:], &f, name, data)
	return dst
}

// Repeats implements [codec.StreamDecoder].
func (d *streamDecoder) Repeats() bool { return d.delta.Fits() }

// Skipped implements [codec.StreamDecoder]: the end of an item repeats its text.
func (d *streamDecoder) Skipped(ev *codec.Event) { d.heard(ev) }

// learn remembers the template of a delta. Events between deltas can change the meaning of the next one: its item may
// be closed, or a different one. A "done" event also has a text if no delta did, but only once.
func (d *streamDecoder) learn(events []codec.Event, f *frame, name, data []byte) {
	if len(events) == 1 && !bytes.HasSuffix(f.kind, []byte(".done")) {
		switch ev := &events[0]; ev.Kind {
		case codec.EventPing:
			return
		case codec.EventText, codec.EventRefusal, codec.EventReasoning, codec.EventArguments, codec.EventCustomInput:
			if !ev.Whole {
				d.delta.Learn(name, data, ev)
				return
			}
		}
	}
	d.delta.Forget()
}

func (d *streamDecoder) event(dst []codec.Event, f *frame, data []byte) []codec.Event {
	switch string(f.kind) {
	case "response.output_text.delta":
		return d.text(dst, f, codec.ItemText, f.delta)
	case "response.function_call_arguments.delta":
		return d.call(dst, f, outputCall, f.delta)
	case "response.custom_tool_call_input.delta":
		return d.call(dst, f, outputCustomCall, f.delta)
	case "response.reasoning_summary_text.delta":
		return d.reasoning(dst, f, reasoningPart{index: f.summary}, f.delta)
	case "response.reasoning_text.delta", "response.reasoning.delta":
		return d.reasoning(dst, f, reasoningPart{full: true, index: f.content}, f.delta)
	case "response.refusal.delta":
		return d.text(dst, f, codec.ItemRefusal, f.delta)

	case "response.output_text.done":
		return d.textDone(dst, f, codec.ItemText, f.text)
	case "response.refusal.done":
		return d.textDone(dst, f, codec.ItemRefusal, f.refusal)
	case "response.reasoning_summary_text.done":
		return d.reasoningDone(dst, f, reasoningPart{index: f.summary}, f.text)
	case "response.reasoning_text.done", "response.reasoning.done":
		return d.reasoningDone(dst, f, reasoningPart{full: true, index: f.content}, f.text)
	case "response.function_call_arguments.done":
		return d.callDone(dst, f, outputCall, f.arguments)
	case "response.custom_tool_call_input.done":
		return d.callDone(dst, f, outputCustomCall, f.input)
	case "response.output_text.annotation.added":
		return d.annotation(dst, f)

	case "response.content_part.done":
		return d.partDone(dst, f)
	case "response.reasoning_summary_part.done":
		return d.reasoningDone(dst, f, reasoningPart{index: f.summary}, scan.Body(scan.Get(f.part, "text")))
	case "response.content_part.added", "response.reasoning_summary_part.added":
		return dst // the text itself opens it
	case "response.output_item.added":
		return d.itemAdded(dst, f)
	case "response.output_item.done":
		return d.itemDone(dst, f.item, d.match(f.item, f.output), f.output)

	case "response.created", "response.queued", "response.in_progress":
		if !d.started {
			return d.start(dst, f.response.head)
		}
	case "response.completed", "response.incomplete", "response.failed", "response.cancelled":
		return d.terminal(dst, f)
	case "error":
		return d.fail(dst, errorIn(data))
	case "":
		if f.err != nil && !scan.IsNull(f.err) {
			return d.fail(dst, errorIn(data))
		}
	}
	return append(dst, codec.Event{Kind: codec.EventPing})
}

// Finish implements [codec.StreamDecoder]. Only a terminal event makes an answer of this format complete.
func (d *streamDecoder) Finish(dst []codec.Event, end codec.End, residue []byte) []codec.Event {
	if data := residueData(residue); scan.IsObject(data) && scan.Valid(data) {
		dst = d.Decode(dst, nil, data)
	}
	if d.ended {
		return dst
	}
	if end == codec.EndCancelled {
		return d.end(dst, end)
	}
	return d.fail(dst, codec.Errorf(codec.KindUpstream, "The provider ended the stream before the answer was complete."))
}

// residueData returns the data of a last frame without its blank line, or of bare JSON in its place; an incomplete
// frame is neither.
func residueData(residue []byte) []byte {
	for line := range bytes.Lines(residue) {
		if data, found := bytes.CutPrefix(line, []byte("data:")); found {
			return bytes.TrimSpace(data)
		}
	}
	return bytes.TrimSpace(residue)
}

func (d *streamDecoder) end(dst []codec.Event, end codec.End) []codec.Event {
	d.ended = true
	return append(dst, codec.Event{Kind: codec.EventEnd, End: end})
}

func (d *streamDecoder) fail(dst []codec.Event, err *codec.Error) []codec.Event {
	dst = append(dst, codec.Event{Kind: codec.EventError, Err: err})
	return d.end(dst, codec.EndBroken)
}

// begin emits EventStart if the host omitted its own start.
func (d *streamDecoder) begin(dst []codec.Event) []codec.Event {
	if d.started {
		return dst
	}
	return d.start(dst, responseHead{})
}

// responseHead has the members of a response object that start an answer.
type responseHead struct {
	id, model []byte // string bodies
	created   int64
}

// take stores a member, if it belongs to the head.
func (h *responseHead) take(m *scan.Members) {
	switch string(m.Key) {
	case "id":
		h.id = scan.Body(m.Value)
	case "model":
		h.model = scan.Body(m.Value)
	case "created_at":
		h.created, _ = scan.Int(m.Value)
	}
}

func (d *streamDecoder) start(dst []codec.Event, h responseHead) []codec.Event {
	d.started = true
	return append(dst, codec.Event{Kind: codec.EventStart, Family: codec.FamilyOpenAI, ID: h.id, Model: h.model, Created: h.created})
}

// text decodes a piece of a message's text or refusal.
func (d *streamDecoder) text(dst []codec.Event, f *frame, kind codec.ItemType, body []byte) []codec.Event {
	if len(body) == 0 {
		return dst
	}
	it := d.findOrAdd(f, outputMessage)
	if it == nil {
		return dst
	}
	return d.partText(d.begin(dst), it, f.content, kind, body)
}

func (d *streamDecoder) textDone(dst []codec.Event, f *frame, kind codec.ItemType, body []byte) []codec.Event {
	it, known := d.find(f, outputMessage)
	if !known {
		return d.text(dst, f, kind, body)
	}
	if it == nil {
		return dst
	}
	return d.partWhole(dst, it, f.content, kind, body)
}

// partWhole decodes the complete text of a part, whose deltas had all of it, its beginning or nothing (pitfalls P22, P23).
func (d *streamDecoder) partWhole(dst []codec.Event, it *outputItem, i int64, kind codec.ItemType, body []byte) []codec.Event {
	p := it.contentPart(i)
	if p == nil || len(body) == 0 {
		return dst
	}
	if p.streamed {
		rest, contradicts := d.missing(p.ordinal, body)
		if contradicts || p.closed && len(rest) > 0 {
			return d.fail(dst, errContradiction)
		}
		body = rest
	}
	if len(body) == 0 {
		return dst
	}
	return d.partText(d.begin(dst), it, i, kind, body)
}

func (d *streamDecoder) partText(dst []codec.Event, it *outputItem, i int64, kind codec.ItemType, body []byte) []codec.Event {
	p := it.contentPart(i)
	if p == nil || p.closed {
		return dst
	}
	dst = d.openPart(dst, it, p, kind)
	p.streamed = true
	ev := codec.Event{Kind: codec.EventText, Item: p.ordinal, Raw: body}
	if p.kind == codec.ItemRefusal {
		ev.Kind = codec.EventRefusal
	}
	d.heard(&ev)
	return append(dst, ev)
}

// contentPart returns the part with that index; nil if the index is implausible.
func (it *outputItem) contentPart(i int64) *contentPart {
	if i >= maxParts {
		return nil
	}
	for int64(len(it.parts)) <= i {
		it.parts = append(it.parts, contentPart{})
	}
	return &it.parts[i]
}

// openPart opens a part once it has content, and closes the message's other open parts.
func (d *streamDecoder) openPart(dst []codec.Event, it *outputItem, p *contentPart, kind codec.ItemType) []codec.Event {
	if p.opened {
		return dst
	}
	dst = closeParts(dst, it)
	p.opened, p.kind, p.ordinal = true, kind, d.nextOrdinal()
	if kind == codec.ItemRefusal {
		d.refused = true
	}
	return append(dst, codec.Event{Kind: codec.EventItemOpen, Item: p.ordinal, Type: kind, ID: it.id})
}

func closeParts(dst []codec.Event, it *outputItem) []codec.Event {
	for i := range it.parts {
		dst = closePart(dst, &it.parts[i])
	}
	return dst
}

func closePart(dst []codec.Event, p *contentPart) []codec.Event {
	if !p.opened || p.closed {
		return dst
	}
	p.closed = true
	return append(dst, codec.Event{Kind: codec.EventItemClose, Item: p.ordinal, Type: p.kind})
}

func (d *streamDecoder) partDone(dst []codec.Event, f *frame) []codec.Event {
	it, _ := d.find(f, outputMessage)
	if it == nil || f.content >= int64(len(it.parts)) || !bytes.Equal(it.id, f.itemID) {
		return dst
	}
	if dst = d.partRepeated(dst, it, f.content, f.part); d.ended {
		return dst
	}
	return closePart(dst, &it.parts[f.content])
}

func (d *streamDecoder) annotation(dst []codec.Event, f *frame) []codec.Event {
	if !scan.IsObject(f.annotation) {
		return dst
	}
	it := d.findOrAdd(f, outputMessage)
	if it == nil {
		return dst
	}
	return d.partAnnotation(d.begin(dst), it, f.content, f.annotation)
}

func (d *streamDecoder) partAnnotation(dst []codec.Event, it *outputItem, i int64, raw []byte) []codec.Event {
	p := it.contentPart(i)
	if p == nil || p.closed || p.opened && p.kind != codec.ItemText {
		return dst
	}
	dst = d.openPart(dst, it, p, codec.ItemText)
	p.annotated = true
	return append(dst, codec.Event{Kind: codec.EventAnnotation, Item: p.ordinal, Raw: raw, Origin: codec.Responses})
}

// reasoning decodes a piece of a reasoning item's visible text.
func (d *streamDecoder) reasoning(dst []codec.Event, f *frame, part reasoningPart, body []byte) []codec.Event {
	if len(body) == 0 {
		return dst
	}
	it := d.findOrAdd(f, outputReasoning)
	if it == nil {
		return dst
	}
	return d.reasoningText(d.begin(dst), it, part, body)
}

func (d *streamDecoder) reasoningDone(dst []codec.Event, f *frame, part reasoningPart, body []byte) []codec.Event {
	it, known := d.find(f, outputReasoning)
	switch {
	case known && it == nil:
		return dst
	case known && it.part == part:
		// Reasoning that was streamed otherwise is kept as it is: nothing is done with it.
		body, _ = d.missing(it.ordinal, body)
	}
	return d.reasoning(dst, f, part, body)
}

func (d *streamDecoder) reasoningText(dst []codec.Event, it *outputItem, part reasoningPart, body []byte) []codec.Event {
	dst = d.open(dst, it, codec.Event{Type: codec.ItemReasoning})
	if it.part != part {
		it.part = part
		it.sub++
		d.bodies[it.ordinal] = streamed{}
		if part.full {
			it.contents++
		} else {
			it.summaries++
		}
	}
	ev := codec.Event{Kind: codec.EventReasoning, Item: it.ordinal, Sub: it.sub, Raw: body, Summary: !part.full}
	d.heard(&ev)
	return append(dst, ev)
}

// open opens an item other than a message, once. ev has its type and names.
func (d *streamDecoder) open(dst []codec.Event, it *outputItem, ev codec.Event) []codec.Event {
	if it.opened {
		return dst
	}
	it.opened, it.ordinal = true, d.nextOrdinal()
	ev.Kind, ev.Item, ev.ID = codec.EventItemOpen, it.ordinal, it.id
	if it.kind == outputCall || it.kind == outputCustomCall {
		d.called = true
	}
	return append(dst, ev)
}

// call decodes a piece of a call's arguments or input. While the call's name is unknown, pieces are ignored, because
// the item's end has all of it.
func (d *streamDecoder) call(dst []codec.Event, f *frame, kind outputKind, body []byte) []codec.Event {
	if len(body) == 0 {
		return dst
	}
	it, _ := d.find(f, kind)
	if it == nil || !it.opened {
		return dst
	}
	return d.callBody(dst, it, body, false)
}

// callDone decodes a call's complete arguments.
func (d *streamDecoder) callDone(dst []codec.Event, f *frame, kind outputKind, body []byte) []codec.Event {
	it, _ := d.find(f, kind)
	if it == nil || !it.opened {
		return dst
	}
	return d.callWhole(dst, it, body)
}

// callWhole decodes the complete body of a call, whose deltas had all of it, its beginning or nothing (pitfalls P22, P23).
// A call that is not what its deltas said must not be run.
func (d *streamDecoder) callWhole(dst []codec.Event, it *outputItem, body []byte) []codec.Event {
	if !it.streamed {
		if len(body) == 0 {
			return dst
		}
		return d.callBody(dst, it, body, true)
	}
	rest, contradicts := d.missing(it.ordinal, body)
	if contradicts {
		return d.fail(dst, errContradiction)
	}
	if len(rest) == 0 {
		return dst
	}
	return d.callBody(dst, it, rest, false)
}

func (d *streamDecoder) callBody(dst []codec.Event, it *outputItem, body []byte, whole bool) []codec.Event {
	it.streamed = true
	kind := codec.EventArguments
	if it.kind == outputCustomCall {
		kind = codec.EventCustomInput
	}
	ev := codec.Event{Kind: kind, Item: it.ordinal, Raw: body, Whole: whole}
	d.heard(&ev)
	return append(dst, ev)
}
