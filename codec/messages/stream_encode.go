package messages

import (
	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
)

// Limits of what an encoder keeps of an answer: the bytes that wait while an earlier call is open, and the number of
// items. Both are far above what a model can produce; a provider that exceeds them is broken.
const (
	maxHeld  = 32 << 20
	maxItems = 1 << 16
)

// Limits of what an encoder or a decoder keeps for its next stream: one long answer must not hold its memory for the
// life of a pool.
const (
	keptBuffer = 64 << 10
)

// emptied returns the buffer without its content, or nil if it has grown too large to keep.
func emptied(buffer []byte) []byte {
	if cap(buffer) > keptBuffer {
		return nil
	}
	return buffer[:0]
}

// noItem means no item.
const noItem = -1

func (client) NewEncoder(o *codec.AnswerOptions) codec.StreamEncoder {
	return &encoder{o: o, open: noItem, call: noItem}
}

// encoder writes one stream. One block is open at a time. A tool call occupies the stream until its arguments are
// complete, because clients require its fragments to be contiguous. Fragments of other items wait in their buffers
// meanwhile, and follow in the order in which the items began to wait.
type encoder struct {
	o       *codec.AnswerOptions
	started bool
	done    bool

	items []item
	next  int32 // index of the next block
	open  int32 // item whose block is open, or noItem
	call  int32 // the open item if it is a call that has not ended, else noItem

	waiting []int32 // items with pending payload, in the order in which they began to wait, from head on
	head    int
	held    int // bytes in their buffers

	delta   []byte // beginning of a delta frame of the open block, up to its payload
	scratch []byte

	calls   bool // a call was shown
	refused bool // text of a refusal was shown
	written int64

	finish codec.FinishReason
	stop   []byte
	usage  codec.Usage
	known  bool // the provider reported usage
}

// item is the state of one content item.
type item struct {
	kind      codec.ItemType
	closed    bool // it is complete
	waits     bool // it is in the queue
	shown     bool // a block was started for it
	sub       int32
	spoke     bool // reasoning: it has text, so that the next part needs a separator
	depth     codec.ArgumentDepth
	origin    codec.Format
	callID    []byte
	name      []byte
	signature []byte // not sent yet
	held      []byte // pending payload, or the wire item of a tool that the provider ran
	citations []byte // pending citations, as the elements of an array
}

// Next implements [codec.StreamEncoder]: these events have no numbers.
func (e *encoder) Next() int64 { return 0 }

func (e *encoder) Append(dst []byte, ev *codec.Event) []byte {
	if e.done {
		return dst
	}
	switch ev.Kind {
	case codec.EventNone:
		return dst
	case codec.EventPing:
		return appendPing(dst)
	case codec.EventError:
		return e.fail(dst, ev.Err)
	case codec.EventEnd:
		return e.end(dst, ev.End)
	}
	dst = e.start(dst, ev)
	switch ev.Kind {
	case codec.EventItemOpen:
		return e.openItem(dst, ev)
	case codec.EventText, codec.EventRefusal, codec.EventReasoning, codec.EventArguments, codec.EventCustomInput:
		dst = e.payload(dst, ev)
	case codec.EventSignature:
		if it := e.item(ev.Item); it != nil {
			it.signature = append(it.signature, ev.Raw...)
		}
	case codec.EventAnnotation:
		dst = e.annotate(dst, ev)
	case codec.EventItemClose:
		dst = e.closeItem(dst, ev)
	case codec.EventFinish:
		e.finish = ev.Finish
		e.stop = append(e.stop[:0], ev.Raw...)
	case codec.EventUsage:
		e.usage, e.known = ev.Usage, true
	}
	if e.held > maxHeld {
		return e.fail(dst, codec.Errorf(codec.KindUpstream, "the provider interleaved the parts of its answer too much to reorder them"))
	}
	return dst
}

