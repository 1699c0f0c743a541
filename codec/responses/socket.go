package responses

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
	"github.com/mnemeproxy/mneme/codec/sse"
)

// Create is an event of a client on a WebSocket that asks for a response (docs/wire/responses.md#12).
type Create struct {
	Body     []byte // the request as it would be posted
	Previous string // the response that it continues, "" for none
	Stream   []byte // stream_id as JSON, which its events repeat; nil for none
	Store    bool   // the response is to be stored
	WarmUp   bool   // no model is asked: the response only begins a conversation
}

// ReadCreate reads the event. Its error is for the client.
func ReadCreate(event []byte) (*Create, error) {
	if !scan.WellFormed(event) || !scan.IsObject(event) {
		return nil, codec.Errorf(codec.KindInvalidRequest, "A message is an event: one JSON object, with its type. This one is not.")
	}
	switch kind := scan.String(scan.Get(event, "type")); kind {
	case "response.create":
	case "":
		return nil, codec.Invalid("type", "an event has a type: send response.create")
	default:
		return nil, codec.Invalid("type", "events of type %.100s are not read here: send response.create", kind)
	}
	c := &Create{Body: append(make([]byte, 0, len(event)), `{"stream":true`...), Store: true}
	for m := scan.Object(event); m.Next(); {
		switch string(m.Key) {
		case "type", "stream", "background":
			continue
		case "stream_id":
			if c.Stream = m.Value; !scan.IsString(m.Value) {
				return nil, codec.Invalid("stream_id", "stream_id is a string")
			}
			continue
		case "generate":
			c.WarmUp = scan.IsFalse(m.Value)
			continue
		case "previous_response_id":
			c.Previous = scan.String(m.Value)
		case "store":
			c.Store = !scan.IsFalse(m.Value)
		}
		c.Body = append(append(c.Body, ','), event[m.Start:m.End]...)
	}
	c.Body = append(c.Body, '}')
	return c, nil
}

// AppendErrorEvent writes the event for a request that failed with a status. body is the answer to it over HTTP.
func AppendErrorEvent(dst []byte, status int, body []byte) []byte {
	dst = append(dst, `{"type":"error","status":`...)
	dst = strconv.AppendInt(dst, int64(status), 10)
	dst = append(dst, `,"error":`...)
	failure := scan.Get(body, "error")
	if !scan.IsObject(failure) {
		e := codec.Errorf(codec.KindUpstream, "The provider answered with status %d, and nothing else that could be read.", status)
		failure = scan.Get(Client().AppendError(nil, e, nil), "error")
	}
	return append(append(dst, failure...), '}')
}

// AppendErrorOf is [AppendErrorEvent] for an error of this side.
func AppendErrorOf(dst []byte, e *codec.Error) []byte {
	return AppendErrorEvent(dst, Client().Status(e), Client().AppendError(nil, e, nil))
}

// AppendTagged writes an event with the stream_id of its request.
func AppendTagged(dst, event, stream []byte) []byte {
	at := bytes.IndexByte(event, '{') + 1
	dst = append(append(append(dst, event[:at]...), `"stream_id":`...), stream...)
	return append(append(dst, ','), event[at:]...)
}

// AppendWhole writes the events that stand for a complete response: some hosts answer whole whatever they were asked for.
func AppendWhole(dst, response []byte) []byte {
	response = slices.DeleteFunc(bytes.Clone(response), func(c byte) bool { return c == '\n' || c == '\r' }) // none is in a string
	for i, kind := range []string{"response.created", "response.completed"} {
		dst = append(append(append(dst, "event: "...), kind...), "\ndata: {\"type\":\""...)
		dst = append(append(append(dst, kind...), `","sequence_number":`...), strconv.Itoa(i)...)
		dst = append(append(append(dst, `,"response":`...), response...), "}\n\n"...)
	}
	return dst
}

// Told is what the events of a response say that its continuation needs.
type Told struct {
	ID       string   // of the response
	Items    [][]byte // its output
	Complete bool     // it ended, and did not fail
}

// Hear takes in an event.
func (t *Told) Hear(f *sse.Frame) {
	kind := string(f.Name)
	if kind == "" {
		kind = scan.String(scan.Get(f.Data, "type"))
	}
	switch kind {
	case "response.output_item.done":
		if item := scan.Get(f.Data, "item"); !isLost(item) {
			t.Items = append(t.Items, bytes.Clone(item))
		}
	case "response.completed", "response.incomplete":
		t.ID, t.Complete = scan.String(scan.Path(f.Data, "response", "id")), true
	}
}

// isLost reports whether an item means nothing to a provider that has not stored it.
func isLost(item []byte) bool {
	return scan.String(scan.Get(item, "type")) == "reasoning" && scan.IsNull(scan.Get(item, "encrypted_content"))
}

// Conversation is what a connection remembers of responses that are not stored, each continuing the one before it: the
// newest can be continued.
type Conversation struct{ steps []step }

type step struct {
	id            string
	request, said []byte // as a [Record] returns them, without members that are not needed
}

// Newest returns the id of the response that can be continued, "" for none.
func (c *Conversation) Newest() string {
	if len(c.steps) == 0 {
		return ""
	}
	return c.steps[len(c.steps)-1].id
}

// Response implements the method of [Record]: nil if the response is none of these.
func (c *Conversation) Response(id string) (request, answer []byte) {
	if c == nil {
		return nil, nil
	}
	for i := len(c.steps) - 1; i >= 0; i-- {
		if c.steps[i].id == id {
			return c.steps[i].request, c.steps[i].said
		}
	}
	return nil, nil
}

// Forget forgets all.
func (c *Conversation) Forget() { c.steps = nil }

// Add adds the response that a request got, and returns how many bytes that takes.
func (c *Conversation) Add(id string, request []byte, items [][]byte) (size int64) {
	s := step{id: id, request: []byte{'{'}}
	compacts := EndsInTrigger(request) // nothing before it goes on
	for _, name := range []string{"previous_response_id", "input"} {
		if value := scan.Get(request, name); value != nil && !compacts {
			if len(s.request) > 1 {
				s.request = append(s.request, ',')
			}
			s.request = append(append(scan.Quote(s.request, name), ':'), value...)
		}
	}
	s.request = append(s.request, '}')
	s.said = append(append(append(s.said, `{"output":[`...), bytes.Join(items, []byte(","))...), "]}"...)
	c.steps = append(c.steps, s)
	return int64(len(s.request) + len(s.said))
}

// Check returns an error if a request that continues the conversation has the output of a call that is in neither.
func (c *Conversation) Check(request []byte) error {
	input := scan.Get(request, "input")
	for e := scan.Array(input); e.Next(); {
		kind, isOutput := strings.CutSuffix(scan.String(scan.Get(e.Value, "type")), "_output")
		id := scan.String(scan.Get(e.Value, "call_id"))
		if !isOutput || id == "" || hasCall(input, id) {
			continue
		}
		if !slices.ContainsFunc(c.steps, func(s step) bool {
			return hasCall(scan.Get(s.said, "output"), id) || hasCall(scan.Get(s.request, "input"), id)
		}) {
			return codec.Invalid("input", "No tool call found for %s output with call_id %.100s.", strings.ReplaceAll(kind, "_", " "), id)
		}
	}
	return nil
}

// hasCall reports whether a list of items has the call with an id.
func hasCall(items []byte, id string) bool {
	for e := scan.Array(items); e.Next(); {
		kind := scan.String(scan.Get(e.Value, "type"))
		if !strings.HasSuffix(kind, "_output") && scan.String(scan.Get(e.Value, "call_id")) == id {
			return true
		}
	}
	return false
}
