package responses

import "github.com/mnemeproxy/mneme/codec/scan"

// appendItem writes an item in its present state; one in progress has an empty body.
func appendItem(dst []byte, out *output, status string) []byte {
	dst = append(dst, `{"id":"`...)
	dst = append(dst, out.id...)
	dst = append(dst, '"')
	whole := status != statusInProgress
	switch out.kind {
	case outputMessage:
		dst = append(dst, `,"type":"message","status":"`...)
		dst = append(dst, status...)
		dst = append(dst, `","role":"assistant","content":[`...)
		for i := range out.parts {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendPart(dst, &out.parts[i], true)
		}
		return append(dst, `]}`...)
	case outputReasoning:
		dst = append(dst, `,"type":"reasoning","summary":[`...)
		for i := range out.parts {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendSummary(dst, &out.parts[i])
		}
		dst = append(dst, ']')
		if whole && len(out.signature) > 0 {
			dst = append(dst, `,"encrypted_content":`...)
			dst = scan.QuoteBody(dst, out.signature)
		}
		return append(dst, '}')
	case outputCall, outputCustomCall:
		return appendCall(dst, out, status)
	case outputPicture:
		dst = append(dst, `,"type":"`+typeImageGeneration+`","status":"`...)
		dst = append(dst, status...)
		dst = append(dst, `","result":`...)
		if status != statusCompleted || len(out.text) == 0 {
			return append(dst, `null}`...)
		}
		return append(scan.QuoteBody(dst, out.text), '}')
	}
	return append(dst, out.raw...)
}

func appendCall(dst []byte, out *output, status string) []byte {
	body := `,"input":"`
	if out.kind == outputCall {
		dst = append(dst, `,"type":"function_call","status":"`...)
		body = `,"arguments":"`
	} else {
		dst = append(dst, `,"type":"custom_tool_call","status":"`...)
	}
	dst = append(dst, status...)
	dst = append(dst, `","call_id":`...)
	dst = scan.QuoteBody(dst, out.callID)
	dst = append(dst, `,"name":`...)
	dst = scan.QuoteBody(dst, out.name)
	if len(out.namespace) > 0 {
		dst = append(dst, `,"namespace":`...)
		dst = scan.QuoteBody(dst, out.namespace)
	}
	dst = append(dst, body...)
	dst = append(dst, out.text...)
	return append(dst, `"}`...)
}

// appendPart writes a content part; one that is being added has no text.
func appendPart(dst []byte, p *part, whole bool) []byte {
	if p.refusal {
		dst = append(dst, `{"type":"refusal","refusal":"`...)
		if whole {
			dst = append(dst, p.text...)
		}
		return append(dst, `"}`...)
	}
	dst = append(dst, `{"type":"output_text","text":"`...)
	if whole {
		dst = append(dst, p.text...)
	}
	dst = append(dst, `","annotations":[`...)
	if whole {
		dst = append(dst, p.annotations...)
	}
	return append(dst, `],"logprobs":[]}`...)
}

func appendSummary(dst []byte, p *part) []byte {
	dst = append(dst, `{"type":"summary_text","text":"`...)
	dst = append(dst, p.text...)
	return append(dst, `"}`...)
}
