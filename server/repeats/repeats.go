// Package repeats finds agents that go in circles: they make the same tool call, get the same result, and make the call
// again, until something else ends the conversation or the budget.
//
// A request of an agent holds its whole conversation, so a loop shows at the request's own end. Nothing is kept between
// requests: [Find] gives the same answer after a restart and on every node of a cluster. It first compares only the
// ends of the last rounds, which costs next to nothing. A request in which these are alike is then read, and its calls
// and results are compared as the memory reads them. What a person says between two calls ends a loop.
package repeats

import (
	"fmt"
	"strings"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/chatkey"
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
	reads := 0
	for cycle := 1; cycle <= longestCycle && reads < mostReads; cycle++ {
		rounds := alike(body, items, cycle)
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

// alike returns how many rounds of a cycle of items may be at the end, by what is at the end of each: items of the same
// length that differ in one place, as the id of a call does. The two newest are not compared, because clients mark
// them for the provider's cache.
func alike(body []byte, items []codec.Span, cycle int) int {
	at := len(items) - 1 - 2*cycle
	if at < 0 {
		return 0
	}
	rounds := 3
	for ; at >= cycle && equalButID(items[at].Of(body), items[at-cycle].Of(body)); at -= cycle {
		rounds++
	}
	return rounds
}

// equalButID reports whether two items are equal but for one place, which is not longer than the id of a call.
func equalButID(a, b []byte) bool {
	if len(a) != len(b) {
		return false
	}
	first, end := 0, len(a)
	for first < end && a[first] == b[first] {
		first++
	}
	for end > first && a[end-1] == b[end-1] {
		end--
	}
	return end-first <= longestID
}

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
