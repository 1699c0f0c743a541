// Package repeats finds agents that go in circles: they make the same tool call, get the same result, and make the call
// again, until something else ends the conversation or the budget.
//
// A request of an agent holds its whole conversation, so a loop shows at the request's own end. Nothing is kept between
// requests: [Find] gives the same answer after a restart and on every node of a cluster. It first compares only the
// ends of the last rounds, which costs next to nothing. A request in which these are alike is then read, and its calls
// and results are compared as the memory reads them. What a person says between two calls ends a loop.
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
	Calls []string // names of the tools that it calls in one round, in order; none: it does not repeat itself
	Times int      // rounds in a row
}

// String names the calls and how often they were repeated.
func (l *Loop) String() string {
	return fmt.Sprintf("%d times %s", l.Times, strings.Join(l.Calls, ", "))
}

// Bounds on what is looked at. A round of four calls may have a dozen items: reasoning, a text and a call, and the result.
const (
	longestRound = 4       // calls
	longestCycle = 12      // items
	mostItems    = 256     // read
	mostBytes    = 1 << 20 // read
	mostReads    = 2       // of a request that is no loop
	longestID    = 64      // bytes
)

// Find returns the loop at the end of a request, if it has least rounds or more, and at least [Fewest]. items are the
// request's messages or input items in body, as [codec.Envelope] has them.
func Find(surface codec.Format, body []byte, items []codec.Span, least int) Loop {
	least = max(least, Fewest)
	reads, m := 0, (*members)(&crossing.Traits(surface).Past)
	for cycle := 1; cycle <= longestCycle && reads < mostReads; cycle++ {
		rounds := alike(m, body, items, cycle)
		if rounds < least {
			continue
		}
		reads++
		read := func(rounds int) Loop {
			from := bounded(items, len(items)-(rounds+1)*cycle)
			return find(stepsOf(surface, body[items[from].Start:items[len(items)-1].End]), least)
		}
		if loop := read(least); loop.Times > 0 {
			if rounds > least { // how many are there in all?
				loop = read(rounds)
			}
			return loop
		}
	}
	return Loop{}
}

// alike returns how many rounds of a cycle of items may be at the end: their calls have equal arguments, and their results
// are equal but for ids. The two newest rounds are not compared, because clients mark their results for the provider's cache.
func alike(m *members, body []byte, items []codec.Span, cycle int) int {
	rounds := 3
	at := len(items) - 1 - 2*cycle
	if at < 0 {
		return 0
	}
	for ; at >= cycle && m.sameRound(body, items[:at+1], cycle); at -= cycle {
		rounds++
	}
	return rounds
}

// sameRound reports whether the last two cycles of items may be the same calls with the same results.
func (m *members) sameRound(body []byte, items []codec.Span, cycle int) bool {
	for at := len(items) - 1; at >= max(len(items)-cycle, cycle); at-- {
		a, b := items[at].Of(body), items[at-cycle].Of(body)
		switch {
		case m.isPersons(a):
			return false
		case at == len(items)-1 || m.isResult(a):
			if !equalButIDs(a, b) {
				return false
			}
		default:
			if !equalButIDs(argumentsIn(a, m.Arguments), argumentsIn(b, m.Arguments)) {
				return false
			}
		}
	}
	return true
}

// members are how a surface writes calls and their results.
type members codec.PastTraits

// headBytes is where an item says what it is, if its client writes that first.
const headBytes = 128

// isResult reports whether an item says at its beginning that it is the result of a call.
func (m *members) isResult(item []byte) bool {
	return bytes.Contains(item[:min(len(item), headBytes)], m.Result)
}

// isPersons reports whether an item says at its beginning that it is a person's, and has no result.
func (m *members) isPersons(item []byte) bool {
	return bytes.Contains(item[:min(len(item), headBytes)], []byte(`"role":"user"`)) && !bytes.Contains(item, m.Result)
}

// argumentsIn returns the arguments of the first call in an item; nil if it has none. Inside of texts quotation marks are
// escaped, so that a member's name is one.
func argumentsIn(item, member []byte) []byte {
	i := bytes.Index(item, member)
	if i < 0 {
		return nil
	}
	start := scan.Space(item, i+len(member))
	return item[start:max(scan.Skip(item, start), start)]
}

// equalButIDs reports whether two texts in JSON are equal but for the values of members whose names end in "id".
func equalButIDs(a, b []byte) bool {
	for i, j := 0, 0; ; {
		n := commonPrefix(a[i:], b[j:])
		if i, j = i+n, j+n; i == len(a) || j == len(b) {
			return i == len(a) && j == len(b)
		}
		if i, j = behindID(a, i), behindID(b, j); i < 0 || j < 0 {
			return false
		}
	}
}

// commonPrefix returns how many bytes two texts begin with alike.
func commonPrefix(a, b []byte) (n int) {
	end := min(len(a), len(b))
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
	quote := bytes.LastIndexByte(text[from:at], '"')
	end := bytes.IndexByte(text[at:min(at+longestID, len(text))], '"')
	if quote < 0 || end < 0 {
		return -1
	}
	if name := bytes.TrimRight(text[:from+quote], " :"); !bytes.HasSuffix(name, idMember) || len(name) == from+quote {
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

// stepsOf returns the calls in the items of a request, after a person last spoke, in the order of their results.
func stepsOf(surface codec.Format, items []byte) (steps []step) {
	read, err := digest.Exchange(&record.Exchange{
		ExchangeInfo: record.ExchangeInfo{Surface: surface.String()},
		RawRequest:   items, Items: &record.RequestItems{From: 1}, Derived: new(chatkey.Keys),
	})
	if err != nil {
		return nil // the request's own codec says what is wrong with it
	}
	calls := make(map[string]record.Part)
	for i := range read.Messages {
		m := &read.Messages[i]
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
				steps = append(steps, step{call.Name, call.Arguments + call.Text, p.Text})
				answered = true
			case m.Role == "user" && !answered:
				steps = steps[:0]
			case m.Role != "assistant" && len(steps) > 0: // more of the result
				steps[len(steps)-1].result += "\n" + p.Text
			}
		}
	}
	return steps
}

// find returns the loop with the shortest round at the end of the steps.
func find(steps []step, least int) Loop {
	for round := 1; round <= longestRound; round++ {
		same := 0
		for at := len(steps) - 1; at >= round && steps[at] == steps[at-round]; at-- {
			same++
		}
		if times := same/round + 1; same > 0 && times >= least {
			loop := Loop{Times: times}
			for _, s := range steps[len(steps)-round:] {
				loop.Calls = append(loop.Calls, s.name)
			}
			return loop
		}
	}
	return Loop{}
}
