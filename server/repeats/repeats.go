// Package repeats finds agents that go in circles: they make calls that they have made before, in whatever order, and get the
// same results, until something else ends the conversation or the budget.
//
// A request of an agent holds its whole conversation, so a loop shows at the request's own end. Nothing is kept between
// requests: [Find] gives the same answer after a restart and on every node of a cluster. It first looks for the bytes of
// the last results among the earlier ones, which costs next to nothing. A request in which these are known is then read, and its
// calls and results are compared as the memory reads them. What a person says between two calls ends a loop.
package repeats

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/chatkey"
	"github.com/mnemeproxy/mneme/codec/crossing"
	"github.com/mnemeproxy/mneme/codec/scan"
	"github.com/mnemeproxy/mneme/store/digest"
	"github.com/mnemeproxy/mneme/store/record"
)

// Fewest is the smallest number of repetitions that [Find] is asked for. Two or three equal calls in a row are common.
const Fewest = 4

// Loop is what an agent repeats.
type Loop struct {
	Calls  []string // names of the tools that it calls, in order; none: it does not repeat itself
	Times  int      // how often it has made each of the calls, with the same result, since it last got a new one
	Tokens int64    // roughly, of the prompts that it has sent since then
}

// mostNamed is how many calls a loop names.
const mostNamed = 4

// String names the calls and how often they were repeated.
func (l *Loop) String() string { return fmt.Sprintf("%d times %s", l.Times, l.Named()) }

// Named lists the calls.
func (l *Loop) Named() string {
	calls := strings.Join(l.Calls[:min(len(l.Calls), mostNamed)], ", ")
	if more := len(l.Calls) - mostNamed; more > 0 {
		calls += fmt.Sprintf(" and %d more", more)
	}
	return calls
}

// Bounds on what is looked at.
const (
	mostCalls   = 8       // that a loop has
	itemsOfCall = 3       // with its result: reasoning, a text and the call are one item each in some formats
	mostApart   = 27      // items, between equal results of one call
	mostItems   = 256     // read
	mostBytes   = 1 << 20 // read
	marked      = 2       // newest results, which clients mark for the provider's cache
	longestID   = 64      // bytes
	tokenBytes  = 4
	none        = -1
)

// Find returns the loop at the end of a request, if its calls were made least times or more, and at least [Fewest]. items are
// the request's messages or input items in body, as [codec.Envelope] has them.
func Find(surface codec.Format, body []byte, items []codec.Span, least int) Loop {
	least = max(least, Fewest)
	first := (*members)(&crossing.Traits(surface).Past).circles(body, items, least)
	if first == none {
		return Loop{}
	}
	read := func(from int) Loop {
		from = bounded(items, from)
		steps := stepsOf(surface, body[items[from].Start:items[len(items)-1].End])
		loop := find(steps, least)
		loop.Tokens *= int64(len(body)) / tokenBytes
		return loop
	}
	loop := read(first)
	if loop.Times > 0 { // how many are there in all?
		loop = read(0)
	}
	return loop
}

// circles returns where a loop at the end of a request may begin: from there on all results are equal to earlier ones, for so long
// that each came least times. The newest are not compared, and neither are those with a remark of the client. [none]:
// there is no loop.
func (m *members) circles(body []byte, items []codec.Span, least int) (first int) {
	results, apart := 0, 0
	last := len(items) - 1
	for at := last; at > max(last-mostItems, 0); at-- {
		item := items[at].Of(body)
		switch {
		case m.isPersons(item):
			return none
		case !m.isResult(item):
			continue
		}
		if results++; results <= marked {
			continue
		}
		before := m.sameBefore(body, items, at)
		if before == none {
			if !bytes.Contains(item, []byte(remark)) {
				return none
			}
			continue
		}
		apart = max(apart, at-before)
		if last-before >= (least-1)*apart {
			return max(before-apart-itemsOfCall, 0)
		}
	}
	return none
}

