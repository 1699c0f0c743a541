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

// renameRepeatedCalls makes repeated call ids unique; some hosts number calls per turn. The n-th result with an id
// belongs to the n-th call with it; all but the first get a number after the id.
func (a pairStep) renameRepeatedCalls() {
	type times struct{ called, answered int }
	seen := make(map[string]times, len(a.r.Messages))
	for i := range a.r.Messages {
		for j := range a.r.Messages[i].Parts {
			p := &a.r.Messages[i].Parts[j]
			if !hasCallID(p) || len(p.CallID) == 0 {
				continue
			}
			of := seen[string(p.CallID)]
			n := of.called + 1
			if isCall(p) {
				of.called = n
			} else {
				if of.answered >= of.called {
					continue // a second result of the same call
				}
				n = of.answered + 1
				of.answered = n
			}
			if seen[view(p.CallID)] = of; n > 1 {
				id := append(a.r.Alloc(len(p.CallID)+8), p.CallID...)
				p.CallID = append(append(id, '_'), itoa(n)...)
			}
		}
	}
}
