package gemini

import (
	"bytes"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
)

// decoder reads the frames of one stream. Each frame is a whole answer that holds only what is new, except for the
// token counts, which are cumulative.
type decoder struct {
	started   bool
	failed    bool // an error was reported; nothing but the end can follow
	ended     bool
	finished  bool // the provider said why it stopped
	malformed bool // a call without a name was seen

	reason codec.FinishReason // the last one reported
	word   codec.FinishReason // what the provider's own word stands for, before calls are taken into account
	calls  int

	next  int32          // ordinal of the next item
	open  codec.ItemType // the item that may still grow, 0 when there is none
	usage codec.Usage
	rest  []byte // of the last frame, behind its candidates: not read yet

	citations citations
	scratch   []byte // memory of the views in the events of one call
}

// keepScratch is what a decoder keeps between streams: the arguments of an ordinary call.
const keepScratch = 64 << 10

// Reset makes the decoder ready for another stream.
func (d *decoder) Reset() {
	d.citations.reset()
	if cap(d.scratch) > keepScratch {
		d.scratch = nil
	}
	*d = decoder{citations: d.citations, scratch: d.scratch[:0], rest: d.rest[:0]}
}

// Decode reads one frame. The format has no event names. A frame may also be an array of answers, or a piece of one:
// that is what the provider sends when a stream was asked for without alt=sse.
func (d *decoder) Decode(dst []codec.Event, _, data []byte) []codec.Event {
	if d.failed || d.ended {
		return dst
	}
	d.scratch = d.scratch[:0]
	data = data[scan.Space(data, 0):]
	if len(data) == 0 || string(data) == "[DONE]" {
		return dst // relays add the end marker of another format
	}
	if data[0] == '{' && scan.Valid(data) {
		return d.frame(dst, data)
	}
	dst, whole := d.elements(dst, data)
	if !whole && !d.failed {
		return d.fail(dst, unreadable())
	}
	return dst
}

// Finish reports what the end of the input means. Only a finish reason makes an answer complete: a cut connection and
// a finished stream end alike.
func (d *decoder) Finish(dst []codec.Event, end codec.End, residue []byte) []codec.Event {
	if d.ended {
		return dst
	}
	dst = d.residue(dst, residue)
	dst = d.readRest(dst)
	d.ended = true
	switch {
	case end == codec.EndCancelled:
		return append(dst, codec.Event{Kind: codec.EventEnd, End: codec.EndCancelled})
	case d.failed:
		return append(dst, codec.Event{Kind: codec.EventEnd, End: codec.EndBroken})
	case !d.finished:
		dst = append(dst, codec.Event{Kind: codec.EventError, Err: cutShort(d.started)})
		return append(dst, codec.Event{Kind: codec.EventEnd, End: codec.EndBroken})
	}
	dst = d.close(dst)
	if reason := d.finishReason(); reason != d.reason {
		dst = append(dst, codec.Event{Kind: codec.EventFinish, Finish: reason})
	}
	return append(dst, codec.Event{Kind: codec.EventEnd, End: codec.EndTerminal})
}

// residue reads what was left without a frame end: the last frame of a stream that was cut behind it, an error that was
// written without framing, or the whole body of an array. Half a frame is left out: whether it is missed is told by the
// finish reason.
func (d *decoder) residue(dst []codec.Event, data []byte) []codec.Event {
	if d.failed {
		return dst
	}
	d.scratch = d.scratch[:0]
	dst, _ = d.elements(dst, data)
	return dst
}

// readRest reads what was put aside of the last frame: the counts, also of an answer that was cut.
func (d *decoder) readRest(dst []codec.Event) []codec.Event {
	if d.failed || len(d.rest) == 0 {
		return dst
	}
	return d.members(dst, &cursor{doc: d.rest})
}

// elements reads the answers of an array, or of a piece of one that begins or ends between two elements, and stops at
// anything else; whole tells that there was nothing else.
func (d *decoder) elements(dst []codec.Event, data []byte) (out []codec.Event, whole bool) {
	for i := 0; i < len(data) && !d.failed; {
		switch data[i] {
		case '{':
			end := scan.Skip(data, i)
			if !scan.Valid(data[i:end]) {
				return dst, false
			}
			dst = d.frame(dst, data[i:end])
			i = end
		case '[', ']', ',', ' ', '\t', '\r', '\n':
			i++
		default:
			return dst, false
		}
	}
	return dst, true
}

