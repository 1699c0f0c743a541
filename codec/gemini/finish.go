package gemini

import (
	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
)

// finish emits why the candidate ended. An unreadable call with nothing before it is an error, not an empty answer
// (docs/wire/translation.md#3.1, rule d).
func (d *decoder) finish(dst []codec.Event, word codec.FinishReason, message []byte) []codec.Event {
	d.word = word
	reason := d.finishReason()
	if reason == codec.FinishMalformedCall && d.next == 0 {
		return d.fail(append(dst, codec.Event{Kind: codec.EventFinish, Finish: reason}), malformedCall(message))
	}
	d.finished, d.reason = true, reason
	dst = d.close(dst)
	return append(dst, codec.Event{Kind: codec.EventFinish, Finish: reason})
}

// finishReason takes calls into account: the provider finishes a turn that calls tools like any other
// (docs/wire/translation.md#3.1, rules a and b).
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

// finishWord maps the provider's words; unlisted and future ones are an ordinary end.
func finishWord(word []byte) codec.FinishReason {
	switch string(word) {
	case "MAX_TOKENS",
		"CONTINUATION": // the rest would need another call to this provider with its token
		return codec.FinishLength
	case "SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII",
		"IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION":
		return codec.FinishFilter
	case "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "MALFORMED_RESPONSE":
		return codec.FinishMalformedCall
	}
	return codec.FinishEnd
}

// blocked reports whether the prompt was refused: there are no candidates then, and no finish reason.
func blocked(feedback []byte) bool {
	reason := scan.Body(scan.Get(feedback, "blockReason"))
	return len(reason) > 0 && string(reason) != "BLOCK_REASON_UNSPECIFIED"
}

// readUsage converts the counts (docs/wire/generate-content.md#3.2): cached tokens are part of the prompt,
// what server tools fed back is not, thoughts are not part of the candidates.
func readUsage(usage []byte) codec.Usage {
	var prompt, cached, tools, candidates, thoughts int64
	for m := scan.Object(usage); m.Next(); {
		n, _ := codec.ReadTokens(m.Value)
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
