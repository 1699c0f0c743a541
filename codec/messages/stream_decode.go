package messages

import (
	"bytes"
	"slices"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
	"github.com/mnemeproxy/mneme/codec/template"
)

func (provider) NewDecoder() codec.StreamDecoder { return new(decoder) }

// decoder decodes one stream.
type decoder struct {
	started bool // message_start was seen, or something that implies it
	stopped bool // a stop reason was seen: only the end of the answer is missing
	failed  bool // an error was reported; only the end follows
	ended   bool // the end was reported; nothing follows
	spoke   bool // some text was reported

	items int32 // content items so far
	usage codec.Usage

	blocks  []block // open ones; more than one only if a provider interleaves them
	scratch []byte  // memory that the events of one call point into, besides the frame
	delta   template.Delta
}

// block is an open content block.
type block struct {
	index  int64
	item   int32
	kind   codec.ItemType
	deltas bool   // its payload came in deltas
	whole  []byte // the block as it started, for tools that the provider ran and for unknown types; for a call, its input
	input  []byte // string body: the fragments of a server tool's input
}

func (d *decoder) Reset() {
	*d = decoder{blocks: d.blocks[:0], scratch: emptied(d.scratch), delta: d.delta.Emptied()}
}

// maxOpenBlocks is how many blocks may be open at a time. Providers open one; the format allows more.
const maxOpenBlocks = 256

var doneMark = []byte("[DONE]")

func (d *decoder) Decode(dst []codec.Event, name, data []byte) []codec.Event {
	d.scratch = d.scratch[:0]
	if d.ended || d.failed || len(data) == 0 || bytes.Equal(data, doneMark) {
		return dst
	}
	if ev := d.delta.Match(name, data); ev != nil {
		return append(dst, *ev)
	}
	if !scan.Valid(data) || !scan.IsObject(data) {
		return d.fail(dst, codec.Errorf(codec.KindUpstream, "the provider sent an event that is not JSON"))
	}
	before := len(dst)
	dst = d.event(dst, readFrame(name, data))
	d.learn(dst[before:], name, data)
	return dst
}

// Repeats implements [codec.StreamDecoder].
func (d *decoder) Repeats() bool { return d.delta.Fits() }

// Skipped implements [codec.StreamDecoder].
func (d *decoder) Skipped(*codec.Event) {}

// learn remembers the template of a frame that continued a text. Frames between these can change the meaning of the
// next one: blocks open and close.
func (d *decoder) learn(events []codec.Event, name, data []byte) {
	if len(events) == 1 {
		switch ev := &events[0]; ev.Kind {
		case codec.EventPing:
			return
		case codec.EventText, codec.EventReasoning, codec.EventArguments:
			if !ev.Whole {
				d.delta.Learn(name, data, ev)
				return
			}
		}
	}
	d.delta.Forget()
}

// frame is one event of the wire, split into its members.
type frame struct {
	kind    []byte
	index   int64 // -1 when absent
	delta   []byte
	block   []byte
	message []byte
	usage   []byte
	err     []byte
	whole   []byte
}

// readFrame reads the type from the JSON; if there is none, the event name applies.
func readFrame(name, data []byte) frame {
	f := frame{kind: name, index: -1, whole: data}
	for m := scan.Object(data); m.Next(); {
		switch string(m.Key) {
		case "type":
			if kind := scan.Body(m.Value); len(kind) > 0 {
				f.kind = kind
			}
		case "index":
			if n, ok := scan.Int(m.Value); ok && n >= 0 {
				f.index = n
			}
		case "delta":
			f.delta = m.Value
		case "content_block":
			f.block = m.Value
		case "message":
			f.message = m.Value
		case "usage":
			f.usage = m.Value
		case "error":
			f.err = m.Value
		}
	}
	return f
}