// start writes message_start before the first event of any kind (P1).
func (e *encoder) start(dst []byte, ev *codec.Event) []byte {
	if ev.Kind == codec.EventStart && !ev.Usage.IsZero() && !e.known {
		e.usage, e.known = ev.Usage, true
	}
	if e.started {
		return dst
	}
	e.started = true
	return appendMessageStart(dst, e.o.ID, e.o.Model, openingUsage(e.usage, e.o.EstimatedInput))
}

// item returns the open item with that ordinal, or nil.
func (e *encoder) item(ordinal int32) *item {
	if ordinal < 0 || int(ordinal) >= len(e.items) || e.items[ordinal].closed {
		return nil
	}
	return &e.items[ordinal]
}

// openItem registers an item. Only a call starts its block at once; others start it with their first payload, so that
// no block stays empty (P19): clients send empty text back, and providers refuse it.
func (e *encoder) openItem(dst []byte, ev *codec.Event) []byte {
	if int(ev.Item) != len(e.items) {
		return dst
	}
	if len(e.items) >= maxItems {
		return e.fail(dst, codec.Errorf(codec.KindUpstream, "the provider's answer has more than %d parts", maxItems))
	}
	it := e.addItem()
	it.kind = ev.Type
	if !isCall(ev.Type) {
		return dst
	}
	it.name = append(it.name, ev.Name...)
	it.callID = append(it.callID, ev.CallID...)
	if len(it.callID) == 0 {
		it.callID = appendCallID(it.callID, e.o.ID, ev.Item)
	}
	if len(it.name) == 0 {
		it.closed = true // a call without a name cannot be run
		return dst
	}
	if e.call != noItem {
		e.wait(ev.Item)
		return dst
	}
	return e.openCall(dst, ev.Item)
}

// addItem appends an item that reuses the memory of an earlier answer's.
func (e *encoder) addItem() *item {
	n := len(e.items)
	if n == cap(e.items) {
		e.items = append(e.items, item{})
		return &e.items[n]
	}
	e.items = e.items[:n+1]
	it := &e.items[n]
	*it = item{
		callID:    emptied(it.callID),
		name:      emptied(it.name),
		signature: emptied(it.signature),
		held:      emptied(it.held),
		citations: emptied(it.citations),
	}
	return it
}

func isCall(t codec.ItemType) bool { return t == codec.ItemToolCall || t == codec.ItemCustomCall }

// appendCallID appends an id for a call to which the provider gave none (P13).
func appendCallID(dst []byte, answer string, ordinal int32) []byte {
	dst = append(dst, "toolu_"...)
	dst = append(dst, answer...)
	dst = append(dst, '_')
	return appendInt(dst, int64(ordinal))
}

// payload writes a fragment of an item, or buffers it.
func (e *encoder) payload(dst []byte, ev *codec.Event) []byte {
	it := e.item(ev.Item)
	if it == nil || !carries(it.kind, ev.Kind) {
		return dst
	}
	if it.kind == codec.ItemReasoning {
		return e.reasoning(dst, it, ev)
	}
	dst, ended := e.say(dst, it, ev.Item, ev.Raw)
	if ended || (ev.Whole && isCall(it.kind)) {
		dst = e.endCall(dst, it, ev.Item)
	}
	return dst
}

// carries reports whether an item of that type can have payload of that kind.
func carries(t codec.ItemType, k codec.EventKind) bool {
	switch t {
	case codec.ItemText, codec.ItemRefusal:
		return k == codec.EventText || k == codec.EventRefusal
	case codec.ItemReasoning:
		return k == codec.EventReasoning
	case codec.ItemToolCall:
		return k == codec.EventArguments
	case codec.ItemCustomCall:
		return k == codec.EventCustomInput
	}
	return false
}

// reasoning separates the parts of one item by a blank line, because the format has one text for all of them.
func (e *encoder) reasoning(dst []byte, it *item, ev *codec.Event) []byte {
	if !e.o.ShowReasoning || len(ev.Raw) == 0 {
		return dst
	}
	if it.spoke && ev.Sub != it.sub {
		dst, _ = e.say(dst, it, ev.Item, blankLine)
	}
	it.spoke, it.sub = true, ev.Sub
	dst, _ = e.say(dst, it, ev.Item, ev.Raw)
	return dst
}