// frame reads one answer object, which is valid JSON.
func (d *decoder) frame(dst []codec.Event, frame []byte) []codec.Event {
	if !d.started {
		dst = d.start(dst, frame)
	}
	c := cursor{doc: frame}
	c.enter('{')
	return d.members(dst, &c)
}

// start reports the beginning. What names the answer comes last in a frame, so this looks ahead.
func (d *decoder) start(dst []codec.Event, frame []byte) []codec.Event {
	d.started = true
	start := codec.Event{Kind: codec.EventStart, Family: codec.FamilyGoogle}
	for m := scan.Object(frame); m.Next(); {
		switch string(m.Key) {
		case "responseId":
			start.ID = scan.Body(m.Value)
		case "modelVersion":
			start.Model = scan.Body(m.Value)
		case "createTime":
			start.Created = unixTime(scan.Body(m.Value))
		case "usageMetadata":
			start.Usage = readUsage(m.Value)
		case "error":
			if !scan.IsNull(m.Value) {
				return dst // nothing has begun
			}
		}
	}
	return append(dst, start)
}

// members reads the members of a frame from the cursor on. Every frame ends with the counts and names of the whole
// answer, of which only the last are of use: behind the content of a frame that is not the last they are put aside.
func (d *decoder) members(dst []codec.Event, c *cursor) []codec.Event {
	counted := false
	var feedback []byte
	for !d.failed && c.next('}') {
		switch string(c.key()) {
		case "candidates":
			dst = d.candidates(dst, c)
			if !d.finished {
				d.rest = append(d.rest[:0], c.doc[c.i:]...)
				return dst
			}
		case "usageMetadata":
			d.usage, counted = readUsage(c.value()), true
		case "promptFeedback":
			feedback = c.value()
		case "error":
			if failure := c.value(); !scan.IsNull(failure) {
				return d.fail(dst, decodeStatus(0, 0, failure))
			}
		default:
			c.value()
		}
	}
	if d.failed {
		return dst
	}
	if !d.finished && blocked(feedback) {
		dst = d.finish(dst, codec.FinishFilter, nil)
	}
	if counted {
		d.rest = d.rest[:0]
		dst = append(dst, codec.Event{Kind: codec.EventUsage, Usage: d.usage})
	}
	return dst
}

// candidates reads the first candidate. Others come only when they were asked for, which no crossing does.
func (d *decoder) candidates(dst []codec.Event, c *cursor) []codec.Event {
	if !c.enter('[') {
		c.value()
		return dst
	}
	for !d.failed && c.next(']') {
		dst = d.candidate(dst, c)
	}
	return dst
}

// candidate reads one. That it is not the first is told behind its content: what was read of it is undone then.
func (d *decoder) candidate(dst []codec.Event, c *cursor) []codec.Event {
	if !c.enter('{') {
		c.value()
		return dst
	}
	before, events := *d, len(dst)
	var finish, message, grounding, sources []byte
	index := int64(0)
	for c.next('}') {
		switch string(c.key()) {
		case "content":
			dst = d.content(dst, c)
		case "index":
			index, _ = scan.Int(c.value())
		case "finishReason":
			finish = scan.Body(c.value())
		case "finishMessage":
			message = scan.Body(c.value())
		case "groundingMetadata":
			grounding = c.value()
		case "citationMetadata":
			sources = c.value()
		default:
			c.value()
		}
	}
	if index != 0 {
		*d = before
		return dst[:events]
	}
	dst = d.cite(dst, grounding, sources)
	if len(finish) > 0 {
		dst = d.finish(dst, finishWord(finish), message)
	}
	return dst
}

func (d *decoder) content(dst []codec.Event, c *cursor) []codec.Event {
	if !c.enter('{') {
		c.value()
		return dst
	}
	for c.next('}') {
		if string(c.key()) != "parts" || !c.enter('[') {
			c.value()
			continue
		}
		for c.next(']') {
			dst = d.part(dst, c)
		}
	}
	return dst
}