func (d *decoder) event(dst []codec.Event, f frame) []codec.Event {
	switch string(f.kind) {
	case "content_block_delta":
		return d.blockDelta(dst, f.index, f.delta)
	case "content_block_start":
		return d.blockStart(dst, f.index, f.block)
	case "content_block_stop":
		return d.blockStop(dst, f.index)
	case "message_start":
		return d.messageStart(dst, f.message)
	case "message_delta":
		return d.messageDelta(dst, f.delta, f.usage)
	case "message_stop":
		return d.messageStop(dst)
	case "ping":
		return append(dst, codec.Event{Kind: codec.EventPing})
	case "message": // a complete answer although a stream was requested
		return d.message(dst, f.whole)
	}
	if !scan.IsNull(f.err) { // also an error in another format's shape
		return d.fail(dst, decodeEventError(f.whole))
	}
	return dst
}

// fail reports an error; only the end follows it.
func (d *decoder) fail(dst []codec.Event, err *codec.Error) []codec.Event {
	d.failed = true
	return append(dst, codec.Event{Kind: codec.EventError, Err: err})
}

// messageStart decodes the message object at the start of a stream or of a complete answer. A second one is ignored.
func (d *decoder) messageStart(dst []codec.Event, message []byte) []codec.Event {
	if d.started {
		return dst
	}
	d.started = true
	ev := codec.Event{Kind: codec.EventStart, Family: codec.FamilyAnthropic}
	for m := scan.Object(message); m.Next(); {
		switch string(m.Key) {
		case "id":
			ev.ID = scan.Body(m.Value)
		case "model":
			ev.Model = scan.Body(m.Value)
		case "usage":
			readUsage(&d.usage, m.Value)
		}
	}
	ev.Usage = d.usage
	return append(dst, ev)
}

// begin replaces a missing message_start.
func (d *decoder) begin(dst []codec.Event) []codec.Event { return d.messageStart(dst, nil) }

// blockStart opens an item and reports what the block already contains: nothing in most streams, everything for blocks
// without deltas and in a complete answer.
func (d *decoder) blockStart(dst []codec.Event, index int64, raw []byte) []codec.Event {
	dst = d.begin(dst)
	if index < 0 { // without indexes, blocks can only be sequential
		dst = d.closeAll(dst)
	} else if b := d.find(index); b != nil {
		dst = d.closeBlock(dst, b)
	}
	if len(d.blocks) >= maxOpenBlocks {
		return d.fail(dst, codec.Errorf(codec.KindUpstream, "the provider opened more than %d blocks at a time", maxOpenBlocks))
	}
	var c content
	c.read(raw, scan.Space(raw, 0))
	b := d.open(index, itemTypeOf(c.kind))
	ev := codec.Event{Kind: codec.EventItemOpen, Item: b.item, Type: b.kind}
	switch b.kind {
	case codec.ItemToolCall:
		ev.CallID, ev.Name = scan.Body(c.id), scan.Body(c.name)
		dst = append(dst, ev)
		b.whole = append(b.whole, c.input...)
	case codec.ItemText:
		dst = append(dst, ev)
		dst = d.text(dst, b, scan.Body(c.text))
		for el := scan.Array(c.citations); el.Next(); {
			dst = append(dst, codec.Event{Kind: codec.EventAnnotation, Item: b.item, Raw: el.Value, Origin: codec.Messages})
		}
	case codec.ItemReasoning:
		dst = append(dst, ev)
		dst = d.reasoning(dst, b, scan.Body(c.thinking))
		dst = signature(dst, b, scan.Body(c.signature))
	case codec.ItemRedacted:
		dst = append(dst, ev)
		dst = signature(dst, b, scan.Body(c.data))
	default:
		ev.CallID, ev.Name = scan.Body(c.id), scan.Body(c.name)
		if ev.CallID == nil {
			ev.CallID = scan.Body(c.toolUseID)
		}
		dst = append(dst, ev)
		b.whole = append(b.whole, raw...)
	}
	return dst
}

