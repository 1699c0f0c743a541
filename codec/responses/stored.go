package responses

import (
	"bytes"
	"strconv"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
	"github.com/mnemeproxy/mneme/codec/sse"
)

// Statuses of a response that has no answer yet, or never gets one.
const (
	StatusQueued     = "queued"
	StatusInProgress = statusInProgress
	StatusCompleted  = statusCompleted
	StatusFailed     = statusFailed
	StatusCancelled  = "cancelled"
)

// Stored returns the response object of a recorded answer, complete or streamed; nil if it has none, or broke off before
// its terminal event.
func Stored(answer []byte) []byte {
	if scan.IsObject(answer) {
		if scan.String(scan.Get(answer, "object")) == "response" {
			return answer
		}
		return nil
	}
	var found []byte
	eachEvent(answer, func(f *sse.Frame) {
		switch scan.String(scan.Get(f.Data, "type")) {
		case "response.completed", "response.incomplete", "response.failed":
			found = bytes.Clone(scan.Get(f.Data, "response"))
		}
	})
	return found
}

// EventsAfter appends the events of a recorded stream that have higher numbers than after.
func EventsAfter(dst, stream []byte, after int64) []byte {
	eachEvent(stream, func(f *sse.Frame) {
		if n, numbered := scan.Int(scan.Get(f.Data, "sequence_number")); !numbered || n > after {
			dst = append(dst, f.Raw...)
		}
	})
	return dst
}

// Begun returns the id of the response that a stream begins with, "" if it has not begun.
func Begun(stream []byte) string {
	frames := sse.Split(stream)
	for f := (sse.Frame{}); frames.Next(&f); {
		if response := scan.Get(f.Data, "response"); response != nil {
			return scan.String(scan.Get(response, "id"))
		}
	}
	return ""
}

func eachEvent(stream []byte, visit func(*sse.Frame)) {
	frames := sse.Split(stream)
	for f := (sse.Frame{}); frames.Next(&f); {
		if !f.Comment {
			visit(&f)
		}
	}
}

// AppendUnanswered writes the response object of a request without an answer: what it asked for, and why it failed.
func AppendUnanswered(dst, request []byte, o *codec.AnswerOptions, status string, failure *codec.Error) []byte {
	own := *o
	own.Request = new(codec.Request)
	own.Request.Reset()
	_ = Client().DecodeRequest(own.Request, request) // repeats what has been read by then
	if own.Model == "" {
		own.Model = own.Request.Model
	}
	return newEncoder(&own).response(dst, status, failure)
}

// AppendRenamed writes a response object for a client that knows it by another id, and asked for it in the background.
func AppendRenamed(dst, response []byte, id string) []byte {
	return scan.AppendMembers(dst, response, func(dst []byte, m *scan.Members) ([]byte, bool) {
		switch string(m.Key) {
		case "id":
			return scan.Quote(append(dst, `"id":`...), id), true
		case "background":
			return append(dst, `"background":true`...), true
		}
		return append(dst, response[m.Start:m.End]...), true
	})
}

// InputItems returns the items that a recorded request gave to the model, in the form of answers, the oldest first: those
// of the conversation that it continued, if that is on record, and its own. id names the response.
func InputItems(request []byte, id string, limit int, record Record) ([][]byte, error) {
	r := resolver{record: record, room: limit, unread: limit}
	items, err := r.items(scan.Get(request, "input"))
	if err != nil {
		return nil, err
	}
	before, _, err := r.conversation(previousResponse(request))
	if err != nil && codec.AsError(err, "").Code != codePreviousNotFound {
		return nil, err
	}
	items = append(before, items...)
	for i := range items {
		items[i] = appendInputItem(make([]byte, 0, len(items[i])+64), items[i], id, i)
	}
	return items, nil
}

// inputPrefixes begin the ids of items that came without one.
var inputPrefixes = map[string]string{
	"message": "msg_", "function_call": "fc_", "function_call_output": "fco_", "custom_tool_call": "ctc_",
	"custom_tool_call_output": "ctco_", "reasoning": "rs_", "web_search_call": "ws_", "compaction": "cmp_",
}

// appendInputItem writes an item with the members that clients may leave out: its id, and the type, the status and the
// parts of a message.
func appendInputItem(dst, item []byte, response string, index int) []byte {
	var kind, id, status bool
	var role string
	name := "message"
	for m := scan.Object(item); m.Next(); {
		switch string(m.Key) {
		case "type":
			if kind = scan.IsString(m.Value); kind {
				name = scan.String(m.Value)
			}
		case "id":
			id = scan.IsString(m.Value)
		case "status":
			status = scan.IsString(m.Value)
		case "role":
			role = scan.String(m.Value)
		}
	}
	dst = append(dst, '{')
	if !kind {
		dst = append(dst, `"type":"message",`...)
	}
	if !id {
		prefix, known := inputPrefixes[name]
		if !known {
			prefix = "item_"
		}
		dst = append(append(append(append(dst, `"id":"`...), prefix...), response...), "_in"...)
		dst = append(strconv.AppendInt(dst, int64(index), 10), `",`...)
	}
	if !status && name == "message" {
		dst = append(dst, `"status":"completed",`...)
	}
	for m := scan.Object(item); m.Next(); {
		switch key := string(m.Key); {
		case key == "type" && !kind, key == "id" && !id, key == "status" && !status:
			continue
		case key == "content" && name == "message" && scan.IsString(m.Value):
			dst = appendTextContent(dst, role, m.Value)
		default:
			dst = append(dst, item[m.Start:m.End]...)
		}
		dst = append(dst, ',')
	}
	dst = bytes.TrimSuffix(dst, []byte(","))
	return append(dst, '}')
}

func appendTextContent(dst []byte, role string, text []byte) []byte {
	kind, rest := "input_text", "}]"
	if role == "assistant" {
		kind, rest = "output_text", `,"annotations":[],"logprobs":[]}]`
	}
	dst = append(dst, `"content":[{"type":"`...)
	dst = append(append(dst, kind...), `","text":`...)
	return append(append(dst, text...), rest...)
}

// appendTokenCount writes the answer to a request for the size of a prompt.
func appendTokenCount(dst []byte, tokens int64) []byte {
	dst = append(dst, `{"object":"response.input_tokens","input_tokens":`...)
	return append(strconv.AppendInt(dst, tokens, 10), '}')
}
