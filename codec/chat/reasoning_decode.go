package chat

import (
	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
)

// reasoning holds the reasoning members of one delta or message. Hosts send the same text in several of them at once.
type reasoning struct {
	content []byte // reasoning_content
	plain   []byte // reasoning
	blocks  []byte // thinking_blocks
	details []byte // reasoning_details
}

func (r *reasoning) empty() bool {
	return len(r.content) == 0 && len(r.plain) == 0 && r.blocks == nil && r.details == nil
}

// text returns the reasoning as one string.
func (r *reasoning) text() []byte {
	if len(r.content) > 0 {
		return r.content
	}
	return r.plain
}

// readReasoning emits each text once. The structured members are preferred, because they pair texts with signatures;
// but if the text has already arrived as strings, only the signatures of the structured members count.
func (d *decoder) readReasoning(dst []codec.Event, r *reasoning) []codec.Event {
	structured := !d.plainReasoning && r.structuredText()
	if text := r.text(); len(text) > 0 && !structured {
		if !d.plainReasoning {
			d.plainReasoning = true
			d.template.Forget()
		}
		dst = d.text(dst, codec.ItemReasoning, text)
	}
	if r.blocks != nil {
		return d.thinkingBlocks(dst, r.blocks, structured)
	}
	return d.reasoningDetails(dst, r.details, structured)
}

// structuredText reports whether the structured members have any text.
func (r *reasoning) structuredText() bool {
	list := r.blocks
	if list == nil {
		list = r.details
	}
	for e := scan.Array(list); e.Next(); {
		for m := scan.Object(e.Value); m.Next(); {
			switch string(m.Key) {
			case "thinking", "text", "summary":
				if len(scan.Body(m.Value)) > 0 {
					return true
				}
			}
		}
	}
	return false
}

// thinkingBlocks reads blocks in the shape that LiteLLM and Envoy use for Anthropic's models.
func (d *decoder) thinkingBlocks(dst []codec.Event, list []byte, withText bool) []codec.Event {
	for e := scan.Array(list); e.Next(); {
		b := readThinkingBlock(e.Value)
		if b.redacted {
			dst = d.redacted(dst, b.signature, codec.FamilyAnthropic)
			continue
		}
		if withText {
			dst = d.text(dst, codec.ItemReasoning, b.text)
		}
		dst = d.sign(dst, b.signature, codec.FamilyAnthropic)
	}
	return dst
}

type thinkingBlock struct {
	redacted  bool
	text      []byte
	signature []byte // of a redacted block: its data
}

func readThinkingBlock(block []byte) (b thinkingBlock) {
	var data []byte
	for m := scan.Object(block); m.Next(); {
		switch string(m.Key) {
		case "type":
			b.redacted = string(m.Value) == `"redacted_thinking"`
		case "thinking":
			b.text = scan.Body(m.Value)
		case "signature":
			b.signature = scan.Body(m.Value)
		case "data":
			data = scan.Body(m.Value)
		}
	}
	if b.redacted {
		b.signature = data
	}
	return b
}

// sign ends a reasoning item with its signature: later text belongs to the next one. A signature without visible text
// makes a separate item.
func (d *decoder) sign(dst []codec.Event, signature []byte, family codec.Family) []codec.Event {
	if len(signature) == 0 {
		return dst
	}
	dst = d.enter(dst, codec.ItemReasoning)
	dst = append(dst, codec.Event{Kind: codec.EventSignature, Item: d.item, Raw: signature, Family: family})
	return d.leave(dst)
}

func (d *decoder) redacted(dst []codec.Event, data []byte, family codec.Family) []codec.Event {
	if len(data) == 0 {
		return dst
	}
	dst = d.enter(dst, codec.ItemRedacted)
	dst = append(dst, codec.Event{Kind: codec.EventSignature, Item: d.item, Raw: data, Family: family})
	return d.leave(dst)
}

// thinkingChunk reads Mistral's content chunk: thinking is a list of text chunks, or a string.
func (d *decoder) thinkingChunk(dst []codec.Event, thinking, signature []byte) []codec.Event {
	dst = d.text(dst, codec.ItemReasoning, scan.Body(thinking))
	for e := scan.Array(thinking); e.Next(); {
		dst = d.text(dst, codec.ItemReasoning, scan.Body(scan.Get(e.Value, "text")))
	}
	return d.sign(dst, signature, codec.FamilyOther)
}

// textSignature reads a thought signature that Google's endpoint attaches to the text of the answer.
func (d *decoder) textSignature(dst []codec.Event, extra []byte) []codec.Event {
	signature := thoughtSignature(extra)
	if len(signature) == 0 {
		return dst
	}
	if d.open != codec.ItemText {
		return d.sign(dst, signature, codec.FamilyGoogle)
	}
	return append(dst, codec.Event{Kind: codec.EventSignature, Item: d.item, Raw: signature, Family: codec.FamilyGoogle})
}

func thoughtSignature(extra []byte) []byte {
	return scan.Body(scan.Path(extra, "google", "thought_signature"))
}
