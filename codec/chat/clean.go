package chat

import (
	"bytes"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
	"github.com/mnemeproxy/mneme/codec/statetoken"
)

// Marks that are searched for before anything is read.
var (
	thoughts = []byte(`"reasoning_content"`)
	extra    = []byte(`"extra_content"`)
	pictures = []byte(`"images"`)
)

// cleaner is the Cleaner with its progress.
type cleaner struct {
	*codec.Cleaner
	called bool // a turn with calls was seen
}

// clean removes members that only other hosts know, and restores reasoning that the client has lost for a host that
// wants it: from the client's own members, else from what was kept.
func clean(base *codec.Cleaner, body []byte) []byte {
	c := cleaner{Cleaner: base}
	if !c.concerns(body) {
		return body
	}
	return scan.ReplaceMember(body, "messages", c.messages)
}

// concerns reports whether a host could refuse the history of a chat request for what it contains or lacks.
func (c *cleaner) concerns(body []byte) bool {
	switch {
	case bytes.Contains(body, statetoken.Mark):
		return true
	case c.Target.Dialect.ReplayReasoning:
		return bytes.Contains(body, []byte(`"tool_calls"`))
	case c.Target.Family == codec.FamilyOpenAI:
		return bytes.Contains(body, thoughts) || bytes.Contains(body, extra) || bytes.Contains(body, pictures)
	}
	return false
}

// messages removes members from assistant messages that the host refuses, and restores lost reasoning if the host
// requires some.
func (c *cleaner) messages(dst, list []byte) []byte {
	dst, _ = scan.AppendElements(dst, list, func(dst, message []byte) ([]byte, bool) {
		if string(scan.Body(scan.Get(message, "role"))) != "assistant" {
			return append(dst, message...), true
		}
		c.called = c.called || scan.IsArray(scan.Get(message, "tool_calls"))
		text, lost := c.lostReasoning(message)
		dst = scan.AppendMembers(dst, message, func(dst []byte, member *scan.Members) ([]byte, bool) {
			if c.refuses(member) {
				c.Drop("messages." + string(member.Key))
				return dst, false
			}
			if lost && string(member.Key) == "reasoning_content" {
				return dst, false
			}
			if string(member.Key) == "tool_calls" && bytes.Contains(member.Value, []byte(`"extra_content"`)) {
				return c.calls(append(dst, `"tool_calls":`...), member.Value), true
			}
			return append(dst, message[member.Start:member.End]...), true
		})
		if lost {
			c.Changed = true
			dst = append(dst[:len(dst)-1], `,"reasoning_content":"`...)
			dst = append(append(dst, text...), `"}`...)
		}
		return dst, true
	})
	return dst
}

// lostReasoning reports whether a message lacks the reasoning that the host requires, and returns the known text, a
// string body. Every turn from the first one with calls on must have some; an empty text replaces an unknown one
// (docs/wire/fourth-provider.md#2.4).
func (c *cleaner) lostReasoning(message []byte) (text []byte, lost bool) {
	own := scan.Get(message, "reasoning_content")
	if !c.called || !c.Target.Dialect.ReplayReasoning || len(scan.Body(own)) > 0 {
		return nil, false
	}
	text = scan.Body(scan.Get(message, "reasoning")) // some clients use this name
	calls := scan.Array(scan.Get(message, "tool_calls"))
	for len(text) == 0 && calls.Next() {
		text = c.Recall(scan.Body(scan.Get(calls.Value, "id")))
	}
	return text, len(text) > 0 || !scan.IsString(own)
}

func (c *cleaner) calls(dst, list []byte) []byte {
	dst, _ = scan.AppendElements(dst, list, func(dst, call []byte) ([]byte, bool) {
		return scan.AppendMembers(dst, call, func(dst []byte, member *scan.Members) ([]byte, bool) {
			if c.refuses(member) {
				c.Drop("messages.tool_calls.extra_content")
				return dst, false
			}
			return append(dst, call[member.Start:member.End]...), true
		}), true
	})
	return dst
}

// refuses reports whether only other hosts know a member: OpenAI refuses all of those, and nobody can read a state
// token.
func (c *cleaner) refuses(member *scan.Members) bool {
	switch string(member.Key) {
	case "thinking_blocks":
		return c.Target.Family == codec.FamilyOpenAI || bytes.Contains(member.Value, statetoken.Mark)
	case "reasoning_content", "extra_content", "images":
		return c.Target.Family == codec.FamilyOpenAI
	}
	return false
}
