package recall

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/search"
	"github.com/mnemeproxy/mneme/store/search/lexical"
)

// Story is what happened in a session, in its own words. No model writes it.
type Story struct {
	Goal   string   `json:"goal,omitempty"`   // the first words of the person's
	Done   string   `json:"done,omitempty"`   // the first sentence of the last answer
	Left   []string `json:"left,omitempty"`   // steps of the agent's last plan that it has not completed
	Files  []string `json:"files,omitempty"`  // edited, the last ones first
	Errors []string `json:"errors,omitempty"` // failures of commands that were not seen to pass later, the last ones first
}

// Bounds of a story.
const (
	storyTurns = 100 // read, the last ones
	storyItems = 12  // of each list
	storyText  = 300 // bytes of an item
)

// ReadStory reads the last turns of a session, at 50 to 100 µs each.
func ReadStory(from search.Timelines, account, session string) (s Story, err error) {
	page, err := from.Timeline(account, session, record.TimelineQuery{Limit: storyTurns, Descending: true})
	if err != nil {
		return s, err
	}
	calls, passed, planned := callsIn(page.Data), make(map[string]bool), false
	for i := range page.Data {
		e := &page.Data[i]
		if e.Turn == nil || e.Exchange.Auxiliary != "" {
			continue
		}
		s.Done = cmp.Or(s.Done, search.FirstSentence(search.Said(e.Turn)))
		s.addFailures(e.Turn, calls, passed)
		edited := editedIn(nil, e.Turn)
		slices.Reverse(edited)
		for _, file := range edited {
			if !slices.Contains(s.Files, file) {
				s.Files = append(s.Files, file)
			}
		}
		if !planned {
			s.Left, planned = planIn(e.Turn)
		}
		if goal := search.FirstSentence(search.Asked(e.Turn)); goal != "" {
			s.Goal = goal // the oldest one in reach
		}
	}
	if page.HasMore {
		if b, err := search.ReadBeginning(from, account, session); err == nil {
			s.Goal = cmp.Or(b.Asked, s.Goal)
		}
	}
	for _, list := range []*[]string{&s.Left, &s.Files, &s.Errors} {
		*list = (*list)[:min(len(*list), storyItems)]
		for i := range *list {
			(*list)[i] = lexical.Cut((*list)[i], storyText)
		}
	}
	return s, nil
}

// callsIn returns the tool and the arguments of calls by their ids.
func callsIn(entries []record.TimelineEntry) map[string]string {
	calls := make(map[string]string)
	for i := range entries {
		if entries[i].Turn == nil {
			continue
		}
		for _, list := range [][]record.Message{entries[i].Turn.Messages, entries[i].Turn.Answer} {
			for j := range list {
				for k := range list[j].Parts {
					if p := &list[j].Parts[k]; p.Kind == "call" && p.CallID != "" {
						calls[p.CallID] = p.Name + p.Arguments + p.Text
					}
				}
			}
		}
	}
	return calls
}

// addFailures adds the results of a turn that report a failure, the last ones first, unless the same call was seen to pass
// later.
func (s *Story) addFailures(t *record.Turn, calls map[string]string, passed map[string]bool) {
	for i := len(t.Messages) - 1; i >= 0; i-- {
		for j := len(t.Messages[i].Parts) - 1; j >= 0; j-- {
			p := &t.Messages[i].Parts[j]
			call := cmp.Or(calls[p.CallID], p.CallID)
			if p.Kind != "result" || passed[call] {
				continue
			}
			passed[call] = true // only the last run of each counts
			if failure := search.FailureLine(p.Text); failure != "" {
				s.Errors = append(s.Errors, failure)
			} else if p.Failed {
				s.Errors = append(s.Errors, cmp.Or(search.FirstSentence(p.Text), "failed"))
			}
		}
	}
}

// planIn returns the steps of the last plan in a turn that are not completed; ok is false if it has no plan.
func planIn(t *record.Turn) (left []string, ok bool) {
	for i := len(t.Answer) - 1; i >= 0; i-- {
		for j := len(t.Answer[i].Parts) - 1; j >= 0; j-- {
			p := &t.Answer[i].Parts[j]
			if p.Kind != "call" || !plans[p.Name] {
				continue
			}
			var plan struct {
				Todos []struct{ Content, Status string } `json:"todos"`
				Plan  []struct{ Step, Status string }    `json:"plan"`
			}
			if json.Unmarshal([]byte(p.Arguments), &plan) != nil {
				continue
			}
			for _, todo := range plan.Todos {
				if todo.Status != "completed" && todo.Status != "cancelled" && todo.Content != "" {
					left = append(left, todo.Content)
				}
			}
			for _, step := range plan.Plan {
				if step.Status != "completed" && step.Step != "" {
					left = append(left, step.Step)
				}
			}
			return left, true
		}
	}
	return nil, false
}

// plans are the tools with which Claude Code, opencode and Codex note their plans.
var plans = map[string]bool{"TodoWrite": true, "todowrite": true, "update_plan": true}
