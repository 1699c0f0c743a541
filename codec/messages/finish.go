package messages

import "github.com/mnemeproxy/mneme/codec"

// Stop reasons of the format (docs/wire/translation.md#3.1).
const (
	stopEndTurn   = "end_turn"
	stopSequence  = "stop_sequence"
	stopMaxTokens = "max_tokens"
	stopToolUse   = "tool_use"
	stopPauseTurn = "pause_turn"
	stopRefusal   = "refusal"
	stopContext   = "model_context_window_exceeded"
)

// finishOf reads a stop reason.
func finishOf(stop []byte) codec.FinishReason {
	switch string(stop) {
	case stopEndTurn, "compaction":
		return codec.FinishEnd
	case stopSequence:
		return codec.FinishStopSequence
	case stopMaxTokens:
		return codec.FinishLength
	case stopContext:
		return codec.FinishContext
	case stopToolUse:
		return codec.FinishToolCalls
	case stopPauseTurn:
		return codec.FinishPause
	case stopRefusal:
		return codec.FinishFilter
	}
	return codec.FinishUnknown
}

// stopOf returns the stop reason for the client. A truncated answer says so even if it has calls, because the last call
// may be incomplete; so does a filtered one. Otherwise a call that the client saw decides, whatever the provider's word
// (P95, P96).
func stopOf(finish codec.FinishReason, calls, refused bool) string {
	switch finish {
	case codec.FinishLength:
		return stopMaxTokens
	case codec.FinishContext:
		return stopContext
	case codec.FinishFilter:
		return stopRefusal
	}
	switch {
	case calls:
		return stopToolUse
	case refused:
		return stopRefusal
	case finish == codec.FinishStopSequence:
		return stopSequence
	case finish == codec.FinishPause:
		return stopPauseTurn
	}
	return stopEndTurn
}

// appendStop writes the members for the reason an answer ended: stop_reason, stop_sequence and stop_details.
func appendStop(dst []byte, reason string, sequence []byte) []byte {
	dst = append(dst, `"stop_reason":"`...)
	dst = append(dst, reason...)
	dst = append(dst, `","stop_sequence":`...)
	if reason == stopSequence && len(sequence) > 0 {
		dst = append(dst, '"')
		dst = append(dst, sequence...)
		dst = append(dst, '"')
	} else {
		dst = append(dst, "null"...)
	}
	if reason == stopRefusal {
		return append(dst, `,"stop_details":{"type":"refusal","category":null,"explanation":null},"container":null`...)
	}
	return append(dst, `,"stop_details":null,"container":null`...)
}