// blankLine is a string body.
var blankLine = []byte(`\n\n`)

// say writes a fragment to the block of its item, or buffers it while a call of another item is open. It reports
// whether the fragment ended a call.
func (e *encoder) say(dst []byte, it *item, ordinal int32, raw []byte) (out []byte, ended bool) {
	if len(raw) == 0 {
		return dst, false
	}
	if e.call != noItem && e.call != ordinal {
		it.held = append(it.held, raw...)
		e.held += len(raw)
		e.wait(ordinal)
		return dst, false
	}
	if e.open != ordinal {
		dst = e.openText(dst, it, ordinal)
	}
	e.written += int64(len(raw))
	switch it.kind {
	case codec.ItemToolCall:
		n, done := it.depth.Feed(raw)
		return e.appendPayload(dst, raw[:n]), done
	case codec.ItemCustomCall:
		dst = append(dst, e.delta...)
		dst = append(dst, '"')
		dst = scan.Escape(dst, raw)
		dst = append(dst, '"')
		return appendDeltaEnd(dst), false
	case codec.ItemRefusal:
		e.refused = true
	}
	return e.appendPayload(dst, raw), false
}

func (e *encoder) appendPayload(dst, raw []byte) []byte {
	dst = append(dst, e.delta...)
	dst = append(dst, '"')
	dst = append(dst, raw...)
	dst = append(dst, '"')
	return appendDeltaEnd(dst)
}

// openText starts the block of a text, refusal or reasoning item, or a further one after an interruption (P18).
func (e *encoder) openText(dst []byte, it *item, ordinal int32) []byte {
	dst = e.closeBlock(dst)
	dst = appendBlockStart(dst, e.next)
	kind := textDelta
	if it.kind == codec.ItemReasoning {
		kind = thinkingDelta
		dst = appendThinkingBlock(dst, nil, nil)
	} else {
		dst = append(appendTextBlock(dst, nil), '}')
	}
	dst = appendBlockStarted(dst)
	e.opened(ordinal, kind)
	return dst
}

func (e *encoder) openCall(dst []byte, ordinal int32) []byte {
	it := &e.items[ordinal]
	dst = e.closeBlock(dst)
	dst = appendBlockStart(dst, e.next)
	dst = appendToolUseStart(dst, it.callID, it.name)
	dst = append(dst, `{}`+toolUseEnd...)
	dst = appendBlockStarted(dst)
	e.opened(ordinal, inputDelta)
	e.call, e.calls = ordinal, true
	if it.kind == codec.ItemCustomCall {
		dst = appendDelta(dst, e.next-1, inputDelta, customInputOpen)
	}
	return dst
}

// A custom call's text is sent as the only member of an object: these are the string bodies around it.
var (
	customInputOpen  = []byte(`{\"input\":\"`)
	customInputClose = []byte(`\"}`)
)

// opened makes the block just started the open one.
func (e *encoder) opened(ordinal int32, kind deltaKind) {
	e.delta = appendDeltaStart(e.delta[:0], e.next, kind)
	e.items[ordinal].shown = true
	e.open = ordinal
	e.next++
}

// closeBlock closes the open block, if any; a signature precedes its end.
func (e *encoder) closeBlock(dst []byte) []byte {
	if e.open == noItem {
		return dst
	}
	it, index := &e.items[e.open], e.next-1
	switch it.kind {
	case codec.ItemReasoning:
		if len(it.signature) > 0 {
			dst = appendDelta(dst, index, signatureDelta, it.signature)
			it.signature = it.signature[:0]
		}
	case codec.ItemCustomCall:
		dst = appendDelta(dst, index, inputDelta, customInputClose)
	}
	e.open = noItem
	return appendBlockStop(dst, index)
}

