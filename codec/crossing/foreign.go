package crossing

import (
	"bytes"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
)

// CleanHistory leaves out of a body that passes through what another provider's answers have put into the conversation
// and this provider would refuse, and with it the whole conversation, for ever: carriers, unsigned thinking, members that
// only other hosts know. This is the one place where equal formats are not equal bytes (docs/wire/translation.md#1.6). A
// body without any of it, which a search for a few marks tells, is returned as it is; dropped names what went, in the
// client's own terms. A host that wants its reasoning back gets it from the client's own members, else from the ledger.
// Pieces of the body and their fingerprints are optional: those without marks are not searched again.
func CleanHistory(body []byte, format codec.Format, s *Settings) (cleaned []byte, dropped []string) {
	t := &s.Target
	c := cleaner{target: t, memory: s.memory()}
	if len(s.Pieces) > 0 && !t.Dialect.ReplayReasoning && unmarked.Every(body, s.Pieces, s.Prints, isUnmarked) {
		return body, nil
	}
	switch format {
	case codec.Messages:
		if bytes.Contains(body, carrierMark) || t.Family == codec.FamilyAnthropic && bytes.Contains(body, unsignedMark) {
			cleaned = c.messages(body)
		}
	case codec.Responses:
		if bytes.Contains(body, carrierMark) || holdsOwnReasoning(body) {
			cleaned = c.member(body, "input", c.input)
		}
	case codec.Chat:
		if c.concernsChat(body) {
			cleaned = c.member(body, "messages", c.chat)
		}
	}
	if !c.changed {
		return body, nil
	}
	return cleaned, c.dropped
}

// What is searched for before anything is read.
var (
	carrierMark  = []byte(`"` + carrierPrefix)
	unsignedMark = []byte(`"signature":""`)
	ownReasoning = []byte(`"rs_`)
	chatThoughts = []byte(`"reasoning_content"`)
	chatExtra    = []byte(`"extra_content"`)
	chatPictures = []byte(`"images"`)
)

// unmarked are pieces of requests that hold no mark of any format.
var unmarked codec.FingerprintSet

func isUnmarked(part []byte) bool {
	for _, mark := range [...][]byte{carrierMark, unsignedMark, ownReasoning, chatThoughts, chatExtra, chatPictures} {
		if bytes.Contains(part, mark) {
			return false
		}
	}
	return true
}

// cleaner notes what it leaves out.
type cleaner struct {
	target  *codec.Target
	memory  Memory
	changed bool
	dropped []string
	called  bool // a turn with calls was seen
	unled   bool // the newest tool loop has lost the thinking that it began with
}

func (c *cleaner) drop(name string) {
	c.changed = true
	notes := codec.Notes{Dropped: c.dropped}
	notes.Drop(name)
	c.dropped = notes.Dropped
}

// member copies an object and gives one of its members another value.
func (c *cleaner) member(object []byte, name string, value func(dst, value []byte) []byte) []byte {
	return appendMembers(make([]byte, 0, len(object)), object, func(dst []byte, member *scan.Members) ([]byte, bool) {
		if string(member.Key) != name {
			return append(dst, object[member.Start:member.End]...), true
		}
		dst = append(dst, object[member.Start:member.End-len(member.Value)]...)
		return value(dst, member.Value), true
	})
}

// appendMembers appends an object with those members that write keeps.
func appendMembers(dst, object []byte, write func(dst []byte, m *scan.Members) ([]byte, bool)) []byte {
	dst = append(dst, '{')
	first := true
	for m := scan.Object(object); m.Next(); {
		from := len(dst)
		if !first {
			dst = append(dst, ',')
		}
		var kept bool
		if dst, kept = write(dst, &m); kept {
			first = false
		} else {
			dst = dst[:from]
		}
	}
	return append(dst, '}')
}

// appendWithout appends an object without one of its members.
func appendWithout(dst, object []byte, name string) []byte {
	return appendMembers(dst, object, func(dst []byte, m *scan.Members) ([]byte, bool) {
		return append(dst, object[m.Start:m.End]...), string(m.Key) != name
	})
}

// appendElements appends an array with those elements that write keeps. A value that is no array is copied.
func appendElements(dst, list []byte, write func(dst, element []byte) ([]byte, bool)) (out []byte, kept int) {
	if !scan.IsArray(list) {
		return append(dst, list...), 1
	}
	dst = append(dst, '[')
	for e := scan.Array(list); e.Next(); {
		from := len(dst)
		if kept > 0 {
			dst = append(dst, ',')
		}
		var keep bool
		if dst, keep = write(dst, e.Value); keep {
			kept++
		} else {
			dst = dst[:from]
		}
	}
	return append(dst, ']'), kept
}

