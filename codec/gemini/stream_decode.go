package gemini

import (
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
)

// decoder reads the frames of one stream. Each frame is a whole answer with only what is new, except for the token
// counts, which are cumulative.
type decoder struct {
	started   bool
	failed    bool // an error was reported; only the end can follow
	ended     bool
	finished  bool // the provider said why it stopped
	malformed bool // a call without a name was seen

	reason codec.FinishReason // the last one reported
	word   codec.FinishReason // the meaning of the provider's own word, before calls are taken into account
	calls  int

	next  int32          // ordinal of the next item
	open  codec.ItemType // the item that may still grow, 0 if there is none
	usage codec.Usage
	rest  []byte // of the last frame, after its candidates: not read yet

	citations citations
	scratch   []byte // memory of the views in the events of one call
}

// keepScratch is what a decoder keeps between streams: the arguments of an ordinary call.
const keepScratch = 64 << 10

// Reset prepares the decoder for another stream.
func (d *decoder) Reset() {
	d.citations.reset()
	if cap(d.scratch) > keepScratch {
		d.scratch = nil
	}
	*d = decoder{citations: d.citations, scratch: d.scratch[:0], rest: d.rest[:0]}
}

// Decode reads one frame. The format has no event names. A frame may also be an array of answers, or a piece of one:
// the provider sends that for a stream without alt=sse.
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

// Repeats implements [codec.StreamDecoder]. The token counts differ from frame to frame.
func (d *decoder) Repeats() bool { return false }

// Skipped implements [codec.StreamDecoder].
func (d *decoder) Skipped(*codec.Event) {}

// Finish handles the end of the input. Only a finish reason makes an answer complete: a cut connection and a finished
// stream end alike.
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

// residue reads what was left without a frame end: the last frame of a stream that was cut after it, an error that was
// written without framing, or the whole body of an array. Half a frame is ignored: the finish reason decides whether it
// matters.
func (d *decoder) residue(dst []codec.Event, data []byte) []codec.Event {
	if d.failed {
		return dst
	}
	d.scratch = d.scratch[:0]
	dst, _ = d.elements(dst, data)
	return dst
}

// readRest reads the rest of the last frame: the counts, also of a truncated answer.
func (d *decoder) readRest(dst []codec.Event) []codec.Event {
	if d.failed || len(d.rest) == 0 {
		return dst
	}
	return d.members(dst, &cursor{doc: d.rest})
}

// elements reads the answers of an array, or of a piece of one that begins or ends between two elements, and stops at
// anything else; whole reports that there was nothing else.
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

// start emits the beginning. The names of the answer come last in a frame, so this looks ahead.
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
// answer, of which only the last are useful: they are skipped after the content of a frame, and read if it is the last.
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

// candidates reads the first candidate. Others come only on request, which no crossing makes.
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

// candidate reads one candidate. The format says only after its content that it is not the first: then what was read of
// it is undone.
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