// endCall ends a call: its block if that is open, and the wait of the items after it.
func (e *encoder) endCall(dst []byte, it *item, ordinal int32) []byte {
	it.closed = true
	if e.call != ordinal {
		return dst
	}
	dst = e.closeBlock(dst)
	e.call = noItem
	return e.advance(dst)
}

// wait adds an item to the queue, once.
func (e *encoder) wait(ordinal int32) {
	if it := &e.items[ordinal]; !it.waits {
		it.waits = true
		e.waiting = append(e.waiting, ordinal)
	}
}

// advance writes waiting items until one of them is an unfinished call.
func (e *encoder) advance(dst []byte) []byte {
	for e.call == noItem && e.head < len(e.waiting) {
		ordinal := e.waiting[e.head]
		e.head++
		dst = e.release(dst, &e.items[ordinal], ordinal)
	}
	if e.head == len(e.waiting) {
		e.waiting, e.head = e.waiting[:0], 0
	}
	return dst
}

// release writes an item's pending payload.
func (e *encoder) release(dst []byte, it *item, ordinal int32) []byte {
	it.waits = false
	if isHosted(it.kind) {
		return e.settle(dst, it, ordinal)
	}
	held := it.held
	it.held = held[:0]
	e.held -= len(held)
	if isCall(it.kind) {
		dst = e.openCall(dst, ordinal)
		dst, ended := e.say(dst, it, ordinal, held)
		if !ended && !it.closed {
			return dst
		}
		it.closed = true
		e.call = noItem
		return e.closeBlock(dst)
	}
	dst, _ = e.say(dst, it, ordinal, held)
	dst = e.releaseCitations(dst, it, ordinal)
	if it.closed {
		dst = e.settle(dst, it, ordinal)
	}
	return dst
}

func isHosted(t codec.ItemType) bool { return t == codec.ItemServerTool || t == codec.ItemOpaque }

// closeItem marks an item as complete and writes what had to wait for that.
func (e *encoder) closeItem(dst []byte, ev *codec.Event) []byte {
	it := e.item(ev.Item)
	if it == nil {
		return dst
	}
	it.closed = true
	if isCall(it.kind) {
		return e.endCall(dst, it, ev.Item)
	}
	if isHosted(it.kind) {
		it.held, it.origin = append(it.held, ev.Raw...), ev.Origin
		e.held += len(ev.Raw)
	}
	if e.call == noItem {
		return e.settle(dst, it, ev.Item)
	}
	if len(it.signature) > 0 || len(it.held) > 0 {
		e.wait(ev.Item)
	}
	return dst
}

// settle finishes a complete item while no call is open.
func (e *encoder) settle(dst []byte, it *item, ordinal int32) []byte {
	if e.open == ordinal {
		dst = e.closeBlock(dst)
	}
	switch it.kind {
	case codec.ItemReasoning:
		// Hidden reasoning, or a signature that came after other blocks had started: a block without text carries it.
		if len(it.signature) > 0 {
			dst = e.closeBlock(e.openText(dst, it, ordinal))
		}
	case codec.ItemRedacted:
		if len(it.signature) > 0 {
			dst = e.closeBlock(dst)
			dst = appendBlockStart(dst, e.next)
			dst = appendRedactedBlock(dst, it.signature)
			dst = appendBlockStarted(dst)
			dst = appendBlockStop(dst, e.next)
			e.next++
		}
	case codec.ItemServerTool, codec.ItemOpaque:
		if len(it.held) > 0 {
			dst = e.closeBlock(dst)
			dst = e.hosted(dst, it.held, it.origin)
			e.held -= len(it.held)
			it.held = it.held[:0]
		}
	}
	return dst
}