// itemTypeOf returns the item type for a block type. Results of tools that the provider ran have a type for each tool.
func itemTypeOf(kind []byte) codec.ItemType {
	switch string(kind) {
	case blockText:
		return codec.ItemText
	case blockThinking:
		return codec.ItemReasoning
	case blockRedactedThinking:
		return codec.ItemRedacted
	case blockToolUse:
		return codec.ItemToolCall
	}
	if isServerTool(kind) {
		return codec.ItemServerTool
	}
	return codec.ItemOpaque
}

// isServerTool reports whether a block is a tool call that the provider ran, or the result of one.
func isServerTool(kind []byte) bool {
	switch string(kind) {
	case blockServerToolUse, blockMCPToolUse:
		return true
	case blockToolResult:
		return false
	}
	return bytes.HasSuffix(kind, []byte("_tool_result"))
}

// open adds a block, in the memory of a closed one if possible.
func (d *decoder) open(index int64, kind codec.ItemType) *block {
	n := len(d.blocks)
	d.blocks = slices.Grow(d.blocks, 1)[:n+1]
	b := &d.blocks[n]
	*b = block{index: index, item: d.items, kind: kind, whole: emptied(b.whole), input: emptied(b.input)}
	d.items++
	return b
}

// find returns the open block with that index or, if the provider sends none, the block that was opened last.
func (d *decoder) find(index int64) *block {
	for i := range d.blocks {
		if d.blocks[i].index == index {
			return &d.blocks[i]
		}
	}
	if index < 0 && len(d.blocks) > 0 {
		return &d.blocks[len(d.blocks)-1]
	}
	return nil
}

func (d *decoder) blockDelta(dst []codec.Event, index int64, delta []byte) []codec.Event {
	dst = d.begin(dst)
	var kind, payload, citation []byte
	for m := scan.Object(delta); m.Next(); {
		switch string(m.Key) {
		case "type":
			kind = scan.Body(m.Value)
		case "text", "thinking", "partial_json", "signature":
			payload = scan.Body(m.Value)
		case "citation":
			citation = m.Value
		}
	}
	b := d.find(index)
	if b == nil {
		if dst, b = d.stray(dst, index, kind); b == nil {
			return dst
		}
	}
	switch string(kind) {
	case "text_delta":
		return d.text(dst, b, payload)
	case "input_json_delta":
		return arguments(dst, b, payload)
	case "thinking_delta":
		return d.reasoning(dst, b, payload)
	case "signature_delta":
		return signature(dst, b, payload)
	case "citations_delta":
		if b.kind == codec.ItemText && scan.IsObject(citation) {
			dst = append(dst, codec.Event{Kind: codec.EventAnnotation, Item: b.item, Raw: citation, Origin: codec.Messages})
		}
	case "compaction_delta":
		b.compaction(delta)
	}
	return dst
}

// stray finds a block for a delta whose index no open block has: the only open one, if the delta fits it, or a new one,
// if the delta has enough information to open it.
func (d *decoder) stray(dst []codec.Event, index int64, delta []byte) ([]codec.Event, *block) {
	var kind codec.ItemType
	switch string(delta) {
	case "text_delta":
		kind = codec.ItemText
	case "thinking_delta", "signature_delta":
		kind = codec.ItemReasoning
	case "input_json_delta":
		kind = codec.ItemToolCall
	}
	if len(d.blocks) == 1 && d.blocks[0].kind == kind {
		return dst, &d.blocks[0]
	}
	if kind != codec.ItemText && kind != codec.ItemReasoning || len(d.blocks) >= maxOpenBlocks {
		return dst, nil
	}
	b := d.open(index, kind)
	return append(dst, codec.Event{Kind: codec.EventItemOpen, Item: b.item, Type: kind}), b
}

func (d *decoder) text(dst []codec.Event, b *block, body []byte) []codec.Event {
	if b.kind != codec.ItemText || len(body) == 0 {
		return dst
	}
	d.spoke = true
	return append(dst, codec.Event{Kind: codec.EventText, Item: b.item, Raw: body})
}

