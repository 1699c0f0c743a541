package recall

import (
	"cmp"
	"context"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/mnemeproxy/mneme/codec/project"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/search"
	"github.com/mnemeproxy/mneme/store/search/lexical"
)

// Bounds of what is read before a call.
const (
	actionTokens = 300
	mostDecided  = 3  // quotations about a file
	mostFiles    = 3  // of one call
	decidedTurns = 24 // that may name the file
	editedTurns  = 12 // that changed it
	editedRounds = 3  // read of these
	ranTurns     = 3  // runs of the command
	resultWithin = 4  // turns after a call
)

// Before says what a call that is about to be made should respect: of a file that it changes what was decided about it, of a
// command how it failed the last time. It is silent about anything else, and about what the session was given already.
func (m *Memory) Before(ctx context.Context, q *Query, call *record.Part) (r Recalled) {
	q.Project = project.Clean(q.Project)
	asked := q.clone()
	defer func() { m.counts.add(q.Account, &r) }()
	if q.Project == "" {
		return Recalled{Hits: []Hit{}, Reason: ReasonScope}
	}
	files, edits := search.Files(call)
	command := search.Command(call)
	if (!edits || len(files) == 0) && command == "" {
		return Recalled{Hits: []Hit{}, Reason: ReasonShort}
	}
	before := m.givenIn(q.Account, q.Session)
	r = m.within(ctx, m.opts.Deadline, func(ctx context.Context) Recalled {
		a := question{Memory: m, query: asked}
		if session := m.engine.SessionKnownAs(asked.Account, asked.Session); session != "" {
			a.own = append(a.own, session)
		}
		d := digest{question: &a}
		var err error
		if edits && len(files) > 0 {
			err = d.decidedAbout(ctx, files)
		} else {
			err = d.failedBefore(ctx, command)
		}
		if err != nil {
			return Recalled{Hits: []Hit{}, Reason: ReasonFailed}
		}
		d.lines = slices.DeleteFunc(d.lines, func(l digestLine) bool { return slices.Contains(before.Calls, l.given()) })
		return d.write(notice, actionTokens)
	})
	m.noteCalls(q.Account, q.Session, before, r.lines)
	return r
}

// given is how a line is known that a session was given before a call.
func (l *digestLine) given() string { return l.exchange + " " + l.label }

// decidedAbout adds decisions about files, the newest first: sentences that name the file, and those of rounds that changed only this
// one and name none.
func (d *digest) decidedAbout(ctx context.Context, files []string) error {
	for _, file := range files[:min(len(files), mostFiles)] {
		about, err := d.naming(ctx, file)
		if err != nil {
			return err
		}
		if len(about) == 0 {
			if about, err = d.changing(ctx, file); err != nil {
				return err
			}
		}
		slices.SortFunc(about, func(a, b decision) int { return cmp.Compare(b.Exchange, a.Exchange) })
		for i := range about[:min(len(about), mostDecided)] {
			b := &about[i]
			b.Text = lexical.Cut(b.Text, quoteBytes)
			label := labelOf(&b.Quote) + " on " + b.entry.Exchange.Started.UTC().Format(time.DateOnly) + " about " + quoted(lexical.Cut(clean(path.Base(file)), maxLabel)) + " in"
			d.hits = append(d.hits, hitOf(b.entry, 1))
			d.line(i, label, b.Exchange, b.Text)
		}
	}
	return nil
}

// decision is a quotation with the turn that it is from.
type decision struct {
	Quote
	entry record.TimelineEntry
}

// naming returns the decisions that name a file.
func (d *digest) naming(ctx context.Context, file string) (list []decision, err error) {
	base := path.Base(file)
	found, err := d.engine.Search(ctx, d.query.Account, &search.Request{
		Query: base, Syntax: search.Plain, Mode: search.Lexical, Limit: decidedTurns,
		Demand: &lexical.Demand{Share: someNames, Enough: func(lexical.Covered) bool { return true }},
		Filter: search.Filter{And: append(d.scope(), search.Filter{Field: "kind", Op: "eq", Value: "decided"})},
	})
	if err != nil {
		return nil, err
	}
	for i := range found.Data {
		t, err := d.turn(found.Data[i].Exchange)
		if err != nil || t.Turn == nil {
			continue // erased since
		}
		for _, q := range decisionsOf(&t) {
			if names(q.Text, file) && !slices.ContainsFunc(list, func(known decision) bool { return known.Text == q.Text }) {
				list = append(list, decision{q, t})
			}
		}
	}
	return list, nil
}

// changing returns the decisions of rounds that changed a file and no other, and name none.
func (d *digest) changing(ctx context.Context, file string) (list []decision, err error) {
	found, err := d.engine.Search(ctx, d.query.Account, &search.Request{
		Newest: true, Limit: editedTurns, Filter: search.Filter{And: append(d.scope(), search.Filter{Field: "edited", Op: "eq", Value: file})},
	})
	if err != nil {
		return nil, err
	}
	var rounds []string
	for i := range found.Data {
		t, err := d.turn(found.Data[i].Exchange)
		if err != nil || t.Turn == nil {
			continue
		}
		r, err := search.ReadRound(d.engine, d.query.Account, &t)
		if err != nil {
			return nil, err
		}
		if r.Opened == "" || slices.Contains(rounds, r.Opened) {
			continue
		}
		if rounds = append(rounds, r.Opened); len(rounds) > editedRounds {
			break
		}
		only, err := d.changedOnly(&t, &r)
		if err != nil {
			return nil, err
		}
		if !only {
			continue
		}
		for _, said := range []Quote{{Exchange: r.Opened, Role: "user", Text: r.Asked}, {Exchange: r.Answered, Role: "assistant", Text: r.Said}} {
			for _, one := range search.Decisions(said.Text, false) {
				if said.Exchange != "" && !namesFile(one.Text) {
					list = append(list, decision{Quote{said.Exchange, said.Role, one.Text, one.Rejected}, t})
				}
			}
		}
	}
	return list, nil
}

