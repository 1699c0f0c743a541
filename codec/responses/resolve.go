package responses

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
	"github.com/mnemeproxy/mneme/codec/sse"
)

// Record gives access to earlier answers. Its error has kind [codec.KindNotFound] if an id is unknown. No answer
// without an error leaves the reference in the request, because the provider that is asked can resolve it.
type Record interface {
	// Response returns the exchange whose answer has the id: the client's request, and the answer as an object or a
	// stream.
	Response(id string) (request, answer []byte, err error)
	// Item returns the answer that contains the item with the id.
	Item(id string) (answer []byte, err error)
	// Account returns the owner of the conversation.
	Account() string
}

// longestChain is the maximum number of responses that are followed back, and of answers in which items are looked up.
const longestChain = 1000

// Resolve replaces references in a request by their content: the conversation up to the response of
// previous_response_id, and the items of item_reference (docs/wire/translation.md#2.2 and #3.4). Clients omit answers
// that the other side stores. names are the resolved members; if there are none, the body is unchanged. limit bounds
// the items, and what is read from the record, in bytes. Errors are *[codec.Error]s about the member.
func Resolve(body []byte, limit int, record Record) (resolved []byte, names []string, err error) {
	r := resolver{record: record, room: limit, unread: limit}
	items, err := r.items(scan.Get(body, "input"))
	if err != nil {
		return body, nil, err
	}
	before, kept, err := r.conversation(previousResponse(body))
	if err != nil || len(r.names) == 0 {
		return body, nil, err
	}
	return withInput(body, slices.Concat(before, items), kept), r.names, nil
}

func previousResponse(body []byte) string { return scan.String(scan.Get(body, "previous_response_id")) }

type resolver struct {
	record Record
	room   int // bytes that items may still take
	unread int // bytes of requests and answers that may still be read
	names  []string

	answers int               // whose items were looked up
	known   map[string][]byte // their items by id, because a conversation refers to many items of an answer
}

// conversation returns the conversation up to and including a response. kept means that the request still refers to it.
func (r *resolver) conversation(id string) (items [][]byte, kept bool, err error) {
	if id == "" {
		return nil, false, nil
	}
	var steps [][][]byte // the newest first
	for range longestChain {
		request, answer, err := r.record.Response(id)
		if err != nil {
			return nil, false, unresolved("previous_response_id", id, err)
		}
		if answer == nil && len(steps) == 0 {
			return nil, true, nil
		}
		r.resolved("previous_response_id")
		if err := r.read(request, answer); err != nil {
			return nil, false, err
		}
		asked, err := r.items(scan.Get(request, "input"))
		if err != nil {
			return nil, false, err
		}
		said := outputItems(answer)
		for i := range said {
			if said[i], err = r.expand(said[i]); err != nil {
				return nil, false, err
			}
		}
		if err := r.take(said...); err != nil {
			return nil, false, err
		}
		steps = append(steps, said, asked)
		if id = previousResponse(request); id == "" {
			slices.Reverse(steps)
			return slices.Concat(steps...), false, nil
		}
	}
	return nil, false, codec.Invalid("previous_response_id", "more than %d responses come before this one; send the conversation itself", longestChain)
}