// sameBefore returns the newest item before one that may be the same result of the same call: they are equal but for ids; [none]
// if there is none.
func (m *members) sameBefore(body []byte, items []codec.Span, at int) int {
	item := items[at].Of(body)
	var arguments []byte
	read := false
	for before := at - 1; before > max(at-mostApart-1, 0); before-- {
		other := items[before].Of(body)
		if n := len(item) - len(other); n > longestID || n < -longestID || !equalButIDs(item, other) {
			continue
		}
		if !read {
			arguments, read = argumentsFrom(items[at-1].Of(body), m.Arguments), true
			arguments = arguments[:max(scan.Skip(arguments, 0), 0)]
		}
		if beginsWith(argumentsFrom(items[before-1].Of(body), m.Arguments), arguments) {
			return before
		}
	}
	return none
}

// members are how a surface writes calls and their results.
type members codec.PastTraits

// headBytes is where an item says what it is, if its client writes that first.
const headBytes = 128

// isResult reports whether an item has the result of a call.
func (m *members) isResult(item []byte) bool {
	return !bytes.Contains(item[:min(len(item), headBytes)], []byte(`"role":"assistant"`)) && bytes.Contains(item, m.Result)
}

// isPersons reports whether an item says at its beginning that it is a person's, and has no result.
func (m *members) isPersons(item []byte) bool {
	return bytes.Contains(item[:min(len(item), headBytes)], []byte(`"role":"user"`)) && !bytes.Contains(item, m.Result)
}

// argumentsFrom returns an item from the arguments of its first call on; nil if it has none. Inside of texts quotation marks
// are escaped, so that a member's name is one.
func argumentsFrom(item, member []byte) []byte {
	i := bytes.Index(item, member)
	if i < 0 {
		return nil
	}
	return item[scan.Space(item, i+len(member)):]
}

// equalButIDs reports whether two texts in JSON are equal but for the values of members whose names end in "id".
func equalButIDs(a, b []byte) bool {
	i, j := alikeButIDs(a, b)
	return i == len(a) && j == len(b)
}

// beginsWith reports whether a text begins with a value in JSON, but for such ids. The end of a value is never looked for:
// no other begins with it.
func beginsWith(text, value []byte) bool {
	_, j := alikeButIDs(text, value)
	return j == len(value) && (j > 0 || len(text) == 0)
}

// alikeButIDs returns the places up to which two texts are alike but for such ids.
func alikeButIDs(a, b []byte) (i, j int) {
	for {
		n := commonPrefix(a[i:], b[j:])
		if i, j = i+n, j+n; i == len(a) || j == len(b) {
			return i, j
		}
		behindI, behindJ := behindID(a, i), behindID(b, j)
		if behindI < 0 || behindJ < 0 {
			return i, j
		}
		i, j = behindI, behindJ
	}
}

// chunk is how many bytes are compared at once at first.
const chunk = 128

// commonPrefix returns how many bytes two texts begin with alike.
func commonPrefix(a, b []byte) (n int) {
	end := min(len(a), len(b))
	for n+chunk <= end && bytes.Equal(a[n:n+chunk], b[n:n+chunk]) {
		n += chunk
	}
	for ; n+8 <= end && binary.NativeEndian.Uint64(a[n:]) == binary.NativeEndian.Uint64(b[n:]); n += 8 {
	}
	for n < end && a[n] == b[n] {
		n++
	}
	return n
}

// behindID returns where the id ends in whose value a place is, quotation mark included; -1 if it is in none.
func behindID(text []byte, at int) int {
	from := max(at-longestID, 0)
	name := bytes.LastIndexByte(text[from:at], '"') + from
	colon := false
	for name > from && (text[name-1] == ' ' || text[name-1] == ':') {
		name--
		colon = true
	}
	if !colon || !bytes.HasSuffix(text[:name], idMember) {
		return -1
	}
	end := bytes.IndexByte(text[at:min(at+longestID, len(text))], '"')
	if end < 0 {
		return -1
	}
	return at + end + 1
}