// hosted writes the blocks for a tool that the provider ran.
func (e *encoder) hosted(dst, wireItem []byte, origin codec.Format) []byte {
	e.scratch = appendHostedBlocks(append(e.scratch[:0], '['), wireItem, origin)
	e.scratch = append(e.scratch, ']')
	for block := scan.Array(e.scratch); block.Next(); {
		dst = appendBlockStart(dst, e.next)
		input := scan.Get(block.Value, "input")
		split := scan.IsObject(input) && scan.Count(input) > 0
		if split {
			dst = appendWithInput(dst, block.Value, emptyObject)
		} else {
			dst = append(dst, block.Value...)
		}
		dst = appendBlockStarted(dst)
		if split {
			dst = appendDeltaStart(dst, e.next, inputDelta)
			dst = append(dst, '"')
			dst = scan.Escape(dst, input)
			dst = append(dst, '"')
			dst = appendDeltaEnd(dst)
		}
		dst = appendBlockStop(dst, e.next)
		e.next++
	}
	return dst
}

var emptyObject = []byte("{}")

// annotate adds a citation to its text.
func (e *encoder) annotate(dst []byte, ev *codec.Event) []byte {
	it := e.item(ev.Item)
	if it == nil || it.kind != codec.ItemText {
		return dst
	}
	e.scratch = appendCitation(e.scratch[:0], ev.Raw, ev.Origin)
	if len(e.scratch) == 0 {
		return dst
	}
	if e.call != noItem {
		if len(it.citations) > 0 {
			it.citations = append(it.citations, ',')
		}
		it.citations = append(it.citations, e.scratch...)
		e.held += len(e.scratch)
		e.wait(ev.Item)
		return dst
	}
	return e.cite(dst, it, ev.Item, e.scratch)
}

// cite writes one citation. A text whose block is closed cannot get it any more.
func (e *encoder) cite(dst []byte, it *item, ordinal int32, citation []byte) []byte {
	if e.open != ordinal {
		if it.shown {
			return dst
		}
		dst = e.openText(dst, it, ordinal)
	}
	dst = appendDeltaStart(dst, e.next-1, citationsDelta)
	dst = append(dst, citation...)
	return appendDeltaEnd(dst)
}

func (e *encoder) releaseCitations(dst []byte, it *item, ordinal int32) []byte {
	if len(it.citations) == 0 {
		return dst
	}
	e.scratch = append(append(append(e.scratch[:0], '['), it.citations...), ']')
	e.held -= len(it.citations)
	it.citations = it.citations[:0]
	for c := scan.Array(e.scratch); c.Next(); {
		dst = e.cite(dst, it, ordinal, c.Value)
	}
	return dst
}

// end closes the open items in order, and the stream. An end that is not the provider's own becomes an error, because
// an answer that broke off must not look finished.
func (e *encoder) end(dst []byte, how codec.End) []byte {
	if how != codec.EndTerminal {
		return e.fail(dst, codec.Errorf(codec.KindUpstream, "the provider's answer broke off before its end"))
	}
	if e.finish == codec.FinishMalformedCall {
		return e.fail(dst, &codec.Error{
			Kind: codec.KindUpstream, Code: "malformed_tool_call",
			Message: "the model produced a tool call that cannot be read; ask again",
		})
	}
	dst = e.start(dst, &codec.Event{})
	for e.call != noItem {
		dst = e.endCall(dst, &e.items[e.call], e.call)
	}
	for i := range e.items {
		if it := &e.items[i]; !it.closed {
			it.closed = true
			dst = e.settle(dst, it, int32(i))
		}
	}
	dst = e.closeBlock(dst)
	dst = appendMessageDelta(dst, stopOf(e.finish, e.calls, e.refused), e.stop,
		closingUsage(e.usage, e.known, e.o.EstimatedInput, e.written))
	e.done = true
	return append(dst, frameMessageStop...)
}

// fail ends the stream with an error event. The open block stays open, as in the format.
func (e *encoder) fail(dst []byte, err *codec.Error) []byte {
	if err == nil {
		err = codec.Errorf(codec.KindUpstream, "the provider reported an error without details")
	}
	e.done = true
	dst = append(dst, "event: error\ndata: "...)
	dst = appendError(dst, err, e.o)
	return append(dst, "\n\n"...)
}
