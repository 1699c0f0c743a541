package chat

import (
	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
)

// details gives a host back the elements of reasoning_details that it sent, in the order of the parts.
func (w *requestWriter) details(dst []byte, parts []codec.Part) []byte {
	from := len(dst)
	for i := range parts {
		p := &parts[i]
		if p.Family != codec.FamilyDetails || len(p.Signature) == 0 {
			continue
		}
		elements := scan.Unescape(nil, p.Signature)
		for at := scan.Space(elements, 0); at < len(elements); at = scan.Space(elements, at) {
			end := scan.Skip(elements, at)
			if end <= at || !scan.IsObject(elements[at:end]) {
				break
			}
			if len(dst) == from {
				dst = append(dst, `,"reasoning_details":[`...)
			} else {
				dst = append(dst, ',')
			}
			dst = appendDetail(dst, elements[at:end], p)
			at = end
		}
	}
	if len(dst) > from {
		dst = append(dst, ']')
	}
	return dst
}

// appendDetail writes an element. Its text is the part's own; state that is only that is unchanged.
func appendDetail(dst, element []byte, p *codec.Part) []byte {
	member := ""
	switch string(scan.Body(scan.Get(element, "type"))) {
	case typeReasoningText:
		member = `{"text":"`
	case typeReasoningSummary:
		member = `{"summary":"`
	}
	if member == "" || p.Kind != codec.PartReasoning {
		return append(dst, element...)
	}
	dst = appendReasoning(append(dst, member...), p)
	return append(append(dst, `",`...), element[1:]...)
}