// changedOnly reports whether a round changed one file.
func (d *digest) changedOnly(of *record.TimelineEntry, r *search.Round) (bool, error) {
	first, err := d.turn(r.Opened)
	if err != nil {
		return false, err
	}
	page, err := d.engine.Timeline(d.query.Account, of.Exchange.Session, record.TimelineQuery{After: r.Opened, Limit: r.Steps + 1})
	if err != nil {
		return false, err
	}
	p := newPast()
	for _, e := range slices.Backward(append([]record.TimelineEntry{first}, page.Data...)) {
		if r.Answered == "" || e.Exchange.ID <= r.Answered {
			p.add(&e)
		}
	}
	return len(p.edited) == 1, nil
}

// decisionsOf returns the decisions of a turn, one quotation each.
func decisionsOf(t *record.TimelineEntry) (list []Quote) {
	for _, messages := range [][]record.Message{t.Turn.Messages, t.Turn.Answer} {
		for i := range messages {
			role := messages[i].Role
			for j := range messages[i].Parts {
				p := &messages[i].Parts[j]
				if p.Kind != "text" {
					continue
				}
				for _, one := range decisionsIn(role, p.Text) {
					list = append(list, Quote{t.Exchange.ID, role, one.Text, one.Rejected})
				}
			}
		}
	}
	return list
}

// decisionsIn returns the decisions of a person or a model in a text; none of any other role.
func decisionsIn(role, text string) []search.Decision {
	switch role {
	case "user":
		return search.Decisions(search.Own(text), true)
	case "assistant":
		return search.Decisions(text, false)
	}
	return nil
}

// names reports whether a text names a file, by its path or the end of it.
func names(text, file string) bool {
	base := path.Base(file)
	for from := 0; ; {
		i := strings.Index(text[from:], base)
		if i < 0 {
			return false
		}
		start, end := from+i, from+i+len(base)
		from = end
		for start > 0 && isPath(text[start-1]) {
			start--
		}
		named := strings.Trim(text[start:end], "./")
		if (end == len(text) || !isName(text[end])) && (named == base || strings.HasSuffix(file, "/"+named) || strings.HasSuffix(named, "/"+strings.TrimPrefix(file, "/"))) {
			return true
		}
	}
}

func isName(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-'
}

func isPath(c byte) bool { return isName(c) || c == '/' || c == '.' || c == '~' || c >= 0x80 }

// namesFile reports whether a text names any file.
func namesFile(text string) bool {
	return slices.ContainsFunc(strings.FieldsFunc(text, func(r rune) bool { return r > 0x7f || !isPath(byte(r)) }), func(word string) bool {
		ext := path.Ext(strings.TrimRight(word, "."))
		return strings.Contains(word, "/") || len(ext) > 1 && len(ext) <= 6 && len(ext) < len(word)
	})
}

// failedBefore adds the failure with which a command ended the last time that it ran, unless this session ran it.
func (d *digest) failedBefore(ctx context.Context, command string) error {
	filters := search.Within(d.opts.Clock().Add(-d.opts.Age), time.Time{})
	filters = append(filters, search.Filter{Field: "project", Op: "eq", Value: d.query.Project}, search.Filter{Field: "ran", Op: "eq", Value: command})
	found, err := d.engine.Search(ctx, d.query.Account, &search.Request{Newest: true, Limit: ranTurns, Filter: search.Filter{And: filters}})
	if err != nil {
		return err
	}
	same := search.SameCommand(command)
	for i := range found.Data {
		t, err := d.turn(found.Data[i].Exchange)
		if err != nil || t.Turn == nil {
			continue
		}
		if slices.Contains(d.own, t.Exchange.Session) {
			return nil
		}
		page, err := d.engine.Timeline(d.query.Account, t.Exchange.Session, record.TimelineQuery{After: t.Exchange.ID, Limit: resultWithin})
		if err != nil {
			return err
		}
		p := newPast()
		for _, e := range slices.Backward(append([]record.TimelineEntry{t}, page.Data...)) {
			p.add(&e)
		}
		at := slices.IndexFunc(p.runs, func(run Run) bool { return run.shell && search.SameCommand(run.Command) == same })
		if at < 0 {
			continue // no result is known
		}
		if run := &p.runs[at]; run.Failed && run.Line != "" {
			d.hits = append(d.hits, hitOf(t, 1))
			d.line(0, "failed last, on "+t.Exchange.Started.UTC().Format(time.DateOnly)+", in", run.Exchange, lexical.Cut(run.Line, quoteBytes))
			if r, err := search.ReadRound(d.engine, d.query.Account, &t); err == nil && r.Answered != "" {
				d.line(1, "said then, in", r.Answered, search.FirstSentence(r.Said))
			}
		}
		return nil
	}
	return nil
}
