package messages

import (
	"strconv"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
)

// readUsage stores the counters of a usage object in u. The counters of message_delta are cumulative, and those that it
// omits or sets to null keep the value of message_start.
func readUsage(u *codec.Usage, usage []byte) {
	for m := scan.Object(usage); m.Next(); {
		switch string(m.Key) {
		case "input_tokens":
			readCount(&u.InputUncached, m.Value)
		case "cache_read_input_tokens":
			readCount(&u.CacheRead, m.Value)
		case "cache_creation_input_tokens":
			readCount(&u.CacheWrite, m.Value)
		case "cache_creation":
			readCount(&u.CacheLong, scan.Get(m.Value, "ephemeral_1h_input_tokens"))
		case "output_tokens":
			readCount(&u.Output, m.Value)
		case "output_tokens_details":
			readCount(&u.Reasoning, scan.Get(m.Value, "thinking_tokens"))
		case "service_tier":
			if tier := codec.ReadTier(scan.Body(m.Value)); tier != codec.TierStandard {
				u.Tier = tier
			}
		case "speed":
			if codec.ReadTier(scan.Body(m.Value)) == codec.TierFast {
				u.Tier = codec.TierFast
			}
		}
	}
}

// appendMessageUsage writes the usage object of a message. Members that are null here are not known from other
// providers.
func appendMessageUsage(dst []byte, u codec.Usage) []byte {
	dst = appendUsage(dst, u)
	dst = append(dst, `,"cache_creation":{"ephemeral_5m_input_tokens":`...)
	dst = appendInt(dst, max(u.CacheWrite-u.CacheLong, 0))
	dst = append(dst, `,"ephemeral_1h_input_tokens":`...)
	dst = appendInt(dst, u.CacheLong)
	return append(dst, `},"service_tier":null,"speed":null,"inference_geo":null}`...)
}

// appendUsage writes the members that the usage objects of a message and of its end share, and leaves the object open.
func appendUsage(dst []byte, u codec.Usage) []byte {
	dst = append(dst, `{"input_tokens":`...)
	dst = appendInt(dst, u.InputUncached)
	dst = append(dst, `,"cache_creation_input_tokens":`...)
	dst = appendInt(dst, u.CacheWrite)
	dst = append(dst, `,"cache_read_input_tokens":`...)
	dst = appendInt(dst, u.CacheRead)
	dst = append(dst, `,"output_tokens":`...)
	dst = appendInt(dst, u.Output)
	dst = append(dst, `,"output_tokens_details":{"thinking_tokens":`...)
	dst = appendInt(dst, u.Reasoning)
	return append(dst, `},"server_tool_use":null`...)
}

// openingUsage returns the usage in message_start: the provider's figures if they are already known, else the estimate.
// The input is never zero, because clients show from it how full the context is. The output is always zero, because
// some clients add it to that of message_delta.
func openingUsage(reported codec.Usage, estimate int64) codec.Usage {
	u := reported
	if u.TotalInput() == 0 {
		u = codec.Usage{InputUncached: max(estimate, 1)}
	}
	u.Output, u.Reasoning = 0, 0
	return u
}

// closingUsage returns the usage at the end of an answer: the provider's figures, or an estimate from the bytes
// written, at four per token. Zeros would look like an answer that cost nothing.
func closingUsage(reported codec.Usage, known bool, estimate, written int64) codec.Usage {
	u := reported
	if !known {
		u = codec.Usage{Output: (written + 3) / 4, Estimated: true}
	}
	if u.TotalInput() == 0 {
		u.InputUncached = max(estimate, 1)
	}
	return u
}

func appendInt(dst []byte, n int64) []byte { return strconv.AppendInt(dst, n, 10) }

// readCount sets n if v is a number: to 0 if it is none that a counter can have. An absent, null or other v leaves n
// unchanged.
func readCount(n *int64, v []byte) {
	if scan.IsNumber(v) {
		*n, _ = codec.ReadTokens(v)
	}
}
