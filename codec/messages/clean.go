package messages

import (
	"bytes"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
	"github.com/mnemeproxy/mneme/codec/statetoken"
)

// unsigned is unsigned thinking, as this side writes it if the thinking came without a proof.
var unsigned = []byte(`"signature":""`)

// cleaner is the Cleaner with the state of the running tool loop.
type cleaner struct {
	*codec.Cleaner
	unled bool // the newest tool loop has lost the thinking that it began with
}

// clean removes thinking that Anthropic did not sign. If the running tool loop thereby loses the thinking that it must
// begin with, thinking is removed from this request: signatures cannot be invented.
func clean(base *codec.Cleaner, body []byte) []byte {
	if !bytes.Contains(body, statetoken.Mark) && (base.Target.Family != codec.FamilyAnthropic || !bytes.Contains(body, unsigned)) {
		return body
	}
	c := cleaner{Cleaner: base}
	cleaned := scan.ReplaceMember(body, "messages", func(dst, list []byte) []byte {
		dst, _ = scan.AppendElements(dst, list, c.message)
		return dst
	})
	if !c.unled || !scan.IsObject(scan.Get(body, "thinking")) {
		return cleaned
	}
	c.Drop("thinking")
	return scan.AppendWithout(nil, cleaned, "thinking")
}

func (c *cleaner) message(dst, message []byte) ([]byte, bool) {
	content := scan.Get(message, "content")
	if string(scan.Body(scan.Get(message, "role"))) != "assistant" {
		if !holdsResult(content) {
			c.unled = false
		}
		return append(dst, message...), true
	}
	led, lost, left, searches := false, false, 0, foreignSearches(content)
	dst = scan.AppendMembers(dst, message, func(dst []byte, member *scan.Members) ([]byte, bool) {
		if string(member.Key) != "content" {
			return append(dst, message[member.Start:member.End]...), true
		}
		dst = append(dst, `"content":`...)
		dst, left = scan.AppendElements(dst, content, func(dst, block []byte) ([]byte, bool) {
			switch kind := string(scan.Body(scan.Get(block, "type"))); {
			case c.isForeignThinking(kind, block):
				c.Drop("messages.thinking")
				lost = true
				return dst, false
			case isForeignSearch(kind, block, searches):
				c.Drop("messages.content." + kind)
				return dst, false
			case kind == "text" && bytes.Contains(scan.Get(block, "citations"), statetoken.Mark):
				c.Drop("messages.content.citations")
				return scan.AppendWithout(dst, block, "citations"), true
			case kind == "thinking", kind == "redacted_thinking":
				led = true
			}
			return append(dst, block...), true
		})
		return dst, true
	})
	c.unled = c.unled || lost && !led
	return dst, left > 0
}

func holdsResult(content []byte) bool {
	for e := scan.Array(content); e.Next(); {
		if string(scan.Body(scan.Get(e.Value, "type"))) == "tool_result" {
			return true
		}
	}
	return false
}

// isForeignThinking reports whether thinking is another provider's: its signature is a state token, or empty. Any other
// value may be a signature, which only Anthropic can verify; other hosts of the format do not require one.
func (c *cleaner) isForeignThinking(kind string, block []byte) bool {
	switch kind {
	case "thinking":
		signature := scan.Body(scan.Get(block, "signature"))
		return statetoken.Is(signature) || len(signature) == 0 && c.Target.Family == codec.FamilyAnthropic
	case "redacted_thinking":
		return statetoken.Is(scan.Body(scan.Get(block, "data")))
	}
	return false
}

// foreignSearches returns the ids of the searches that another provider ran: their results have a state token.
func foreignSearches(content []byte) map[string]bool {
	if !bytes.Contains(content, statetoken.Mark) {
		return nil
	}
	ids := make(map[string]bool)
	for e := scan.Array(content); e.Next(); {
		if id := scan.Body(scan.Get(e.Value, "tool_use_id")); id != nil && bytes.Contains(e.Value, statetoken.Mark) {
			ids[string(id)] = true
		}
	}
	return ids
}

// isForeignSearch reports whether a block belongs to such a search: its results, or the call that they answer.
func isForeignSearch(kind string, block []byte, searches map[string]bool) bool {
	switch kind {
	case "web_search_tool_result":
		return bytes.Contains(block, statetoken.Mark)
	case "server_tool_use":
		return searches[string(scan.Body(scan.Get(block, "id")))]
	}
	return false
}
