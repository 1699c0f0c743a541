package messages

import (
	"bytes"

	"github.com/mnemeproxy/mneme/codec/scan"
)

// The content blocks of an answer. A stream starts them empty and fills them with deltas; a complete answer writes them
// whole.

func appendTextBlock(dst, text []byte) []byte {
	dst = append(dst, `{"type":"text","text":"`...)
	dst = append(dst, text...)
	return append(dst, '"')
}

// appendThinkingBlock writes a whole thinking block. The signature member is always there: a client that replays a
// block without one would be refused from then on.
func appendThinkingBlock(dst, thinking, signature []byte) []byte {
	dst = append(dst, `{"type":"thinking","thinking":"`...)
	dst = append(dst, thinking...)
	dst = append(dst, `","signature":"`...)
	dst = append(dst, signature...)
	return append(dst, `"}`...)
}

func appendRedactedBlock(dst, data []byte) []byte {
	dst = append(dst, `{"type":"redacted_thinking","data":"`...)
	dst = append(dst, data...)
	return append(dst, `"}`...)
}

// appendToolUseStart begins a tool_use block up to the value of its input.
func appendToolUseStart(dst, id, name []byte) []byte {
	dst = append(dst, `{"type":"tool_use","id":"`...)
	dst = append(dst, id...)
	dst = append(dst, `","name":"`...)
	dst = append(dst, name...)
	return append(dst, `","input":`...)
}

// In other providers' answers the model itself made the calls, not code that it ran.
const (
	directCaller = `"caller":{"type":"direct"}`
	toolUseEnd   = "," + directCaller + "}" // after the input
)

// appendCustomInput writes the free text of a custom call as the input of a plain one.
func appendCustomInput(dst, text []byte) []byte {
	dst = append(dst, `{"input":"`...)
	dst = append(dst, text...)
	return append(dst, `"}`...)
}

// appendWithInput writes a block with its input replaced.
func appendWithInput(dst, block, input []byte) []byte {
	dst = append(dst, '{')
	first := true
	for m := scan.Object(block); m.Next(); {
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = append(dst, block[m.Start:m.End-len(m.Value)]...)
		if string(m.Key) == "input" {
			dst = append(dst, input...)
			continue
		}
		dst = append(dst, m.Value...)
	}
	return append(dst, '}')
}

// appendQuoted writes text as a string value.
func appendQuoted(dst []byte, text string) []byte { return scan.Quote(dst, text) }

// appendOneLine writes a JSON value on one line, because a line end would end the data field. Valid JSON has line ends
// only between its tokens.
func appendOneLine(dst, raw []byte) []byte {
	from := len(dst)
	dst = append(dst, raw...)
	if bytes.IndexByte(raw, '\n') < 0 && bytes.IndexByte(raw, '\r') < 0 {
		return dst
	}
	for i := from; i < len(dst); i++ {
		if dst[i] == '\n' || dst[i] == '\r' {
			dst[i] = ' '
		}
	}
	return dst
}