// reasoning reports visible thinking, which the format's models send as a summary of their reasoning.
func (d *decoder) reasoning(dst []codec.Event, b *block, body []byte) []codec.Event {
	if b.kind != codec.ItemReasoning || len(body) == 0 {
		return dst
	}
	return append(dst, codec.Event{Kind: codec.EventReasoning, Item: b.item, Raw: body, Summary: true})
}

func signature(dst []codec.Event, b *block, body []byte) []codec.Event {
	if (b.kind != codec.ItemReasoning && b.kind != codec.ItemRedacted) || len(body) == 0 {
		return dst
	}
	return append(dst, codec.Event{
		Kind: codec.EventSignature, Item: b.item, Raw: body, Family: codec.FamilyAnthropic,
	})
}

func arguments(dst []codec.Event, b *block, body []byte) []codec.Event {
	if len(body) == 0 {
		return dst
	}
	b.deltas = true
	if b.kind == codec.ItemToolCall {
		return append(dst, codec.Event{Kind: codec.EventArguments, Item: b.item, Raw: body})
	}
	if b.kind == codec.ItemServerTool && len(b.input) < maxHeld {
		b.input = append(b.input, body...)
	}
	return dst
}

// compaction sets the block to the value of its only delta, which is complete, not a fragment.
func (b *block) compaction(delta []byte) {
	if b.kind != codec.ItemOpaque {
		return
	}
	b.whole = append(b.whole[:0], `{"type":"compaction"`...)
	for m := scan.Object(delta); m.Next(); {
		if string(m.Key) == "type" {
			continue
		}
		b.whole = append(b.whole, ',')
		b.whole = append(b.whole, delta[m.Start:m.End]...)
	}
	b.whole = append(b.whole, '}')
}

func (d *decoder) blockStop(dst []codec.Event, index int64) []codec.Event {
	if b := d.find(index); b != nil {
		return d.closeBlock(dst, b)
	}
	return dst
}

// closeBlock reports the end of an item, with its wire value if it has no other content.
func (d *decoder) closeBlock(dst []codec.Event, b *block) []codec.Event {
	ev := codec.Event{Kind: codec.EventItemClose, Item: b.item, Type: b.kind}
	switch b.kind {
	case codec.ItemToolCall:
		if !b.deltas && scan.Count(b.whole) > 0 {
			dst = append(dst, codec.Event{
				Kind: codec.EventArguments, Item: b.item, Whole: true, Raw: d.keep(scan.Escape, b.whole),
			})
		}
	case codec.ItemServerTool, codec.ItemOpaque:
		ev.Raw, ev.Origin = d.wireItem(b), codec.Messages
	}
	d.forget(b)
	return append(dst, ev)
}

// wireItem returns the block as a complete answer would contain it.
func (d *decoder) wireItem(b *block) []byte {
	if len(b.input) > 0 {
		from := len(d.scratch)
		d.scratch = scan.Unescape(d.scratch, b.input)
		if input := d.scratch[from:len(d.scratch):len(d.scratch)]; scan.Valid(input) {
			from = len(d.scratch)
			d.scratch = appendWithInput(d.scratch, b.whole, input)
			return d.scratch[from:len(d.scratch):len(d.scratch)]
		}
	}
	return d.keep(appendBytes, b.whole)
}

func appendBytes(dst, src []byte) []byte { return append(dst, src...) }

// keep writes src into the scratch memory and returns what was written. Earlier results stay valid when the memory
// grows, because the old memory is left unchanged.
func (d *decoder) keep(write func(dst, src []byte) []byte, src []byte) []byte {
	from := len(d.scratch)
	d.scratch = write(d.scratch, src)
	return d.scratch[from:len(d.scratch):len(d.scratch)]
}

