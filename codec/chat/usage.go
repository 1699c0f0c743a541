package chat

import (
	"strconv"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
)

// count reads a usage object. Counters are cumulative: the last report wins (P98).
func (d *decoder) count(v []byte) {
	d.usage, d.counted = readUsage(v), true
	d.usage.Tier = d.tier
}

// readUsage reads the members of OpenAI and of the hosts: prompt_cache_hit_tokens (DeepSeek), num_cached_tokens and
// prompt_token_details (Mistral), cache_creation_input_tokens (Qwen, and hosts of Anthropic's models).
func readUsage(v []byte) codec.Usage {
	var u codec.Usage
	var prompt, completion, total, read, write int64
	for m := scan.Object(v); m.Next(); {
		switch string(m.Key) {
		case "prompt_tokens":
			prompt = tokens(m.Value)
		case "completion_tokens":
			completion = tokens(m.Value)
		case "total_tokens":
			total = tokens(m.Value)
		case "prompt_tokens_details", "prompt_token_details":
			for s := scan.Object(m.Value); s.Next(); {
				switch string(s.Key) {
				case "cached_tokens":
					read = max(read, tokens(s.Value))
				case "cache_write_tokens", "cache_creation_tokens", "cache_creation_input_tokens":
					write = max(write, tokens(s.Value))
				case "cache_write_tokens_details":
					u.CacheLong = tokens(scan.Get(s.Value, "ttl_12h_tokens"))
				}
			}
		case "completion_tokens_details":
			u.Reasoning = tokens(scan.Get(m.Value, "reasoning_tokens"))
		case "prompt_cache_hit_tokens", "num_cached_tokens", "cache_read_input_tokens":
			read = max(read, tokens(m.Value))
		case "cache_creation_input_tokens":
			write = max(write, tokens(m.Value))
		}
	}
	u.SplitInput(prompt, read, write)
	u.Output = completion
	// xAI counts reasoning separately from the completion, as its total shows.
	if u.Reasoning > 0 && (completion < u.Reasoning || total == prompt+completion+u.Reasoning) {
		u.Output += u.Reasoning
	}
	return u
}

// tokens reads a count; anything else is 0.
func tokens(v []byte) int64 {
	n, _ := codec.ReadTokens(v)
	return n
}

// bytesPerToken is the usual rule of thumb.
const bytesPerToken = 4

// estimate replaces a usage that the provider did not report, from the bytes of the output.
func estimate(o *codec.AnswerOptions, written int) codec.Usage {
	return codec.Usage{
		InputUncached: o.EstimatedInput, Output: int64((written + bytesPerToken - 1) / bytesPerToken), Estimated: true,
	}
}

// appendUsage writes a usage object. Input includes what was read from and written to caches, output includes
// reasoning.
func appendUsage(dst []byte, u *codec.Usage) []byte {
	dst = append(dst, `{"prompt_tokens":`...)
	dst = strconv.AppendInt(dst, u.TotalInput(), 10)
	dst = append(dst, `,"completion_tokens":`...)
	dst = strconv.AppendInt(dst, u.Output, 10)
	dst = append(dst, `,"total_tokens":`...)
	dst = strconv.AppendInt(dst, u.Total(), 10)
	dst = append(dst, `,"prompt_tokens_details":{"cached_tokens":`...)
	dst = strconv.AppendInt(dst, u.CacheRead, 10)
	dst = append(dst, `,"cache_write_tokens":`...)
	dst = strconv.AppendInt(dst, u.CacheWrite, 10)
	dst = append(dst, `},"completion_tokens_details":{"reasoning_tokens":`...)
	dst = strconv.AppendInt(dst, u.Reasoning, 10)
	return append(dst, `}}`...)
}
