package chat

import (
	"strconv"

	"github.com/mnemeproxy/mneme/codec"
)

// reasoningState is the reasoning item being written. The format has no slot for reasoning. Clients know
// reasoning_content for the text, which is streamed, and thinking_blocks for text and proof together, which is written
// once per item, when the item is complete and has a proof.
type reasoningState struct {
	item      int32 // -1 if none is open
	sub       int32
	redacted  bool
	shown     bool // some reasoning was written: the next text begins a new paragraph
	blocks    int64
	text      []byte
	signature []byte
}

func (s *reasoningState) open(ev *codec.Event) {
	s.item, s.sub, s.redacted = ev.Item, 0, ev.Type == codec.ItemRedacted
	s.text, s.signature = s.text[:0], s.signature[:0]
}

const paragraph = `\n\n`

func (e *encoder) think(dst []byte, ev *codec.Event) []byte {
	s := &e.reasoning
	if !e.o.ShowReasoning || len(ev.Raw) == 0 || s.item != ev.Item || s.redacted {
		return dst
	}
	if len(s.text) > 0 && ev.Sub != s.sub {
		s.text = append(s.text, paragraph...)
		dst = e.text(dst, `"reasoning_content":"`, []byte(paragraph))
	} else if len(s.text) == 0 && s.shown {
		dst = e.text(dst, `"reasoning_content":"`, []byte(paragraph))
	}
	s.sub, s.shown = ev.Sub, true
	s.text = append(s.text, ev.Raw...)
	return e.text(dst, `"reasoning_content":"`, ev.Raw)
}

func (e *encoder) sign(dst []byte, ev *codec.Event) []byte {
	if len(ev.Raw) == 0 {
		return dst
	}
	if ev.Item == e.reasoning.item {
		e.reasoning.signature = append(e.reasoning.signature, ev.Raw...)
		return dst
	}
	if ev.Family != codec.FamilyGoogle {
		return dst
	}
	n := e.callIndex(ev.Item)
	if e.legacy && n >= 0 {
		return dst
	}
	dst = e.openChunk(e.begin(dst))
	if n < 0 {
		return e.closeChunk(appendThoughtSignature(dst, ev.Raw))
	}
	dst = append(dst, `"tool_calls":[{"index":`...)
	dst = strconv.AppendInt(dst, int64(n), 10)
	if e.calls[n].custom { // the AI SDK, for one, refuses a call fragment without it
		dst = append(dst, `,"custom":{},`...)
	} else {
		dst = append(dst, `,"function":{},`...)
	}
	return e.closeChunk(append(appendThoughtSignature(dst, ev.Raw), `}]`...))
}

// appendThoughtSignature writes the member in which Google's own endpoint attaches signatures to calls and texts.
func appendThoughtSignature(dst, signature []byte) []byte {
	dst = append(dst, `"extra_content":{"google":{"thought_signature":"`...)
	dst = append(dst, signature...)
	return append(dst, `"}}`...)
}

// flushReasoning ends the open reasoning item. Its block carries an index, because accumulators that merge lists by
// index refuse elements without one.
func (e *encoder) flushReasoning(dst []byte) []byte {
	s := &e.reasoning
	if s.item < 0 {
		return dst
	}
	s.item = -1
	if len(s.signature) == 0 {
		return dst
	}
	dst = append(e.openChunk(e.begin(dst)), `"thinking_blocks":[{"index":`...)
	dst = strconv.AppendInt(dst, s.blocks, 10)
	s.blocks++
	dst = append(dst, ',')
	dst = appendThinkingBlock(dst, s.redacted, s.text, s.signature)
	return e.closeChunk(append(dst, `}]`...))
}

// appendThinkingBlock writes the members of a block, without its braces.
func appendThinkingBlock(dst []byte, redacted bool, text, signature []byte) []byte {
	if redacted {
		dst = append(dst, `"type":"redacted_thinking","data":"`...)
		return append(append(dst, signature...), '"')
	}
	dst = append(dst, `"type":"thinking","thinking":"`...)
	dst = append(dst, text...)
	dst = append(dst, `","signature":"`...)
	return append(append(dst, signature...), '"')
}