// part reads one part: one of text, a call and the kinds that only this format knows, with a signature beside any.
func (d *decoder) part(dst []codec.Event, c *cursor) []codec.Event {
	from := c.i
	if !c.enter('{') {
		c.value()
		return dst
	}
	var text, call, signature []byte
	var thought, hasText, serverTool, other bool
	for c.next('}') {
		switch string(c.key()) {
		case "text":
			text = scan.Body(c.value())
			hasText = text != nil
		case "thought":
			thought = scan.IsTrue(c.value())
		case "thoughtSignature":
			signature = scan.Body(c.value())
		case "functionCall":
			call = c.value()
		case "executableCode", "codeExecutionResult", "toolCall", "toolResponse":
			serverTool = true
			c.value()
		case "videoMetadata", "mediaResolution", "mediaProcessing", "partMetadata", "audioTranscription", "speechMetadata":
			c.value()
		default:
			other = true
			c.value()
		}
	}
	raw := c.doc[from:c.i:c.i]
	switch {
	case scan.IsObject(call):
		return d.call(dst, call, signature)
	case serverTool:
		return d.whole(dst, codec.ItemServerTool, raw)
	case other && !hasText:
		return d.whole(dst, codec.ItemOpaque, raw)
	case thought:
		return d.thought(dst, text, signature)
	}
	return d.text(dst, text, signature)
}

// text opens no item for an empty text. A signature that comes with nothing else belongs to what was open before it:
// the text it ends, or the thoughts it proves.
func (d *decoder) text(dst []codec.Event, text, signature []byte) []codec.Event {
	if len(text) == 0 && len(signature) == 0 {
		return dst
	}
	if len(text) > 0 || d.open != codec.ItemReasoning {
		dst = d.grow(dst, codec.ItemText)
	}
	if len(text) > 0 {
		d.citations.keep(text)
		dst = append(dst, codec.Event{Kind: codec.EventText, Item: d.next - 1, Raw: text})
	}
	return d.sign(dst, signature)
}

// thought joins neighbouring thought parts into one item: they are pieces of one summary.
func (d *decoder) thought(dst []codec.Event, text, signature []byte) []codec.Event {
	if len(text) == 0 && len(signature) == 0 {
		return dst
	}
	dst = d.grow(dst, codec.ItemReasoning)
	if len(text) > 0 {
		dst = append(dst, codec.Event{Kind: codec.EventReasoning, Item: d.next - 1, Raw: text, Summary: true})
	}
	return d.sign(dst, signature)
}

func (d *decoder) sign(dst []codec.Event, signature []byte) []codec.Event {
	if len(signature) == 0 {
		return dst
	}
	return append(dst, codec.Event{Kind: codec.EventSignature, Item: d.next - 1, Raw: signature, Family: codec.FamilyGoogle})
}

// call reads a whole call. The id may be missing: who joins the formats mints one. A call without a name cannot be
// answered, so it is not shown; the finish reason tells of it.
func (d *decoder) call(dst []codec.Event, call, signature []byte) []codec.Event {
	var id, name, args []byte
	for m := scan.Object(call); m.Next(); {
		switch string(m.Key) {
		case "id":
			id = scan.Body(m.Value)
		case "name":
			name = scan.Body(m.Value)
		case "args":
			args = m.Value
		}
	}
	if len(name) == 0 {
		d.malformed = true
		return dst
	}
	dst = d.close(dst)
	item := d.next
	d.next++
	d.calls++
	dst = append(dst, codec.Event{Kind: codec.EventItemOpen, Type: codec.ItemToolCall, Item: item, CallID: id, Name: name})
	dst = append(dst, codec.Event{Kind: codec.EventArguments, Item: item, Raw: d.arguments(args), Whole: true})
	dst = d.sign(dst, signature)
	return append(dst, codec.Event{Kind: codec.EventItemClose, Type: codec.ItemToolCall, Item: item})
}

// arguments is the object as a string body. Complete answers come indented; clients send arguments back on every later
// turn, so white space between the tokens is left out. Keys keep their order and numbers their digits.
func (d *decoder) arguments(args []byte) []byte {
	if !scan.IsObject(args) {
		return []byte(`{}`)
	}
	if bytes.IndexByte(args, '\n') >= 0 {
		from := len(d.scratch)
		d.scratch = appendCompact(d.scratch, args)
		args = d.scratch[from:]
	}
	from := len(d.scratch)
	d.scratch = scan.Escape(d.scratch, args)
	return d.scratch[from:len(d.scratch):len(d.scratch)]
}

// appendCompact appends a JSON value without the white space between its tokens.
func appendCompact(dst, value []byte) []byte {
	for i := 0; i < len(value); {
		switch value[i] {
		case ' ', '\t', '\r', '\n':
			i++
		case '"':
			end := scan.Skip(value, i)
			dst = append(dst, value[i:end]...)
			i = end
		default:
			dst = append(dst, value[i])
			i++
		}
	}
	return dst
}