// messages leaves out thinking that Anthropic did not sign. Where the running tool loop thereby loses the thinking it
// has to begin with, thinking is left out of this request: nobody can invent a signature.
func (c *cleaner) messages(body []byte) []byte {
	cleaned := c.member(body, "messages", func(dst, list []byte) []byte {
		dst, _ = appendElements(dst, list, c.message)
		return dst
	})
	if !c.unled || !scan.IsObject(scan.Get(body, "thinking")) {
		return cleaned
	}
	c.drop("thinking")
	return appendWithout(nil, cleaned, "thinking")
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
	dst = appendMembers(dst, message, func(dst []byte, member *scan.Members) ([]byte, bool) {
		if string(member.Key) != "content" {
			return append(dst, message[member.Start:member.End]...), true
		}
		dst = append(dst, `"content":`...)
		dst, left = appendElements(dst, content, func(dst, block []byte) ([]byte, bool) {
			switch kind := string(scan.Body(scan.Get(block, "type"))); {
			case c.isForeignThinking(kind, block):
				c.drop("messages.thinking")
				lost = true
				return dst, false
			case isForeignSearch(kind, block, searches):
				c.drop("messages.content." + kind)
				return dst, false
			case kind == "text" && bytes.Contains(scan.Get(block, "citations"), carrierMark):
				c.drop("messages.content.citations")
				return appendWithout(dst, block, "citations"), true
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

// isForeignThinking tells thinking of another provider: it bears a carrier, or nothing at all. Any other value may be a
// signature, which Anthropic alone can judge; other hosts of the format do not ask for one.
func (c *cleaner) isForeignThinking(kind string, block []byte) bool {
	switch kind {
	case "thinking":
		signature := scan.Body(scan.Get(block, "signature"))
		return isCarrier(signature) || len(signature) == 0 && c.target.Family == codec.FamilyAnthropic
	case "redacted_thinking":
		return isCarrier(scan.Body(scan.Get(block, "data")))
	}
	return false
}

// foreignSearches are the ids of the searches that another provider ran: their results bear a carrier.
func foreignSearches(content []byte) map[string]bool {
	if !bytes.Contains(content, carrierMark) {
		return nil
	}
	ids := make(map[string]bool)
	for e := scan.Array(content); e.Next(); {
		if id := scan.Body(scan.Get(e.Value, "tool_use_id")); id != nil && bytes.Contains(e.Value, carrierMark) {
			ids[string(id)] = true
		}
	}
	return ids
}

// isForeignSearch tells the two blocks of such a search, its results and the call that they answer.
func isForeignSearch(kind string, block []byte, searches map[string]bool) bool {
	switch kind {
	case "web_search_tool_result":
		return bytes.Contains(block, carrierMark)
	case "server_tool_use":
		return searches[string(scan.Body(scan.Get(block, "id")))]
	}
	return false
}

// input leaves out reasoning items of another provider's answers.
func (c *cleaner) input(dst, list []byte) []byte {
	dst, _ = appendElements(dst, list, func(dst, item []byte) ([]byte, bool) {
		if string(scan.Body(scan.Get(item, "type"))) == "reasoning" {
			state := scan.Body(scan.Get(item, "encrypted_content"))
			if isCarrier(state) || len(state) == 0 && isOwnID(scan.Body(scan.Get(item, "id"))) {
				c.drop("input.reasoning")
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

// holdsOwnReasoning searches for ids of reasoning items that we made.
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

// concernsChat reports whether a host could refuse what the history of a chat request says or leaves out.
func (c *cleaner) concernsChat(body []byte) bool {
	switch {
	case bytes.Contains(body, carrierMark):
		return true
	case c.target.Dialect.ReplayReasoning:
		return bytes.Contains(body, []byte(`"tool_calls"`))
	case c.target.Family == codec.FamilyOpenAI:
		return bytes.Contains(body, chatThoughts) || bytes.Contains(body, chatExtra) || bytes.Contains(body, chatPictures)
	}
	return false
}

// chat takes members out of assistant messages that the host refuses, and gives those their reasoning back that have lost
// it, where the host insists on some.
func (c *cleaner) chat(dst, list []byte) []byte {
	dst, _ = appendElements(dst, list, func(dst, message []byte) ([]byte, bool) {
		if string(scan.Body(scan.Get(message, "role"))) != "assistant" {
			return append(dst, message...), true
		}
		c.called = c.called || scan.IsArray(scan.Get(message, "tool_calls"))
		text, lost := c.lostReasoning(message)
		dst = appendMembers(dst, message, func(dst []byte, member *scan.Members) ([]byte, bool) {
			if c.refuses(member) {
				c.drop("messages." + string(member.Key))
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
			c.changed = true
			dst = append(dst[:len(dst)-1], `,"reasoning_content":"`...)
			dst = append(append(dst, text...), `"}`...)
		}
		return dst, true
	})
	return dst
}

// lostReasoning reports whether a message lacks the reasoning that the host insists on, and gives the text that is known,
// a string body. Every turn from the first with calls on has to have some, and an empty one stands for what nobody has kept
// (docs/wire/fourth-provider.md#2.4).
func (c *cleaner) lostReasoning(message []byte) (text []byte, lost bool) {
	own := scan.Get(message, "reasoning_content")
	if !c.called || !c.target.Dialect.ReplayReasoning || len(scan.Body(own)) > 0 {
		return nil, false
	}
	text = scan.Body(scan.Get(message, "reasoning")) // some clients keep it under this name
	calls := scan.Array(scan.Get(message, "tool_calls"))
	for len(text) == 0 && calls.Next() {
		text = c.memory.recall(ledgerReasoning, scan.Body(scan.Get(calls.Value, "id")))
	}
	return text, len(text) > 0 || !scan.IsString(own)
}

func (c *cleaner) calls(dst, list []byte) []byte {
	dst, _ = appendElements(dst, list, func(dst, call []byte) ([]byte, bool) {
		return appendMembers(dst, call, func(dst []byte, member *scan.Members) ([]byte, bool) {
			if c.refuses(member) {
				c.drop("messages.tool_calls.extra_content")
				return dst, false
			}
			return append(dst, call[member.Start:member.End]...), true
		}), true
	})
	return dst
}

// refuses tells members that only other hosts know: OpenAI refuses them all, and nobody can read a carrier.
func (c *cleaner) refuses(member *scan.Members) bool {
	switch string(member.Key) {
	case "thinking_blocks":
		return c.target.Family == codec.FamilyOpenAI || bytes.Contains(member.Value, carrierMark)
	case "reasoning_content", "extra_content", "images":
		return c.target.Family == codec.FamilyOpenAI
	}
	return false
}