// items returns the items of an input, with references replaced.
func (r *resolver) items(input []byte) (items [][]byte, err error) {
	if scan.IsString(input) {
		item := append(append([]byte(`{"type":"message","role":"user","content":`), input...), '}')
		return [][]byte{item}, r.take(item)
	}
	for e := scan.Array(input); e.Next(); {
		item := e.Value
		if id := reference(item); id != "" {
			if item, err = r.item(item, id); err != nil {
				return nil, err
			}
		}
		if item, err = r.expand(item); err != nil {
			return nil, err
		}
		if err := r.take(item); err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	return items, nil
}

// reference returns the id that an item refers to; "" if it is not a reference.
func reference(item []byte) (id string) {
	kind := scan.Get(item, "type")
	if string(kind) != `"item_reference"` && (!scan.IsNull(kind) || scan.Get(item, "role") != nil) {
		return ""
	}
	return scan.String(scan.Get(item, "id"))
}

// item returns the item that a reference names.
func (r *resolver) item(reference []byte, id string) ([]byte, error) {
	if item, known := r.known[id]; known {
		return item, nil
	}
	if r.answers++; r.answers > longestChain {
		return nil, codec.Invalid("input", "this refers to items of more than %d answers: send the conversation itself", longestChain)
	}
	answer, err := r.record.Item(id)
	if err != nil {
		return nil, unresolved("input", id, err)
	}
	if answer == nil {
		return reference, nil
	}
	r.resolved("item_reference")
	if err := r.read(answer); err != nil {
		return nil, err
	}
	if r.known == nil {
		r.known = make(map[string][]byte)
	}
	for _, item := range outputItems(answer) {
		r.known[scan.String(scan.Get(item, "id"))] = item
	}
	if item, known := r.known[id]; known {
		return item, nil
	}
	return nil, unresolved("input", id, codec.Errorf(codec.KindNotFound, "no such item"))
}

func (r *resolver) resolved(name string) {
	if !slices.Contains(r.names, name) {
		r.names = append(r.names, name)
	}
}

// take counts the bytes of items that become part of the request.
func (r *resolver) take(items ...[]byte) error { return spend(&r.room, items) }

// read counts the bytes that were read for it.
func (r *resolver) read(bodies ...[]byte) error { return spend(&r.unread, bodies) }

func spend(left *int, bodies [][]byte) error {
	for _, b := range bodies {
		if *left -= len(b); *left < 0 {
			return codec.Errorf(codec.KindTooLarge, "The conversation that this request refers to is larger than a request may be. Start a new conversation.")
		}
	}
	return nil
}

const codePreviousNotFound = "previous_response_not_found"

// unresolved returns the error for an unknown id.
func unresolved(member, id string, err error) error {
	cause := codec.AsError(err, "")
	if cause.Kind != codec.KindNotFound {
		return err
	}
	e := codec.Errorf(codec.KindNotFound, "%.100s is not on record here: send the conversation itself", id)
	if cause.RetryAfter > 0 { // it may be on record on a node that does not answer
		e.Message = fmt.Sprintf("%.100s is not on record here, and the node that may have it is unreachable: try again in a moment, or send the conversation itself", id)
	}
	e.Param, e.RetryAfter, e.Cause = member, cause.RetryAfter, err
	if member == "previous_response_id" {
		e.Code = codePreviousNotFound
	}
	return e
}

// outputItems returns the finished items of an answer, complete or streamed.
func outputItems(answer []byte) (items [][]byte) {
	if scan.IsObject(answer) {
		for e := scan.Array(scan.Get(answer, "output")); e.Next(); {
			items = append(items, e.Value)
		}
		return items
	}
	stream, done := sse.Split(answer), []byte("response.output_item.done")
	for f := (sse.Frame{}); stream.Next(&f); {
		if bytes.Contains(f.Data, done) && scan.String(scan.Get(f.Data, "type")) == string(done) {
			items = append(items, bytes.Clone(scan.Get(f.Data, "item"))) // a frame of several lines is valid until the next one
		}
	}
	return items
}

// withInput returns the body with other items and, unless kept, without previous_response_id.
func withInput(body []byte, items [][]byte, kept bool) []byte {
	size := len(body)
	for _, item := range items {
		size += len(item) + 1
	}
	b := append(make([]byte, 0, size), '{')
	for m := scan.Object(body); m.Next(); {
		switch string(m.Key) {
		case "input":
			continue
		case "previous_response_id":
			if !kept {
				continue
			}
		}
		b = append(b, body[m.Start:m.End]...)
		b = append(b, ',')
	}
	b = append(b, `"input":[`...)
	b = append(b, bytes.Join(items, []byte(","))...)
	return append(b, "]}"...)
}