// forget removes a block from the open ones and keeps its memory for the next.
func (d *decoder) forget(b *block) {
	last := len(d.blocks) - 1
	for i := range d.blocks {
		if &d.blocks[i] != b {
			continue
		}
		closed := d.blocks[i]
		copy(d.blocks[i:], d.blocks[i+1:])
		d.blocks[last] = closed
		d.blocks = d.blocks[:last]
		return
	}
}

func (d *decoder) closeAll(dst []codec.Event) []codec.Event {
	for len(d.blocks) > 0 {
		dst = d.closeBlock(dst, &d.blocks[0])
	}
	return dst
}

func (d *decoder) messageDelta(dst []codec.Event, delta, usage []byte) []codec.Event {
	dst = d.begin(dst)
	if stop := scan.Get(delta, "stop_reason"); scan.IsString(stop) {
		dst = d.finish(dst, delta)
	}
	if scan.IsObject(usage) {
		readUsage(&d.usage, usage)
		dst = append(dst, codec.Event{Kind: codec.EventUsage, Usage: d.usage})
	}
	return dst
}

// finish reports why the model stopped, from the members that message_delta and a complete answer share. A refusal with
// an explanation but without text gets the explanation as its text.
func (d *decoder) finish(dst []codec.Event, members []byte) []codec.Event {
	dst = d.closeAll(dst)
	var reason, sequence, details []byte
	for m := scan.Object(members); m.Next(); {
		switch string(m.Key) {
		case "stop_reason":
			reason = scan.Body(m.Value)
		case "stop_sequence":
			sequence = scan.Body(m.Value)
		case "stop_details":
			details = m.Value
		}
	}
	finish := finishOf(reason)
	if explanation := scan.Body(scan.Get(details, "explanation")); finish == codec.FinishFilter && len(explanation) > 0 && !d.spoke {
		d.spoke = true
		item := d.items
		d.items++
		dst = append(dst,
			codec.Event{Kind: codec.EventItemOpen, Item: item, Type: codec.ItemRefusal},
			codec.Event{Kind: codec.EventRefusal, Item: item, Raw: explanation},
			codec.Event{Kind: codec.EventItemClose, Item: item, Type: codec.ItemRefusal})
	}
	d.stopped = true
	return append(dst, codec.Event{Kind: codec.EventFinish, Finish: finish, Raw: sequence})
}

func (d *decoder) messageStop(dst []codec.Event) []codec.Event {
	if !d.started {
		return d.fail(dst, codec.Errorf(codec.KindUpstream, "the provider ended an answer before starting it"))
	}
	dst = d.closeAll(dst)
	d.ended = true
	return append(dst, codec.Event{Kind: codec.EventEnd, End: codec.EndTerminal})
}

// Finish decodes the residue, because a stream may break off after a data line or with a bare error, and reports the
// end. A body that ends without message_stop is complete if a stop reason was seen (docs/wire/translation.md#3.4).
func (d *decoder) Finish(dst []codec.Event, end codec.End, residue []byte) []codec.Event {
	if data := residueData(residue); scan.Valid(data) {
		dst = d.Decode(dst, nil, data)
	}
	switch {
	case d.ended:
		return dst
	case d.failed:
		end = codec.EndBroken
	case end == codec.EndCancelled:
	case end != codec.EndBroken && d.stopped:
		dst = d.closeAll(dst)
		end = codec.EndTerminal
	default:
		dst = d.fail(dst, codec.Errorf(codec.KindUpstream, "the provider's answer broke off before its end"))
		end = codec.EndBroken
	}
	d.ended = true
	return append(dst, codec.Event{Kind: codec.EventEnd, End: end})
}

// residueData returns the data of a last frame without its blank line, or of bare JSON in its place.
func residueData(residue []byte) []byte {
	residue = bytes.TrimSpace(residue)
	for line := range bytes.SplitSeq(residue, []byte{'\n'}) {
		if data, found := bytes.CutPrefix(line, []byte("data:")); found {
			return bytes.TrimSpace(data)
		}
	}
	return residue
}