var idMember = []byte(`id"`)

// bounded returns the first item to read, from or later.
func bounded(items []codec.Span, from int) int {
	from = max(from, len(items)-mostItems, 0)
	end := items[len(items)-1].End
	for from < len(items)-1 && end-items[from].Start > mostBytes {
		from++
	}
	return from
}

// step is a call with its result.
type step struct{ name, arguments, result string }

// taken is a step with the number of its result's message.
type taken struct {
	step
	message int
}

// remark begins what Claude Code adds to results, now and then, for the model alone.
const remark = "<system-reminder>"

// messagesOf returns the messages in the items of a request; none if they cannot be read, of which the request's own codec says why.
func messagesOf(surface codec.Format, items []byte) []record.Message {
	read, err := digest.Exchange(&record.Exchange{
		ExchangeInfo: record.ExchangeInfo{Surface: surface.String()},
		RawRequest:   items, Items: &record.RequestItems{From: 1}, Derived: new(chatkey.Keys),
	})
	if err != nil {
		return nil
	}
	return read.Messages
}

// mostAnswered is how many of the last items [Answered] reads.
const mostAnswered = 64

// Answered returns the names of the tools whose results a request brings: those behind the last words and calls of its model.
func Answered(surface codec.Format, body []byte, items []codec.Span) (names []string) {
	if len(items) == 0 {
		return nil
	}
	from := bounded(items, len(items)-mostAnswered)
	called := make(map[string]string)
	for _, m := range messagesOf(surface, body[items[from].Start:items[len(items)-1].End]) {
		if m.Role == "assistant" {
			names = names[:0]
		}
		for i := range m.Parts {
			switch p := &m.Parts[i]; p.Kind {
			case "call":
				called[p.CallID] = p.Name
			case "result":
				if name := called[p.CallID]; name != "" {
					names = append(names, name)
				}
			}
		}
	}
	return names
}

// stepsOf returns the calls in the items of a request, after a person last spoke, in the order of their results.
func stepsOf(surface codec.Format, items []byte) (steps []taken) {
	calls := make(map[string]record.Part)
	messages := messagesOf(surface, items)
	for i := range messages {
		m := &messages[i]
		answered := false
		for j := range m.Parts {
			p := &m.Parts[j]
			switch {
			case p.Kind == "call":
				calls[p.CallID] = *p
			case p.Kind == "result":
				call, known := calls[p.CallID]
				if !known { // it is before the first item
					continue
				}
				delete(calls, p.CallID)
				steps = append(steps, taken{step{call.Name, call.Arguments + call.Text, p.Text}, i})
				answered = true
			case strings.HasPrefix(p.Text, remark):
			case m.Role == "user" && !answered:
				steps = steps[:0]
			case m.Role != "assistant" && len(steps) > 0: // more of the result
				steps[len(steps)-1].result += "\n" + p.Text
			}
		}
	}
	return steps
}

// find returns the loop at the end of the steps: the steps that were all taken before. Its tokens are in prompts.
func find(steps []taken, least int) (loop Loop) {
	known := make(map[step]bool, len(steps))
	from := 0 // the first of them
	for i := range steps {
		if !known[steps[i].step] {
			known[steps[i].step] = true
			from = i + 1
		}
	}
	clear(known)
	message := -1
	for i := range steps[from:] {
		s := &steps[from+i]
		if !known[s.step] {
			known[s.step] = true
			loop.Calls = append(loop.Calls, s.name)
		}
		if s.message != message {
			message = s.message
			loop.Tokens++
		}
	}
	if len(loop.Calls) == 0 || len(loop.Calls) > mostCalls {
		return Loop{}
	}
	if loop.Times = 1 + (len(steps)-from)/len(loop.Calls); loop.Times < least {
		return Loop{}
	}
	return loop
}
