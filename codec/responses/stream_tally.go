package responses

import (
	"strconv"

	"github.com/mnemeproxy/mneme/codec"
)

// tally is how an answer ends, and its usage.
type tally struct {
	usage    codec.Usage
	reported bool // usage was reported
	finish   codec.FinishReason
	finished bool
	refused  bool
}

// outcome returns the status of the answer, and the error if it failed.
func (t *tally) outcome(end codec.End) (string, *codec.Error) {
	switch {
	case end == codec.EndTerminal, end == codec.EndEOF && t.finished:
	case end == codec.EndCancelled:
		return statusFailed, codec.Errorf(codec.KindUpstream, "The request was cancelled.")
	default:
		return statusFailed, codec.Errorf(codec.KindUpstream, "The provider broke off the answer.")
	}
	switch t.finish {
	case codec.FinishLength, codec.FinishContext:
		return statusIncomplete, nil
	case codec.FinishFilter:
		if !t.refused {
			return statusIncomplete, nil
		}
	case codec.FinishMalformedCall:
		return statusFailed, codec.Errorf(codec.KindUpstream, "The model produced a malformed tool call.")
	}
	return statusCompleted, nil
}

func (t *tally) appendIncomplete(dst []byte, status string) []byte {
	switch {
	case status != statusIncomplete:
		return append(dst, "null"...)
	case t.finish == codec.FinishFilter:
		return append(dst, `{"reason":"content_filter"}`...)
	}
	return append(dst, `{"reason":"max_output_tokens"}`...)
}

// bytesPerToken is the rule of thumb for an estimate (docs/wire/translation.md#3.2).
const bytesPerToken = 4

// appendUsage writes the counters with all members of both detail objects, because Codex fails if one is missing
// (pitfall P28). If the provider reported nothing, they are estimated from the tokens of the prompt, unless these are
// 0, and from the bytes of the answer.
func (t *tally) appendUsage(dst []byte, input, size int64) []byte {
	u := t.usage
	if !t.reported {
		if input <= 0 {
			return append(dst, "null"...)
		}
		u = codec.Usage{InputUncached: input, Output: (size + bytesPerToken - 1) / bytesPerToken}
	}
	dst = append(dst, `{"input_tokens":`...)
	dst = strconv.AppendInt(dst, u.TotalInput(), 10)
	dst = append(dst, `,"input_tokens_details":{"cached_tokens":`...)
	dst = strconv.AppendInt(dst, u.CacheRead, 10)
	dst = append(dst, `,"cache_write_tokens":`...)
	dst = strconv.AppendInt(dst, u.CacheWrite, 10)
	dst = append(dst, `},"output_tokens":`...)
	dst = strconv.AppendInt(dst, u.Output, 10)
	dst = append(dst, `,"output_tokens_details":{"reasoning_tokens":`...)
	dst = strconv.AppendInt(dst, u.Reasoning, 10)
	dst = append(dst, `},"total_tokens":`...)
	dst = strconv.AppendInt(dst, u.Total(), 10)
	return append(dst, '}')
}
