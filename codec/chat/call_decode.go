package chat

import (
	"bytes"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
)

// call is a tool call of the stream. It is opened as soon as it has a name; earlier fragments wait in it.
type call struct {
	index     int64 // the provider's; legacyCall for the one call of function_call
	item      int32
	opened    bool
	custom    bool
	id        []byte
	name      []byte
	signature []byte
	pending   []byte // fragments that came before the call could be opened, or had to be escaped first
	args      codec.ArgumentDepth
	whole     bool // the arguments of a call without an id have ended
}

const legacyCall = -1

// Limits far above any real answer; beyond them the stream is broken off rather than kept in memory.
const (
	maxCalls   = 4096
	maxPending = 32 << 20 // bytes of one call that wait for its name
)

// fragment is one element of tool_calls.
type fragment struct {
	index     int64
	indexed   bool
	custom    bool
	id        []byte
	name      []byte
	args      []byte // string body
	object    []byte // arguments that arrived as an object, not a string
	signature []byte
	whole     bool // this completes the call
}

func readFragment(v []byte) (f fragment) {
	for m := scan.Object(v); m.Next(); {
		switch string(m.Key) {
		case "index":
			f.index, f.indexed = scan.Int(m.Value)
		case "id":
			f.id = scan.Body(m.Value)
		case "function":
			f.function(m.Value)
		case "custom":
			f.custom = true
			for c := scan.Object(m.Value); c.Next(); {
				switch string(c.Key) {
				case "name":
					f.name = scan.Body(c.Value)
				case "input":
					f.args = scan.Body(c.Value)
				}
			}
		case "extra_content":
			f.signature = thoughtSignature(m.Value)
		}
	}
	if string(f.id) == "null" { // Mistral's default
		f.id = nil
	}
	return f
}

func (f *fragment) function(v []byte) {
	for m := scan.Object(v); m.Next(); {
		switch string(m.Key) {
		case "name":
			f.name = scan.Body(m.Value)
		case "arguments":
			f.args = scan.Body(m.Value)
			if scan.IsObject(m.Value) {
				f.object = m.Value
			}
		}
	}
}

// readCalls reads all elements of tool_calls: a delta may hold several (P15).
func (d *decoder) readCalls(dst []codec.Event, list []byte, whole bool) []codec.Event {
	position := int64(0)
	for e := scan.Array(list); e.Next() && !d.over; {
		f := readFragment(e.Value)
		if whole {
			f.index, f.indexed, f.whole = position, true, true
		}
		position++
		dst = d.fragment(dst, &f)
	}
	return dst
}

// readFunction reads the one call of the legacy member function_call.
func (d *decoder) readFunction(dst []codec.Event, v []byte, whole bool) []codec.Event {
	f := fragment{index: legacyCall, indexed: true, whole: whole}
	f.function(v)
	return d.fragment(dst, &f)
}

func (d *decoder) fragment(dst []codec.Event, f *fragment) []codec.Event {
	c := d.callOf(f)
	if c == nil {
		return d.fail(dst, codec.Errorf(codec.KindUpstream, "the provider's answer holds more than %d tool calls", maxCalls))
	}
	if len(c.pending)+len(f.args) > maxPending {
		return d.fail(dst, codec.Errorf(codec.KindUpstream, "the provider's answer holds a tool call without a name"))
	}
	c.learn(f)
	if !c.opened {
		if !c.ready(f) {
			c.pending = append(c.pending, f.args...)
			c.pending = scan.Escape(c.pending, f.object)
			return dst
		}
		dst = d.openCall(dst, c, f.whole)
	} else if len(f.signature) > 0 {
		dst = append(dst, codec.Event{Kind: codec.EventSignature, Item: c.item, Raw: f.signature, Family: codec.FamilyGoogle})
	}
	if f.object != nil {
		at := len(c.pending)
		c.pending = scan.Escape(c.pending, f.object)
		return c.appendArguments(dst, c.pending[at:], f.whole)
	}
	return c.appendArguments(dst, f.args, f.whole)
}

// callOf finds the call of a fragment, or begins one; nil if there are too many.
func (d *decoder) callOf(f *fragment) *call {
	known := d.knownCall(f)
	if known != nil && !known.succeeded(f) {
		return known
	}
	if len(d.calls) == maxCalls {
		return nil
	}
	if !f.indexed {
		f.index = int64(len(d.calls))
	}
	return d.addCall(f.index)
}

