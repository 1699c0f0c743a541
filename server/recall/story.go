package recall

import (
	"context"

	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/search"
	"github.com/mnemeproxy/mneme/store/search/lexical"
)

// Story is what happened in a session, in its own words. No model writes it.
type Story struct {
	Goal      string   `json:"goal,omitempty"`      // the person's first words
	Done      string   `json:"done,omitempty"`      // the first sentence of the last answer
	Left      []string `json:"left,omitempty"`      // steps of the agent's last plan that it has not completed
	Files     []string `json:"files,omitempty"`     // edited, the last ones first
	Errors    []string `json:"errors,omitempty"`    // failures of commands that were not seen to pass later, the last ones first
	Decisions []Quote  `json:"decisions,omitempty"` // what was decided or ruled, the last ones first
	Commands  []Run    `json:"commands,omitempty"`  // with their last results, the last ones first
}

// Bounds of a story.
const (
	storyTurns = 100 // read, the last ones
	storyItems = 12  // of each list
	storyText  = 300 // bytes of an item
)

// ReadStory reads the last turns of a session, at 50 to 100 µs each.
func ReadStory(ctx context.Context, from search.Timelines, account, session string) (s Story, err error) {
	p, done, err := readPast(ctx, from, account, session, storyTurns)
	if err != nil {
		return s, err
	}
	s.Done, s.Errors = done.Text, p.failures()
	for _, step := range p.left {
		s.Left = append(s.Left, step.Text)
	}
	for _, file := range p.edited {
		s.Files = append(s.Files, file.Text)
	}
	for _, run := range p.runs {
		if run.shell {
			run.Command, run.Line = lexical.Cut(run.Command, storyText), lexical.Cut(run.Line, storyText)
			s.Commands = append(s.Commands, run)
		}
	}
	s.Decisions = p.decisions
	if len(p.asked) > 0 {
		s.Goal = search.FirstSentence(p.asked[len(p.asked)-1].Text)
	}
	for _, list := range []*[]string{&s.Left, &s.Files, &s.Errors} {
		*list = (*list)[:min(len(*list), storyItems)]
		for i := range *list {
			(*list)[i] = lexical.Cut((*list)[i], storyText)
		}
	}
	s.Decisions = s.Decisions[:min(len(s.Decisions), storyItems)]
	for i := range s.Decisions {
		s.Decisions[i].Text = lexical.Cut(s.Decisions[i].Text, storyText)
	}
	s.Commands = s.Commands[:min(len(s.Commands), storyItems)]
	return s, nil
}

// readPast reads the last turns of a session, and the person's first words. done is the first sentence of the last answer
// that ends a round, or else of what the model said last.
func readPast(ctx context.Context, from search.Timelines, account, session string, turns int) (p *past, done Quote, err error) {
	p = newPast()
	var said Quote
	q := record.TimelineQuery{Descending: true}
	for left := turns; left > 0; {
		if err := ctx.Err(); err != nil {
			return nil, done, err
		}
		q.Limit = min(left, storyTurns)
		page, err := from.Timeline(account, session, q)
		if err != nil {
			return nil, done, err
		}
		for i := range page.Data {
			e := &page.Data[i]
			if e.Exchange.Auxiliary == record.AuxiliarySummary && p.summary == "" && p.summarized == "" {
				p.summarized = e.Exchange.ID
			}
			if done.Text == "" && e.Turn != nil && e.Exchange.Auxiliary == "" {
				text := Quote{Exchange: e.Exchange.ID, Text: search.FirstSentence(search.Said(e.Turn))}
				if said.Text == "" {
					said = text
				}
				if search.Ends(e.Turn) {
					done = text
				}
			}
			p.add(e)
		}
		if left -= len(page.Data); !page.HasMore || len(page.Data) == 0 {
			left = 0
		} else if q.After = page.Data[len(page.Data)-1].Exchange.ID; left == 0 {
			p.begin(from, account, session)
		}
	}
	if done.Text == "" {
		done = said
	}
	return p, done, nil
}

// begin adds the person's first words of a session that has more turns than were read.
func (p *past) begin(from search.Timelines, account, session string) {
	const first = 5 // clients begin with requests of their own
	page, err := from.Timeline(account, session, record.TimelineQuery{Limit: first})
	if err != nil {
		return
	}
	for i := range page.Data {
		e := &page.Data[i]
		if e.Exchange.Auxiliary != "" || !search.Opens(e.Turn) {
			continue
		}
		asked := search.Asked(e.Turn)
		p.asked = append(p.asked, Quote{Exchange: e.Exchange.ID, Role: "user", Text: asked})
		p.decided(e.Exchange.ID, "user", asked)
		return
	}
}
