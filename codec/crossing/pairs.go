package crossing

import (
	"bytes"
	"slices"

	"github.com/mnemeproxy/mneme/codec"
)

// pairStep matches calls with their results.
type pairStep struct{ *adaptation }

// run makes sure that every call in the history is followed by exactly one result, all results of a turn in one message
// directly after it and in the order of the calls (docs/wire/translation.md#2.3 and P67 to P76). Providers refuse
// anything else, and a client that has lost a result must not lose the conversation.
func (a pairStep) run() error {
	a.renameRepeatedCalls()
	paired := make([]codec.Message, 0, len(a.r.Messages)+2)
	for i := 0; i < len(a.r.Messages); i++ {
		m := a.r.Messages[i]
		switch {
		case m.Role == codec.RoleTool: // results of no earlier call
			if text := a.orphans(m.Parts); len(text) > 0 {
				paired = append(paired, codec.Message{Role: codec.RoleUser, Parts: text, Index: m.Index})
			}
		case awaitsResults(m):
			m.Parts = m.Parts[:len(m.Parts):len(m.Parts)]                                  // others may follow in the same memory
			for i+1 < len(a.r.Messages) && a.r.Messages[i+1].Role == codec.RoleAssistant { // one turn in several messages
				i++
				m.Parts = append(m.Parts, a.r.Messages[i].Parts...)
			}
			end := i + 1
			for end < len(a.r.Messages) && a.r.Messages[end].Role != codec.RoleAssistant {
				end++
			}
			following := a.r.Messages[i+1 : end]
			if len(following) == 0 && end == len(a.r.Messages) {
				return a.unanswered(&m)
			}
			var err error
			if paired, err = a.answerCalls(append(paired, m), following); err != nil {
				return err
			}
			i = end - 1
		default:
			paired = append(paired, m)
		}
	}
	a.r.Messages = paired
	return nil
}

func (a pairStep) unanswered(m *codec.Message) error {
	for i := range m.Parts {
		if p := &m.Parts[i]; isCall(p) {
			return codec.Invalid(a.r.Path(m.Index), "the conversation ends with the tool call %q, which has no result", p.CallID)
		}
	}
	return nil
}

func isCall(p *codec.Part) bool {
	return p.Kind == codec.PartToolCall || p.Kind == codec.PartCustomCall
}

// answerCalls appends the results of the calls in the last message of paired, collected from the following messages,
// then the rest of those.
func (a pairStep) answerCalls(paired, following []codec.Message) ([]codec.Message, error) {
	asker := &paired[len(paired)-1]
	calls := 0
	for i := range asker.Parts {
		if isCall(&asker.Parts[i]) {
			calls++
		}
	}
	found := newResults(following, calls)
	results := a.r.NewParts(calls)
	for i := range asker.Parts {
		call := &asker.Parts[i]
		if !isCall(call) {
			continue
		}
		result := found.take(call, calls == 1)
		if result == nil {
			results = append(results, codec.Part{
				Kind: codec.PartToolResult, CallID: call.CallID, Name: call.Name, Failed: true,
				Parts: append(a.r.NewParts(1), codec.Part{Kind: codec.PartText, Text: []byte("(no result recorded)")}),
			})
			a.r.Notes.Emulate(a.from.Members.Conversation + ".tool_result")
			continue
		}
		answer := *result
		answer.CallID, answer.Name = call.CallID, call.Name
		results = append(results, answer)
	}
	index := asker.Index
	paired = append(paired, codec.Message{Role: codec.RoleTool, Parts: results, Index: index})
	return a.appendRest(paired, following, found)
}

// results are the results after the calls of one turn.
type results struct {
	following []codec.Message
	used      []*codec.Part        // of a turn with few calls
	usedOf    map[*codec.Part]bool // and of one with many
	byID      map[string]*ofCall   // of a turn with many calls; nil otherwise
	room      [4]*codec.Part       // of used
}

// ofCall is the results of one call.
type ofCall struct {
	parts []*codec.Part
	taken int
}

// manyCalls is the number of calls from which on results are not searched one by one.
const manyCalls = 16

func newResults(following []codec.Message, calls int) *results {
	r := &results{following: following}
	if calls < manyCalls {
		r.used = r.room[:0]
		return r
	}
	r.byID, r.usedOf = make(map[string]*ofCall, calls), make(map[*codec.Part]bool, calls)
	for i := range following {
		if following[i].Role != codec.RoleTool {
			continue
		}
		for j := range following[i].Parts {
			p := &following[i].Parts[j]
			of := r.byID[string(p.CallID)]
			if of == nil {
				of = new(ofCall)
				r.byID[view(p.CallID)] = of
			}
			of.parts = append(of.parts, p)
		}
	}
	return r
}

