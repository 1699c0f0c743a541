package chatkey

import (
	"bytes"
	"strconv"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
)

// The items of all surfaces have different member names, but no name has two meanings. So one walk
// reads them all.

// item adds one message or input item, and reports whether everything that keys cover has been seen.
func (s *speech) item(v []byte) (done bool) {
	if scan.IsString(v) { // responses: an input that is a string
		s.first.text(scan.Body(v))
		return true
	}
	var role, wireType, content []byte
	for m := scan.Object(v); m.Next(); {
		switch string(m.Key) {
		case "role":
			role = scan.Body(m.Value)
		case "type":
			wireType = scan.Body(m.Value)
		case "content":
			content = m.Value
		case "parts":
			if content = m.Value; role == nil {
				role = []byte("user") // unless it follows
			}
		}
	}
	opened := len(s.first.stable) > 0
	switch speakerOf(role, wireType) {
	case instructor:
		if !opened {
			s.instructions.content(content)
		}
	case user:
		if s.answered {
			return true
		}
		s.first.turn(content)
	case tool:
		return opened
	case model:
		if opened { // an answer to just notes on the environment belongs to the opening
			s.answered = true // possibly with nothing
			s.answer.content(content)
			s.answer.calls(v, wireType)
		}
	}
	return false
}

type speaker uint8

const (
	nobody speaker = iota
	instructor
	user
	model
	tool
)

func speakerOf(role, wireType []byte) speaker {
	switch string(role) {
	case "system", "developer":
		return instructor
	case "user":
		return user
	case "assistant", "model":
		return model
	case "tool", "function":
		return tool
	}
	switch string(wireType) {
	case "function_call", "custom_tool_call":
		return model
	case "function_call_output", "custom_tool_call_output":
		return tool
	}
	return nobody
}

// turn adds a user's message without the texts that only set the scene.
func (t *transcript) turn(content []byte) {
	if scan.IsString(content) {
		t.unlessScene(content)
		return
	}
	for e := scan.Array(content); e.Next() && !t.full(); {
		t.unlessScene(e.Value)
	}
}

func (t *transcript) unlessScene(block []byte) {
	before := len(t.stable)
	if t.block(block); setsScene(t.stable[before:]) {
		t.stable = t.stable[:before]
	}
}

// content adds a text or a list of blocks.
func (t *transcript) content(v []byte) {
	if scan.IsString(v) {
		t.text(scan.Body(v))
		return
	}
	for e := scan.Array(v); e.Next() && !t.full(); {
		t.block(e.Value)
	}
}

// block adds one block of a content list, or a text in its place.
func (t *transcript) block(v []byte) {
	if scan.IsString(v) {
		t.text(scan.Body(v))
		return
	}
	var wireType, text []byte
	for m := scan.Object(v); m.Next(); {
		switch string(m.Key) {
		case "type":
			wireType = scan.Body(m.Value)
		case "text", "refusal":
			text = scan.Body(m.Value)
		case "thought":
			if scan.IsTrue(m.Value) {
				return
			}
		case "functionCall", "function_call":
			t.call(m.Value)
		case "inlineData", "inline_data", "fileData", "file_data":
			if scan.IsObject(m.Value) {
				t.media(v)
			}
		case "parts": // instructions that are a content
			t.content(m.Value)
		}
	}
	switch string(wireType) {
	case "":
		if text != nil {
			t.text(text)
		}
	case "text", "input_text", "output_text", "refusal":
		t.text(text)
	case "tool_use":
		t.call(v)
	case "image", "image_url", "input_image", "document", "file", "input_file", "input_audio":
		t.media(v)
	}
}

// calls adds the calls that are not part of an answer's content: those of chat, or an item that is a call.
func (t *transcript) calls(v, wireType []byte) {
	if len(wireType) > 0 && string(wireType) != "message" {
		t.call(v)
		return
	}
	for m := scan.Object(v); m.Next(); {
		switch string(m.Key) {
		case "refusal":
			t.text(scan.Body(m.Value))
		case "tool_calls":
			for e := scan.Array(m.Value); e.Next(); {
				t.call(scan.Get(e.Value, "function"))
				t.call(scan.Get(e.Value, "custom"))
			}
		case "function_call":
			t.call(m.Value)
		}
	}
}

// call adds the name of a call and its input: JSON text in a string, plain JSON, or free text.
func (t *transcript) call(v []byte) {
	var name, arguments, input []byte
	for m := scan.Object(v); m.Next(); {
		switch string(m.Key) {
		case "name":
			name = scan.Body(m.Value)
		case "arguments":
			arguments = m.Value
		case "input", "args":
			input = m.Value
		}
	}
	t.plainText(name)
	switch {
	case arguments != nil:
		t.arguments(scan.Body(arguments))
	case scan.IsString(input):
		t.plainText(scan.Body(input))
	default:
		t.plainText(input)
	}
}

// arguments adds JSON text from a string body. An empty body counts as an empty object.
func (t *transcript) arguments(body []byte) {
	if scan.Blank(body) {
		body = []byte("{}")
	}
	t.inner = scan.Unescape(t.inner[:0], looked(body))
	t.plainText(t.inner)
}

// answerItem adds one item of an answer in the form in which requests will repeat it.
func (t *transcript) answerItem(it *codec.Item) {
	switch it.Type {
	case codec.ItemText, codec.ItemRefusal:
		t.text(it.Text)
	case codec.ItemToolCall:
		t.plainText(it.Name)
		t.arguments(it.Text)
	case codec.ItemCustomCall:
		t.plainText(it.Name)
		t.plainText(it.Text)
	}
}

// mediaTrace is how much of a picture or file identifies it, together with its length: the end, because beginnings are
// alike.
const mediaTrace = 64

// media adds a trace of a picture or file, in whatever form it is given.
func (t *transcript) media(v []byte) {
	data := mediaText(v, 3)
	if i := bytes.Index(data[:min(len(data), 200)], []byte(";base64,")); i >= 0 {
		data = data[i+len(";base64,"):]
	}
	t.stable = strconv.AppendInt(append(t.stable, "media:"...), int64(len(data)), 10)
	t.stable = append(t.stable, data[max(0, len(data)-mediaTrace):]...)
}

// mediaText finds the data, address or id of a part, at most depth objects deep.
func mediaText(v []byte, depth int) (found []byte) {
	for m := scan.Object(v); depth > 0 && m.Next(); {
		switch string(m.Key) {
		case "data", "url", "image_url", "file_id", "file_data", "fileUri", "file_uri":
			if scan.IsString(m.Value) {
				return scan.Body(m.Value)
			}
		}
		if scan.IsObject(m.Value) && found == nil {
			found = mediaText(m.Value, depth-1)
		}
	}
	return found
}
