package crossing

import (
	"bytes"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
)

// carrierMark finds bodies that may hold carriers: they stand at the beginning of a string.
var carrierMark = []byte(`"` + carrierPrefix)

// CleanHistory leaves out of a body that passes through what another family's model has put into the conversation: a
// provider refuses foreign reasoning state, and with it the whole conversation, for ever. This is the one place where
// equal formats are not equal bytes (wire sheet: translation, 1.6). A body without carriers is returned as it is;
// otherwise the rest of it is copied to dst byte for byte, and cleaned is true.
func CleanHistory(dst, body []byte, format codec.Format) (out []byte, cleaned bool) {
	if !bytes.Contains(body, carrierMark) {
		return body, false
	}
	c := cleaner{body: body, format: format}
	for m := scan.Object(body); m.Next(); {
		switch string(m.Key) {
		case "messages":
			c.messages(m.End - len(m.Value))
		case "input":
			c.elements(m.End-len(m.Value), c.isForeignItem)
		case "thinking":
			c.thinking = codec.Span{Start: m.Start, End: m.End}
		}
	}
	if len(c.cuts) == 0 {
		return body, false
	}
	if c.currentLoop && c.thinking.End > 0 {
		c.cutThinking()
	}
	at := 0
	for _, cut := range c.cuts {
		dst = append(dst, body[at:cut.Start]...)
		at = cut.End
	}
	return append(dst, body[at:]...), true
}

// cleaner collects what is to be left out.
type cleaner struct {
	body   []byte
	format codec.Format
	cuts   []codec.Span // ascending

	thinking    codec.Span // the member thinking of a Messages request
	currentLoop bool       // something was cut from behind the newest words of the user
}

// messages goes through the content of every message.
func (c *cleaner) messages(start int) {
	for e := scan.Array(c.body[start:]); e.Next(); {
		at := start + e.Start
		if string(scan.Body(scan.Get(e.Value, "role"))) == "user" && !holdsResults(e.Value) {
			c.currentLoop = false
		}
		before := len(c.cuts)
		for m := scan.Object(e.Value); m.Next(); {
			switch string(m.Key) {
			case "content":
				c.elements(at+m.End-len(m.Value), isForeignBlock)
			case "thinking_blocks":
				c.elements(at+m.End-len(m.Value), isForeignBlock)
			}
		}
		if len(c.cuts) > before {
			c.currentLoop = true
		}
	}
}

// elements cuts the elements of an array that foreign names, each with one comma.
func (c *cleaner) elements(start int, foreign func([]byte) bool) {
	kept, lastEnd := false, 0
	open := -1 // start of a cut that waits for the next element
	for e := scan.Array(c.body[start:]); e.Next(); {
		at, end := start+e.Start, start+e.Start+len(e.Value)
		switch {
		case !foreign(e.Value):
			if open >= 0 {
				c.cuts = append(c.cuts, codec.Span{Start: open, End: at})
				open = -1
			}
			kept = true
		case kept:
			c.cuts = append(c.cuts, codec.Span{Start: lastEnd, End: end})
		case open < 0:
			open = at
		}
		lastEnd = end
	}
	if open >= 0 {
		c.cuts = append(c.cuts, codec.Span{Start: open, End: lastEnd})
	}
}

// isForeignBlock tells blocks of Messages that carry state: thinking, and results of searches that another provider ran.
func isForeignBlock(block []byte) bool {
	return scan.IsObject(block) && bytes.Contains(block, carrierMark) && string(scan.Body(scan.Get(block, "type"))) != "tool_result"
}

func (c *cleaner) isForeignItem(item []byte) bool {
	return string(scan.Body(scan.Get(item, "type"))) == "reasoning" && bytes.Contains(item, carrierMark)
}

func holdsResults(message []byte) bool {
	for e := scan.Array(scan.Get(message, "content")); e.Next(); {
		if string(scan.Body(scan.Get(e.Value, "type"))) == "tool_result" {
			return true
		}
	}
	return false
}

// cutThinking leaves out the member thinking: a tool loop that does not begin with thinking is refused while it is on.
func (c *cleaner) cutThinking() {
	end, start := c.thinking.End, c.thinking.Start
	if next := scan.Space(c.body, end); next < len(c.body) && c.body[next] == ',' {
		end = next + 1
	} else {
		for start > 0 && c.body[start-1] != ',' && c.body[start-1] != '{' {
			start--
		}
		if start > 0 && c.body[start-1] == ',' {
			start--
		}
	}
	cut := codec.Span{Start: start, End: end}
	at := 0
	for at < len(c.cuts) && c.cuts[at].Start < cut.Start {
		at++
	}
	c.cuts = append(c.cuts[:at], append([]codec.Span{cut}, c.cuts[at:]...)...)
}
