package responses

import (
	"bytes"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
	"github.com/mnemeproxy/mneme/codec/statetoken"
)

// ownReasoning is the prefix of ids of reasoning items, with the opening quote.
var ownReasoning = []byte(`"rs_`)

// clean removes reasoning items of other providers' answers.
func clean(c *codec.Cleaner, body []byte) []byte {
	if !bytes.Contains(body, statetoken.Mark) && !holdsOwnReasoning(body) {
		return body
	}
	return scan.ReplaceMember(body, "input", func(dst, list []byte) []byte {
		return cleanInput(c, dst, list)
	})
}

func cleanInput(c *codec.Cleaner, dst, list []byte) []byte {
	dst, _ = scan.AppendElements(dst, list, func(dst, item []byte) ([]byte, bool) {
		if string(scan.Body(scan.Get(item, "type"))) == "reasoning" {
			state := scan.Body(scan.Get(item, "encrypted_content"))
			if statetoken.Is(state) || len(state) == 0 && isOwnID(scan.Body(scan.Get(item, "id"))) {
				c.Drop("input.reasoning")
				return dst, false
			}
		}
		return append(dst, item...), true
	})
	return dst
}

// ownIDLength is the length of the ids of items that we make: a prefix of three letters, an exchange's id of 26, and
// the item's place in two digits or more. OpenAI's are longer by half.
const (
	ownIDLength    = len("rs_") + 26 + 2
	ownIDLengthMax = ownIDLength + 4
)

func isOwnID(id []byte) bool { return len(id) >= ownIDLength && len(id) <= ownIDLengthMax }

// holdsOwnReasoning reports whether a body contains ids of reasoning items that we made.
func holdsOwnReasoning(body []byte) bool {
	for {
		i := bytes.Index(body, ownReasoning)
		if i < 0 {
			return false
		}
		body = body[i+1:]
		if end := bytes.IndexByte(body, '"'); end >= 0 && isOwnID(body[:end]) {
			return true
		}
	}
}