// take returns the first unused result of a call. A result without an id belongs to the only call.
func (r *results) take(call *codec.Part, only bool) *codec.Part {
	if r.byID != nil {
		of := r.byID[string(call.CallID)]
		if of == nil || of.taken == len(of.parts) {
			return nil
		}
		of.taken++
		r.usedOf[of.parts[of.taken-1]] = true
		return of.parts[of.taken-1]
	}
	for i := range r.following {
		if r.following[i].Role != codec.RoleTool {
			continue
		}
		for j := range r.following[i].Parts {
			p := &r.following[i].Parts[j]
			if (bytes.Equal(p.CallID, call.CallID) || only && len(p.CallID) == 0) && !r.isUsed(p) {
				r.used = append(r.used, p)
				return p
			}
		}
	}
	return nil
}

// isUsed reports whether p has been taken.
func (r *results) isUsed(p *codec.Part) bool { return r.usedOf[p] || slices.Contains(r.used, p) }

// repeats reports whether p is another result of a call that has one.
func (r *results) repeats(p *codec.Part) bool {
	if r.byID != nil {
		return r.byID[string(p.CallID)].taken > 0
	}
	for _, other := range r.used {
		if bytes.Equal(other.CallID, p.CallID) {
			return true
		}
	}
	return false
}

// appendRest appends what else is between the calls and the next assistant turn.
func (a pairStep) appendRest(paired, following []codec.Message, found *results) ([]codec.Message, error) {
	for _, m := range following {
		if m.Role != codec.RoleTool {
			paired = append(paired, m)
			continue
		}
		left := a.r.NewParts(len(m.Parts))
		for j := range m.Parts {
			p := &m.Parts[j]
			switch {
			case found.isUsed(p):
			case len(p.CallID) == 0:
				return nil, codec.Invalid(a.r.Path(m.Index), "a tool result names no call, and more than one call could be meant")
			case found.repeats(p):
				a.r.Notes.Drop(a.r.Path(m.Index))
			default:
				left = append(left, *p)
			}
		}
		if text := a.orphans(left); len(text) > 0 {
			paired = append(paired, codec.Message{Role: codec.RoleUser, Parts: text, Index: m.Index})
		}
	}
	return paired, nil
}

// orphans turns results without a call, for instance in a trimmed history, into user text.
func (a pairStep) orphans(results []codec.Part) []codec.Part {
	var parts []codec.Part
	for i := range results {
		p := &results[i]
		title := append(a.r.Alloc(len(p.CallID)+len(p.Name)+32), `Result of an earlier tool call (`...)
		if len(p.Name) > 0 {
			title = append(append(title, p.Name...), ", "...)
		}
		title = append(append(title, p.CallID...), `):`...)
		parts = append(parts, codec.Part{Kind: codec.PartText, Text: title})
		parts = append(parts, p.Parts...)
		a.r.Notes.Emulate(a.from.Members.Conversation + ".tool_result")
	}
	return parts
}

// renameRepeatedCalls makes repeated call ids unique; some hosts number calls per turn. A result belongs to the turn
// before it that has its id last, and the n-th result after that turn to the turn's n-th call. All calls with an id but
// the first get a number after it.
func (a pairStep) renameRepeatedCalls() {
	ids, repeated := a.usedIDs()
	if !repeated {
		return
	}
	type uses struct {
		turn     int // the message with the latest calls
		before   int // calls before that message
		called   int
		answered int // of the calls in that message
	}
	seen := make(map[string]*uses, len(a.r.Messages))
	for i := range a.r.Messages {
		for j := range a.r.Messages[i].Parts {
			p := &a.r.Messages[i].Parts[j]
			if !hasCallID(p) || len(p.CallID) == 0 {
				continue
			}
			of := seen[string(p.CallID)]
			if of == nil {
				of = &uses{turn: -1}
				seen[view(p.CallID)] = of
			}
			n := of.called
			switch {
			case isCall(p):
				if of.turn != i {
					of.turn, of.before, of.answered = i, of.called, 0
				}
				of.called++
				n = of.called
			case of.before+of.answered < of.called:
				of.answered++
				n = of.before + of.answered
			}
			if n > 1 {
				p.CallID = a.numbered(p.CallID, n, ids)
			}
		}
	}
}

// usedIDs returns the ids of all calls and results, and whether two calls have the same.
func (a pairStep) usedIDs() (ids map[string]bool, repeated bool) {
	ids = make(map[string]bool, len(a.r.Messages)) // true for a call
	for i := range a.r.Messages {
		for j := range a.r.Messages[i].Parts {
			p := &a.r.Messages[i].Parts[j]
			if !hasCallID(p) || len(p.CallID) == 0 {
				continue
			}
			called := ids[string(p.CallID)]
			repeated = repeated || called && isCall(p)
			ids[view(p.CallID)] = called || isCall(p)
		}
	}
	return ids, repeated
}

// numbered returns the id of the n-th call with an id: no other call of the history has it.
func (a pairStep) numbered(id []byte, n int, ids map[string]bool) []byte {
	made := append(append(append(a.r.Alloc(len(id)+12), id...), '_'), itoa(n)...)
	for {
		if _, used := ids[string(made)]; !used {
			return made
		}
		made = append(made, '_')
	}
}
