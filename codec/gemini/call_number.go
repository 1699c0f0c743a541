package gemini

import (
	"bytes"
	"strconv"

	"github.com/mnemeproxy/mneme/codec"
)

// callNumbers gives calls without ids numbers, and results the ids of their calls.
type callNumbers struct {
	given int
	calls []openCall // of the newest turn
	first int        // calls before it have their results

	// Most results come in the order of their calls. These find the others.
	by      map[string][]int // by "i" and the id, and by "n" and the name: calls that may have no result yet
	indexed int              // calls before it are in the map
}

type openCall struct {
	id, name []byte
	answered bool
}

// turn begins another turn of the model. The map is a new one: to clear a map costs what it once held, for every turn.
func (n *callNumbers) turn() { *n = callNumbers{given: n.given, calls: n.calls[:0]} }

// call returns the id of a call.
func (n *callNumbers) call(r *codec.Request, id, function []byte) []byte {
	if len(id) == 0 {
		id = n.number(r)
	}
	n.calls = append(n.calls, openCall{id: id, name: function})
	return id
}

func (n *callNumbers) number(r *codec.Request) []byte {
	n.given++
	r.NumberedCalls = true
	return strconv.AppendInt(append(r.Alloc(len("call_fn_")+20), "call_fn_"...), int64(n.given), 10)
}

// result returns the id of the call that a result belongs to: its own, else that of the first open call of the function,
// else of the first open call, because clients that name no id keep the order.
func (n *callNumbers) result(r *codec.Request, id, function []byte) []byte {
	for n.first < len(n.calls) && n.calls[n.first].answered {
		n.first++
	}
	if n.first < len(n.calls) && n.calls[n.first].isOf(id, function) {
		n.calls[n.first].answered = true
		return n.calls[n.first].id
	}
	if len(id) > 0 {
		n.take("i" + string(id))
		return id
	}
	if i, found := n.take("n" + string(function)); found {
		return n.calls[i].id
	}
	if n.first == len(n.calls) {
		return n.number(r)
	}
	n.calls[n.first].answered = true
	return n.calls[n.first].id
}

// isOf reports whether a result with this id, or without one of this function, is that of the call.
func (c *openCall) isOf(id, function []byte) bool {
	if len(id) > 0 {
		return bytes.Equal(c.id, id)
	}
	return bytes.Equal(c.name, function)
}

// take marks the first open call of a key as answered.
func (n *callNumbers) take(key string) (i int, found bool) {
	n.index()
	list := n.by[key]
	for len(list) > 0 && !found {
		i, list = list[0], list[1:]
		found = !n.calls[i].answered
		n.calls[i].answered = true
	}
	n.by[key] = list
	return i, found
}

// index adds the calls that are not in the map.
func (n *callNumbers) index() {
	if n.by == nil {
		n.by = make(map[string][]int)
	}
	for ; n.indexed < len(n.calls); n.indexed++ {
		c := &n.calls[n.indexed]
		for _, key := range [...]string{"i" + string(c.id), "n" + string(c.name)} {
			n.by[key] = append(n.by[key], n.indexed)
		}
	}
}
