package chat

import (
	"bytes"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
)

// reasoningDetail is one element of OpenRouter's reasoning_details.
type reasoningDetail struct {
	kind, text, summary, signature, data, id []byte
	format, index                            []byte // index: raw
	family                                   codec.Family
}

func readReasoningDetail(element []byte) (t reasoningDetail) {
	for m := scan.Object(element); m.Next(); {
		switch string(m.Key) {
		case "type":
			t.kind = scan.Body(m.Value)
		case "text":
			t.text = scan.Body(m.Value)
		case "summary":
			t.summary = scan.Body(m.Value)
		case "signature":
			t.signature = scan.Body(m.Value)
		case "data":
			t.data = scan.Body(m.Value)
		case "id":
			t.id = scan.Body(m.Value)
		case "format":
			t.format = scan.Body(m.Value)
			t.family = detailFamily(t.format)
		case "index":
			t.index = m.Value
		}
	}
	return t
}

func detailFamily(format []byte) codec.Family {
	switch {
	case bytes.HasPrefix(format, []byte("anthropic")):
		return codec.FamilyAnthropic
	case bytes.HasPrefix(format, []byte("openai")):
		return codec.FamilyOpenAI
	case bytes.HasPrefix(format, []byte("google")):
		return codec.FamilyGoogle
	}
	return codec.FamilyOther
}

func (t *reasoningDetail) encrypted() bool { return string(t.kind) == typeEncrypted }

// Types of the elements of reasoning_details.
const (
	typeReasoningText    = "reasoning.text"
	typeReasoningSummary = "reasoning.summary"
	typeEncrypted        = "reasoning.encrypted"
)

// detail is the element whose text the open reasoning item is. A stream brings it in pieces; its members other than the
// text are collected, and are the item's state: with the text they make the element that the host wants back.
type detail struct {
	open                        bool
	kind, format, id, signature []byte // string bodies
	index                       []byte // raw
	elements                    []byte // scratch: an element as a string body
}

func (p *detail) emptied() detail {
	return detail{kind: p.kind[:0], format: p.format[:0], id: p.id[:0], signature: p.signature[:0], index: p.index[:0], elements: p.elements}
}

// add collects the members of a piece. The first non-empty one of each counts.
func (p *detail) add(t *reasoningDetail) {
	p.open = true
	for _, m := range []struct {
		dst *[]byte
		src []byte
	}{{&p.kind, t.kind}, {&p.format, t.format}, {&p.id, t.id}, {&p.signature, t.signature}, {&p.index, t.index}} {
		if len(*m.dst) == 0 {
			*m.dst = append(*m.dst, m.src...)
		}
	}
}

// continues reports whether a piece may belong to the same element.
func (p *detail) continues(t *reasoningDetail) bool {
	return !p.open || len(p.signature) == 0 && bytes.Equal(p.kind, t.kind) && bytes.Equal(p.index, t.index)
}

// append writes the element without its text.
func (p *detail) append(dst []byte) []byte {
	dst = scan.QuoteBody(append(dst, `{"type":`...), p.kind)
	for _, m := range []struct {
		name  string
		value []byte
	}{{`,"signature":`, p.signature}, {`,"id":`, p.id}, {`,"format":`, p.format}} {
		if len(m.value) > 0 {
			dst = scan.QuoteBody(append(dst, m.name...), m.value)
		}
	}
	if len(p.index) > 0 {
		dst = append(append(dst, `,"index":`...), p.index...)
	}
	return append(dst, '}')
}

// endDetail emits the state of the element that the open reasoning item is.
func (d *decoder) endDetail(dst []codec.Event) []codec.Event {
	if !d.detail.open {
		return dst
	}
	element := scan.Escape(nil, d.detail.append(nil))
	d.detail = d.detail.emptied()
	return append(dst, codec.Event{Kind: codec.EventSignature, Item: d.item, Raw: element, Family: codec.FamilyDetails})
}

// reasoningDetails reads the elements except Google's encrypted ones, which belong to calls: see callSignatures.
func (d *decoder) reasoningDetails(dst []codec.Event, list []byte, withText bool) []codec.Event {
	for e := scan.Array(list); e.Next(); {
		t := readReasoningDetail(e.Value)
		switch {
		case t.encrypted() && t.family == codec.FamilyGoogle:
		case t.encrypted() && len(t.data) == 0:
		case t.encrypted() && t.family == codec.FamilyOpenAI: // it follows its summary
			dst = d.enter(dst, codec.ItemReasoning)
			dst = d.endDetail(dst)
			dst = d.sign(dst, scan.Escape(nil, e.Value), codec.FamilyDetails)
		case t.encrypted():
			dst = d.redacted(dst, scan.Escape(nil, e.Value), codec.FamilyDetails)
		default:
			dst = d.reasoningDetail(dst, &t, withText)
		}
	}
	return dst
}

// reasoningDetail reads an element with text, or a piece of one.
func (d *decoder) reasoningDetail(dst []codec.Event, t *reasoningDetail, withText bool) []codec.Event {
	if string(t.kind) != typeReasoningText && string(t.kind) != typeReasoningSummary {
		return dst
	}
	if withText {
		if d.open == codec.ItemReasoning && !d.detail.continues(t) {
			dst = d.leave(dst)
		}
		if len(t.summary) > 0 {
			dst = d.text(dst, codec.ItemReasoning, t.summary)
			dst[len(dst)-1].Summary = true
		} else {
			dst = d.text(dst, codec.ItemReasoning, t.text)
		}
	}
	if d.open != codec.ItemReasoning {
		if len(t.signature) == 0 {
			return dst
		}
		dst = d.enter(dst, codec.ItemReasoning)
	}
	d.detail.add(t)
	return dst
}

// callSignatures adds to the calls of a chunk the state that Google's models attach to them, by call id.
func (d *decoder) callSignatures(dst []codec.Event, list []byte) []codec.Event {
	seen := 0
	for e := scan.Array(list); e.Next() && seen < maxSigned; seen++ {
		t := readReasoningDetail(e.Value)
		if !t.encrypted() || t.family != codec.FamilyGoogle || len(t.data) == 0 {
			continue
		}
		element := scan.Escape(nil, e.Value)
		if c := d.callByID(t.id); c != nil && c.opened {
			dst = append(dst, codec.Event{Kind: codec.EventSignature, Item: c.item, Raw: element, Family: codec.FamilyDetails})
			continue
		}
		if d.open == codec.ItemText { // Claude Code prints nothing if reasoning follows the text
			dst = append(dst, codec.Event{Kind: codec.EventSignature, Item: d.item, Raw: element, Family: codec.FamilyDetails})
			continue
		}
		dst = d.redacted(dst, element, codec.FamilyDetails)
	}
	return dst
}