// knownCall finds the call by index (P17), else by id; a fragment with neither belongs to the latest call.
func (d *decoder) knownCall(f *fragment) *call {
	if !f.indexed {
		if c := d.callByID(f.id); c != nil || len(f.id) > 0 || len(d.calls) == 0 {
			return c
		}
		return &d.calls[len(d.calls)-1]
	}
	for i := len(d.calls) - 1; i >= 0; i-- {
		if d.calls[i].index == f.index {
			return &d.calls[i]
		}
	}
	return nil
}

func (d *decoder) callByID(id []byte) *call {
	if len(id) == 0 {
		return nil
	}
	for i := len(d.calls) - 1; i >= 0; i-- {
		if bytes.Equal(d.calls[i].id, id) {
			return &d.calls[i]
		}
	}
	return nil
}

func (d *decoder) addCall(index int64) *call {
	d.template.Forget() // the index may have been another call's
	n := len(d.calls)
	if n == cap(d.calls) {
		d.calls = append(d.calls, call{})
	}
	d.calls = d.calls[:n+1]
	c := &d.calls[n]
	*c = call{index: index, id: c.id[:0], name: c.name[:0], signature: c.signature[:0], pending: c.pending[:0]}
	return c
}

// succeeded reports whether a fragment begins another call on an index in use, as broken hosts number (P14): it has a
// name, and an id that is not the known one; or, if the host sends no ids, it has a name although the known arguments
// are complete. A host that repeats id and name in each fragment (P11) does neither.
func (c *call) succeeded(f *fragment) bool {
	if len(f.name) == 0 || len(c.name) == 0 {
		return false
	}
	if len(f.id) > 0 && len(c.id) > 0 {
		return !bytes.Equal(c.id, f.id)
	}
	return len(f.id) == 0 && len(c.id) == 0 && c.whole
}

// learn keeps the first non-empty id and name; later ones are repetitions (P11, P13).
func (c *call) learn(f *fragment) {
	if f.custom {
		c.custom = true
	}
	if len(c.id) == 0 {
		c.id = append(c.id, f.id...)
	}
	if len(c.name) == 0 {
		c.name = append(c.name, f.name...)
	}
	if len(c.signature) == 0 {
		c.signature = append(c.signature, f.signature...)
	}
	if len(c.id) == 0 {
		_, ended := c.args.Feed(f.args)
		c.whole = c.whole || ended || f.object != nil
	}
}

// ready reports whether the call can be opened. Id and name may arrive separately (P11). A host that has begun to send
// arguments will not send an id any more (P13), but may still send the name.
func (c *call) ready(f *fragment) bool {
	if len(c.name) == 0 {
		return false
	}
	return len(c.id) > 0 || f.whole || len(c.pending)+len(f.args)+len(f.object) > 0
}

// openCall opens the item. A call that never got an id has an empty CallID: client ids are made where the whole
// conversation is known.
func (d *decoder) openCall(dst []codec.Event, c *call, whole bool) []codec.Event {
	dst = d.leave(dst)
	c.opened, c.item = true, d.items
	d.items++
	dst = append(dst, codec.Event{Kind: codec.EventItemOpen, Type: c.kind(), Item: c.item, CallID: c.id, Name: c.name})
	if len(c.signature) > 0 {
		dst = append(dst, codec.Event{
			Kind: codec.EventSignature, Item: c.item, Raw: c.signature, Family: codec.FamilyGoogle,
		})
	}
	return c.appendArguments(dst, c.pending, whole)
}

func (c *call) kind() codec.ItemType {
	if c.custom {
		return codec.ItemCustomCall
	}
	return codec.ItemToolCall
}

func (c *call) appendArguments(dst []codec.Event, raw []byte, whole bool) []codec.Event {
	if len(raw) == 0 {
		return dst
	}
	kind := codec.EventArguments
	if c.custom {
		kind = codec.EventCustomInput
	}
	return append(dst, codec.Event{Kind: kind, Item: c.item, Raw: raw, Whole: whole})
}

// closeCalls opens calls that never got a name with what is known (P12), drops empty ones, and closes the calls in the
// order in which they were opened.
func (d *decoder) closeCalls(dst []codec.Event) []codec.Event {
	for i := range d.calls {
		c := &d.calls[i]
		if !c.opened && len(c.id)+len(c.name)+len(c.pending) > 0 {
			dst = d.openCall(dst, c, false)
		}
	}
	for i := range d.calls {
		if c := &d.calls[i]; c.opened {
			dst = append(dst, codec.Event{Kind: codec.EventItemClose, Type: c.kind(), Item: c.item})
		}
	}
	return dst
}
