package transcript

import (
	"context"
	"errors"

	"github.com/mnemeproxy/mneme/store/record"
)

// Turns visits the turns of a session in their order, until visit fails.
type Turns func(visit func(*record.TimelineEntry) error) error

// Archive is a memory that is read page by page.
type Archive interface {
	Timeline(account, session string, q record.TimelineQuery) (record.TimelinePage, error)
}

const turnsOfPage = 100

// TurnsIn returns the turns of a session in an archive. The visit fails when ctx ends.
func TurnsIn(ctx context.Context, from Archive, account, session string) Turns {
	return func(visit func(*record.TimelineEntry) error) error {
		for q := (record.TimelineQuery{Limit: turnsOfPage}); ; {
			page, err := from.Timeline(account, session, q)
			if err = errors.Join(err, ctx.Err()); err != nil {
				return err
			}
			for i := range page.Data {
				if err := visit(&page.Data[i]); err != nil {
					return err
				}
			}
			if !page.HasMore || len(page.Data) == 0 {
				return nil
			}
			q.After = page.Data[len(page.Data)-1].Exchange.ID
		}
	}
}

// Branch finds out what of a session's turns belongs to the conversation as it went on. If a person went back and asked
// something else, the newest answer counts. Note all turns in their order first, then ask for each of them with Part.
type Branch struct {
	// Unanswered keeps a last question that got no answer, because its request failed.
	Unanswered bool

	turns  map[string]turnOnBranch
	newest map[string]string // the end of the branch by its root
	last   string            // the newest turn, answered or not
	kept   map[string]share
}

// turnOnBranch is where a turn stands.
type turnOnBranch struct {
	root, parent    string
	known, messages int
	branch, whole   bool
}

// share is what of a turn a branch has.
type share struct {
	messages int // the first ones
	answer   bool
}

// Note takes a turn, which is later than those before. Requests that are no turns do not count.
func (b *Branch) Note(e *record.TimelineEntry) {
	t := e.Turn
	if t == nil || t.Error != "" || e.Exchange.Auxiliary != "" {
		return
	}
	if b.turns == nil {
		b.turns, b.newest = make(map[string]turnOnBranch), make(map[string]string)
	}
	id := e.Exchange.ID
	p := turnOnBranch{root: id, known: t.Known, messages: len(t.Messages), branch: t.Branch, whole: e.Exchange.Outcome == record.OutcomeComplete}
	if parent, there := b.turns[t.Parent]; there {
		p.root, p.parent = parent.root, t.Parent
	}
	b.turns[id] = p
	if b.last = id; p.whole {
		b.newest[p.root] = id
	}
}

// Read visits what of a session's turns belongs to the conversation, in order. It reads the turns twice.
func (b *Branch) Read(turns Turns, visit func(*record.Turn)) error {
	err := turns(func(e *record.TimelineEntry) error {
		b.Note(e)
		return nil
	})
	if err != nil || len(b.shares()) == 0 {
		return err
	}
	return turns(func(e *record.TimelineEntry) error {
		if part := b.Part(e); part != nil {
			visit(part)
		}
		return nil
	})
}

// shares returns what belongs to the conversation, by turn.
func (b *Branch) shares() map[string]share {
	if b.kept != nil {
		return b.kept
	}
	b.kept = make(map[string]share)
	if b.Unanswered && b.last != "" {
		b.newest[b.turns[b.last].root] = b.last
	}
	for _, id := range b.newest {
		t := b.turns[id]
		b.kept[id] = share{t.messages, t.whole}
		for t.parent != "" {
			parent := b.turns[t.parent]
			b.kept[t.parent] = parent.before(&t)
			t = parent
		}
	}
	return b.kept
}

// before returns what a turn that continues this one has of it. One that asks again, or goes on elsewhere, does not have
// the answer, nor does one behind a request that failed, unless it repeats what was received. Clients drop system
// messages in between, so that counts say nothing where a turn simply follows a whole one.
func (p *turnOnBranch) before(next *turnOnBranch) share {
	has := next.known - p.known
	switch {
	case has > p.messages || p.whole && !next.branch:
		return share{p.messages, true}
	case has < 0 || !next.branch:
		return share{messages: p.messages}
	}
	return share{messages: has}
}

// Part returns what of a turn belongs to the conversation; nil if nothing does.
func (b *Branch) Part(e *record.TimelineEntry) *record.Turn {
	s, there := b.shares()[e.Exchange.ID]
	if !there || e.Turn == nil {
		return nil
	}
	part := *e.Turn
	part.Messages = part.Messages[:min(s.messages, len(part.Messages))]
	if !s.answer {
		part.Answer = nil
	}
	return &part
}
