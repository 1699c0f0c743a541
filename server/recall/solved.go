package recall

import (
	"context"
	"slices"
	"strings"

	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/search"
	"github.com/mnemeproxy/mneme/store/search/lexical"
)

const (
	mostFailures = 3  // turns examined per question
	stepsAfter   = 40 // turns after a failure in which to look for its solution
	maxEdited    = 5  // files listed
)

// solved finds earlier tool failures that the question quotes, and how each was solved.
func (a *question) solved(ctx context.Context) (entries []entry, err error) {
	signatures := search.Signatures(a.prompt)
	if len(signatures) == 0 {
		return nil, nil
	}
	answer, err := a.engine.Search(ctx, a.query.Account, &search.Request{
		Newest: true, Limit: mostFailures,
		Filter: search.Filter{And: append(a.scope(), search.Filter{Field: "failure", Op: "in", Values: signatures})},
	})
	if err != nil {
		return nil, err
	}
	for i := range answer.Data {
		h := &answer.Data[i]
		if a.given[h.Exchange] {
			continue
		}
		if e := a.solution(h.Exchange, signatures); e != nil {
			entries = append(entries, *e)
			break // the newest one suffices
		}
	}
	return entries, nil
}

// solution describes a failure: the line, the command, whether it passed later, and which files were edited in between.
func (a *question) solution(exchange string, signatures []string) *entry {
	turn, err := a.turn(exchange)
	if err != nil || turn.Turn == nil {
		return nil
	}
	line, call := failureIn(turn.Turn, signatures)
	if line == "" {
		return nil
	}
	e := &entry{Hit: hitOf(turn, 1)}
	command, ran := commandOf(turn.Turn, call), exchange
	if command == "" { // the call is in an earlier answer
		page, err := a.engine.Timeline(a.query.Account, turn.Exchange.Session, record.TimelineQuery{After: exchange, Limit: resultWithin, Descending: true})
		for i := 0; err == nil && i < len(page.Data) && command == ""; i++ {
			command, ran = commandOf(page.Data[i].Turn, call), page.Data[i].Exchange.ID
		}
	}
	e.add("failed before", line)
	edited := editedIn(nil, turn.Turn)
	said, saidIn := lastSaid(turn.Turn), exchange
	page, err := a.engine.Timeline(a.query.Account, turn.Exchange.Session, record.TimelineQuery{After: exchange, Limit: stepsAfter})
	if err != nil {
		return nil
	}
	last := turn.Turn
	for i := range page.Data {
		next := page.Data[i].Turn
		if next == nil {
			continue
		}
		id, before := page.Data[i].Exchange.ID, len(edited)
		if edited = editedIn(edited, next); len(edited) > before {
			e.also(id)
		}
		if text := lastSaid(next); text != "" {
			said, saidIn = text, id
		}
		if command != "" && passedIn(last, next, command) {
			e.Solved = id
			e.also(id)
			break
		}
		last = next
	}
	if e.Solved != "" {
		e.add("passed later", lexical.Cut(command, 200))
		e.also(ran)
	}
	if len(edited) > 0 {
		e.add("edited", strings.Join(edited[max(0, len(edited)-maxEdited):], ", "))
	}
	if said != "" {
		e.add("said", lexical.Cut(said, 300))
		e.also(saidIn)
	}
	return e
}

// failureIn returns the line of a failure and the call that caused it.
func failureIn(t *record.Turn, signatures []string) (line, call string) {
	for _, list := range [][]record.Message{t.Messages, t.Answer} {
		for i := range list {
			for j := range list[i].Parts {
				p := &list[i].Parts[j]
				if p.Kind != "result" {
					continue
				}
				for text := range strings.Lines(p.Text) {
					found := search.Signatures(text)
					if len(found) > 0 && slices.Contains(signatures, found[0]) {
						return search.FailureLine(text), p.CallID
					}
				}
			}
		}
	}
	return "", ""
}

// commandOf returns the command of a call; "" if the turn does not have it.
func commandOf(t *record.Turn, call string) string {
	if t == nil || call == "" {
		return ""
	}
	for _, list := range [][]record.Message{t.Messages, t.Answer} {
		for i := range list {
			for j := range list[i].Parts {
				if p := &list[i].Parts[j]; p.Kind == "call" && p.CallID == call {
					return search.Command(p)
				}
			}
		}
	}
	return ""
}

// passedIn reports whether a command ran without a failure. Its call may be in the turn before its result.
func passedIn(before, t *record.Turn, command string) bool {
	calls, wanted := make(map[string]bool), search.SameCommand(command)
	for _, of := range []*record.Turn{before, t} {
		for _, list := range [][]record.Message{of.Messages, of.Answer} {
			for i := range list {
				for j := range list[i].Parts {
					switch p := &list[i].Parts[j]; {
					case p.Kind == "call" && search.SameCommand(search.Command(p)) == wanted:
						calls[p.CallID] = true
					case of == t && p.Kind == "result" && calls[p.CallID]:
						if _, failed := search.Failure(p); !failed {
							return true
						}
					}
				}
			}
		}
	}
	return false
}

// editedIn appends the files that a turn's calls edited.
func editedIn(files []string, t *record.Turn) []string {
	for _, list := range [][]record.Message{t.Messages, t.Answer} {
		for i := range list {
			for j := range list[i].Parts {
				p := &list[i].Parts[j]
				if named, edits := search.Files(p); edits {
					for _, file := range named {
						files = append(slices.DeleteFunc(files, func(known string) bool { return known == file }), file)
					}
				}
			}
		}
	}
	return files
}

func lastSaid(t *record.Turn) string {
	for i := len(t.Answer) - 1; i >= 0; i-- {
		for j := len(t.Answer[i].Parts) - 1; j >= 0; j-- {
			if p := &t.Answer[i].Parts[j]; p.Kind == "text" {
				return p.Text
			}
		}
	}
	return ""
}