// whole reports an item that this format sends in one piece and in a shape of its own.
func (d *decoder) whole(dst []codec.Event, kind codec.ItemType, part []byte) []codec.Event {
	dst = d.close(dst)
	item := d.next
	d.next++
	return append(dst,
		codec.Event{Kind: codec.EventItemOpen, Type: kind, Item: item, Origin: codec.Gemini},
		codec.Event{Kind: codec.EventItemClose, Type: kind, Item: item, Raw: part, Origin: codec.Gemini})
}

// grow makes sure that an item of the kind is open.
func (d *decoder) grow(dst []codec.Event, kind codec.ItemType) []codec.Event {
	if d.open == kind {
		return dst
	}
	dst = d.close(dst)
	d.open = kind
	d.next++
	if kind == codec.ItemText {
		d.citations.begin()
	}
	return append(dst, codec.Event{Kind: codec.EventItemOpen, Type: kind, Item: d.next - 1})
}

func (d *decoder) close(dst []codec.Event) []codec.Event {
	if d.open == 0 {
		return dst
	}
	dst = append(dst, codec.Event{Kind: codec.EventItemClose, Type: d.open, Item: d.next - 1})
	d.open = 0
	return dst
}

// finish reports why the candidate ended. A call that cannot be read, with nothing before it, is an error and not an
// empty answer (wire sheet: translation, section 3.1, rule d).
func (d *decoder) finish(dst []codec.Event, word codec.FinishReason, message []byte) []codec.Event {
	d.word = word
	reason := d.finishReason()
	if reason == codec.FinishMalformedCall && d.next == 0 {
		return d.fail(dst, malformedCall(message))
	}
	d.finished, d.reason = true, reason
	dst = d.close(dst)
	return append(dst, codec.Event{Kind: codec.EventFinish, Finish: reason})
}

// finishReason takes calls into account: the provider finishes a turn that calls tools as it finishes any other
// (wire sheet: translation, section 3.1, rules a and b).
func (d *decoder) finishReason() codec.FinishReason {
	if d.word != codec.FinishEnd {
		return d.word
	}
	switch {
	case d.calls > 0:
		return codec.FinishToolCalls
	case d.malformed:
		return codec.FinishMalformedCall
	}
	return codec.FinishEnd
}

// finishWord maps the provider's words; those not listed, and those to come, are an ordinary end.
func finishWord(word []byte) codec.FinishReason {
	switch string(word) {
	case "MAX_TOKENS":
		return codec.FinishLength
	case "SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII",
		"IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION":
		return codec.FinishFilter
	case "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "MALFORMED_RESPONSE":
		return codec.FinishMalformedCall
	case "CONTINUATION":
		return codec.FinishPause
	}
	return codec.FinishEnd
}

// blocked tells whether the prompt was refused: there are no candidates then, and no finish reason.
func blocked(feedback []byte) bool {
	reason := scan.Body(scan.Get(feedback, "blockReason"))
	return len(reason) > 0 && string(reason) != "BLOCK_REASON_UNSPECIFIED"
}

// maxCount keeps sums of counts from overflowing, whatever the provider reports.
const maxCount = 1 << 53

// readUsage converts the counts (wire sheet: generate-content, section 3.2): cached tokens are part of the prompt,
// what server tools fed back is not, thoughts are not part of the candidates.
func readUsage(usage []byte) codec.Usage {
	var prompt, cached, tools, candidates, thoughts int64
	for m := scan.Object(usage); m.Next(); {
		n, _ := scan.Int(m.Value)
		n = min(max(n, 0), maxCount)
		switch string(m.Key) {
		case "promptTokenCount":
			prompt = n
		case "cachedContentTokenCount":
			cached = n
		case "toolUsePromptTokenCount":
			tools = n
		case "candidatesTokenCount":
			candidates = n
		case "thoughtsTokenCount":
			thoughts = n
		}
	}
	u := codec.Usage{Output: candidates + thoughts, Reasoning: thoughts}
	u.SplitInput(prompt+tools, cached, 0)
	return u
}

func unixTime(created []byte) int64 {
	if len(created) == 0 {
		return 0
	}
	t, err := time.Parse(time.RFC3339, string(created))
	if err != nil {
		return 0
	}
	return t.Unix()
}

func (d *decoder) fail(dst []codec.Event, err *codec.Error) []codec.Event {
	d.failed = true
	return append(dst, codec.Event{Kind: codec.EventError, Err: err})
}
