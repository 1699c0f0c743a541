package messages

import "github.com/mnemeproxy/mneme/codec"

// The frames of a stream, in order.

func appendPing(dst []byte) []byte { return append(dst, framePing...) }

func appendMessageStart(dst []byte, id, model string, u codec.Usage) []byte {
	dst = append(dst, "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\""+answerPrefix...)
	dst = append(dst, id...)
	dst = append(dst, `","type":"message","role":"assistant","model":`...)
	dst = appendQuoted(dst, model)
	dst = append(dst, `,"content":[],"stop_reason":null,"stop_sequence":null,"stop_details":null,"container":null,"diagnostics":null,"usage":`...)
	dst = appendMessageUsage(dst, u)
	return append(dst, "}}\n\n"...)
}

// appendBlockStart begins the frame that starts a block; the caller writes the block and appendBlockStarted.
func appendBlockStart(dst []byte, index int32) []byte {
	dst = append(dst, "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":"...)
	dst = appendInt(dst, int64(index))
	return append(dst, `,"content_block":`...)
}

func appendBlockStarted(dst []byte) []byte { return append(dst, "}\n\n"...) }

// appendDeltaStart begins a delta frame of one block; kind is the delta's type and the member that carries it.
func appendDeltaStart(dst []byte, index int32, kind deltaKind) []byte {
	dst = append(dst, "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":"...)
	dst = appendInt(dst, int64(index))
	dst = append(dst, `,"delta":{"type":"`...)
	dst = append(dst, kind.name...)
	dst = append(dst, `","`...)
	dst = append(dst, kind.member...)
	return append(dst, `":`...)
}

func appendDeltaEnd(dst []byte) []byte { return append(dst, "}}\n\n"...) }

type deltaKind struct{ name, member string }

var (
	textDelta      = deltaKind{"text_delta", "text"}
	thinkingDelta  = deltaKind{"thinking_delta", "thinking"}
	signatureDelta = deltaKind{"signature_delta", "signature"}
	inputDelta     = deltaKind{"input_json_delta", "partial_json"}
	citationsDelta = deltaKind{"citations_delta", "citation"}
)

// appendDelta writes a complete delta frame whose payload is a string body.
func appendDelta(dst []byte, index int32, kind deltaKind, body []byte) []byte {
	dst = appendDeltaStart(dst, index, kind)
	dst = append(dst, '"')
	dst = append(dst, body...)
	dst = append(dst, '"')
	return appendDeltaEnd(dst)
}

func appendBlockStop(dst []byte, index int32) []byte {
	dst = append(dst, "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":"...)
	dst = appendInt(dst, int64(index))
	return append(dst, "}\n\n"...)
}

func appendMessageDelta(dst []byte, reason string, sequence []byte, u codec.Usage) []byte {
	dst = append(dst, "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{"...)
	dst = appendStop(dst, reason, sequence)
	dst = append(dst, `},"usage":`...)
	dst = appendUsage(dst, u)
	return append(dst, "}}\n\n"...)
}

const (
	frameMessageStop = "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
	framePing        = "event: ping\ndata: {\"type\":\"ping\"}\n\n"
)
