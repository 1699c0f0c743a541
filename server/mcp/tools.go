package mcp

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/project"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/search"
	"github.com/mnemeproxy/mneme/store/search/lexical"
)

// tools serve one request, for the memory of one account.
type tools struct {
	archive  Archive
	recorder Recorder
	searcher Searcher
	recaller Recaller
	account  string
	key      string // the caller's key; "": it has none
	log      *slog.Logger
	permit   func(store.Scopes) error // of the caller's key
	trace    func(operation string) (end func(status int))
}

type searchInput struct {
	Query     string `json:"query,omitempty" jsonschema:"words to look for; \"a phrase\", +must, -not; left out beside a bound: the newest"`
	Sessions  bool   `json:"sessions,omitempty" jsonschema:"find whole conversations instead of single exchanges"`
	Session   string `json:"session_id,omitempty" jsonschema:"only in this conversation"`
	Project   string `json:"project,omitempty" jsonschema:"only of work in this directory, or in those whose last part is this"`
	File      string `json:"file,omitempty" jsonschema:"only where this file was read or changed: its path or the last part of that"`
	Since     string `json:"since,omitempty" jsonschema:"only from then on, as 2026-11-20T08:00:00Z, 2026-11-20, 1d, yesterday or last week"`
	Until     string `json:"until,omitempty" jsonschema:"only before then"`
	Limit     int    `json:"limit,omitempty" jsonschema:"how many at most, 1 to 50; 10 if left out"`
	MaxTokens int    `json:"max_tokens,omitempty" jsonschema:"how long the answer may be; 4000 if left out"`
}

func (t *tools) search(ctx context.Context, in *searchInput, p *page) error {
	p.bound(in.MaxTokens)
	limit, err := count("limit", in.Limit, 10, 50)
	if err != nil {
		return err
	}
	asked := &search.Request{Query: in.Query, Limit: limit}
	if in.Sessions {
		asked.Granularity = search.Sessions
	}
	if in.Session != "" {
		asked.Filter.And = append(asked.Filter.And, search.Filter{Field: "session", Op: "eq", Value: in.Session})
	}
	if name := project.Clean(in.Project); name != "" {
		asked.Filter.And = append(asked.Filter.And, search.Filter{Field: "project", Op: "eq", Value: name})
	}
	if in.File != "" {
		asked.Filter.And = append(asked.Filter.And, search.Filter{Field: "file", Op: "eq", Value: in.File})
	}
	for _, running := range t.recaller.Running(ctx, t.account, t.key) {
		if running != in.Session {
			asked.Filter.And = append(asked.Filter.And, search.Filter{Not: &search.Filter{Field: "session", Op: "eq", Value: running}})
		}
	}
	since, until, err := period(in.Since, in.Until)
	if err != nil {
		return err
	}
	asked.Filter.And = append(asked.Filter.And, search.Within(since, until)...)
	answer, err := t.searcher.Search(ctx, t.account, asked)
	if e := codec.AsError(err, ""); err != nil && e.Code == search.CodeSyntax { // agents ask in sentences, which may contain any character
		asked.Syntax = search.Plain
		answer, err = t.searcher.Search(ctx, t.account, asked)
	}
	if err != nil {
		return err
	}
	answer.Data = slices.DeleteFunc(answer.Data, func(h search.Hit) bool {
		return h.Session != in.Session && t.recaller.Runs(t.account, h.Session, t.key, h.Time)
	})
	if err := t.showHits(p, answer.Data); err != nil {
		return err
	}
	if len(answer.Data) == 0 {
		t.hint(ctx, p, []search.Filter{{Field: "project", Op: "eq", Value: project.Clean(in.Project)}})
	}
	for _, note := range answer.Degraded {
		p.line("note: %s", note)
	}
	if answer.HasMore {
		p.line("There are more hits.")
	}
	return nil
}

// hint says which of the values that were asked for the account does not have, and names some that it has.
func (t *tools) hint(ctx context.Context, p *page, asked []search.Filter) {
	asked = slices.DeleteFunc(asked, func(f search.Filter) bool { return f.Value == "" })
	if len(asked) == 0 {
		return
	}
	all, err := t.searcher.Search(ctx, t.account, &search.Request{Newest: true, Limit: 1, Facets: true})
	if err != nil {
		return
	}
	for _, hint := range search.Hints(&search.Request{Filter: search.Filter{And: asked}}, all.Facets) {
		p.line("%s", inLine(hint))
	}
}

// showHits writes what was found: of exchanges the round that they are in, once, with the passage that was found where
// question and answer do not show it.
func (t *tools) showHits(p *page, hits []search.Hit) error {
	shown := make(map[string]bool)
	for i := range hits {
		h := &hits[i]
		if h.Exchange == "" {
			p.line("%s %s%s", h.Session, minute(h.Time), behind(" ", h.Model))
			if h.Title != "" {
				p.quote("title", h.Title, briefly)
			}
			p.quote(cmp.Or(h.Role, "says"), h.Snippet, 0)
			continue
		}
		turn, err := t.turn(h.Exchange)
		if isMissing(err) {
			continue // erased since
		}
		if err != nil {
			return err
		}
		round, err := search.ReadRound(t.archive, t.account, &turn)
		if err != nil && !isMissing(err) {
			return err
		}
		id := cmp.Or(round.Opened, h.Exchange)
		if shown[id] {
			continue
		}
		shown[id] = true
		x := &turn.Exchange
		p.line("%s %s%s%s%s", id, minute(h.Time), behind(" ", h.Model), behind(" in ", h.Session), behind(" of ", x.Project))
		asked, said := lexical.Cut(round.Asked, briefly), lexical.Cut(round.Said, briefly)
		if asked != "" {
			p.quote("asked", round.Asked, briefly)
		}
		if said != "" {
			label := "answered"
			if round.Answered == "" {
				label = "said, without an answer yet"
			} else if round.Answered != id {
				label += " in " + round.Answered
			}
			p.quote(label, round.Said, briefly)
		}
		if found := h.Snippet; found != "" && !holds(asked, found) && !holds(said, found) {
			p.quote(cmp.Or(h.Role, "says")+behind(" in ", other(h.Exchange, strings.TrimPrefix(h.Exchange, id))), found, 0)
		}
	}
	return nil
}

// holds reports whether a text has a passage, but for white space.
func holds(text, passage string) bool {
	return strings.Contains(strings.Join(strings.Fields(text), " "), strings.Join(strings.Fields(passage), " "))
}

// briefly is how many bytes of a text an overview shows.
const briefly = 400

type timelineInput struct {
	Exchange  string `json:"exchange_id,omitempty" jsonschema:"the exchange to read around"`
	Session   string `json:"session_id,omitempty" jsonschema:"the conversation whose end to read, where no exchange is named"`
	Before    *int   `json:"before,omitempty" jsonschema:"how many exchanges before it, or before the end, 0 to 50; default 5"`
	After     *int   `json:"after,omitempty" jsonschema:"how many exchanges after it, 0 to 50; default 5"`
	MaxTokens int    `json:"max_tokens,omitempty" jsonschema:"how long the answer may be; 4000 if left out"`
}

func (t *tools) timeline(_ context.Context, in *timelineInput, p *page) error {
	p.bound(in.MaxTokens)
	before, err := around("before", in.Before)
	if err != nil {
		return err
	}
	after, err := around("after", in.After)
	if err != nil {
		return err
	}
	session, turns := in.Session, []record.TimelineEntry(nil)
	if in.Exchange != "" {
		middle, err := t.turn(in.Exchange)
		if err != nil {
			return err
		}
		session, turns = middle.Exchange.Session, append(turns, middle)
	}
	if session == "" {
		return codec.Invalid("exchange_id", "name an exchange_id or a session_id")
	}
	if before > 0 {
		earlier, err := t.archive.Timeline(t.account, session, record.TimelineQuery{After: in.Exchange, Limit: before, Descending: true})
		if err != nil {
			return err
		}
		slices.Reverse(earlier.Data)
		turns = append(earlier.Data, turns...)
	}
	if after > 0 && in.Exchange != "" {
		later, err := t.archive.Timeline(t.account, session, record.TimelineQuery{After: in.Exchange, Limit: after})
		if err != nil {
			return err
		}
		turns = append(turns, later.Data...)
	}
	p.line("%s", session)
	for i := range turns {
		showTurn(p, &turns[i], "", briefly)
	}
	return nil
}

type getInput struct {
	IDs       []string `json:"ids" jsonschema:"exchange ids, at most 20"`
	MaxTokens int      `json:"max_tokens,omitempty" jsonschema:"how long the answer may be, at most 20000; 4000 if left out"`
}

const mostIDs = 20

func (t *tools) get(_ context.Context, in *getInput, p *page) error {
	p.bound(in.MaxTokens)
	if len(in.IDs) == 0 || len(in.IDs) > mostIDs {
		return codec.Invalid("ids", "ids are 1 to %d ids of exchanges, as memory_search gives them", mostIDs)
	}
	for _, id := range in.IDs {
		turn, err := t.turn(id)
		if err != nil {
			return err
		}
		showTurn(p, &turn, turn.Exchange.Session, 0)
	}
	return nil
}

// turn reads what one exchange added.
func (t *tools) turn(id string) (record.TimelineEntry, error) {
	return t.archive.Turn(t.account, id)
}

type listSessionsInput struct {
	Since     string `json:"since,omitempty" jsonschema:"only conversations from then on, as 2026-11-20T08:00:00Z or 2026-11-20"`
	Until     string `json:"until,omitempty" jsonschema:"only conversations before then"`
	Model     string `json:"model,omitempty" jsonschema:"only conversations that asked for this model"`
	Project   string `json:"project,omitempty" jsonschema:"only conversations of this project: its directory or the last part of that"`
	Directory string `json:"directory,omitempty" jsonschema:"the same as project"`
	Client    string `json:"client,omitempty" jsonschema:"only conversations of this program, such as claude-code"`
	Tag       string `json:"tag,omitempty" jsonschema:"only conversations with this tag"`
	After     string `json:"after,omitempty" jsonschema:"the last id of the page before"`
	Limit     int    `json:"limit,omitempty" jsonschema:"how many at most, 1 to 100; 20 if left out"`
}

func (t *tools) listSessions(ctx context.Context, in *listSessionsInput, p *page) error {
	p.bound(maxTokens)
	limit, err := count("limit", in.Limit, 20, 100)
	if err != nil {
		return err
	}
	q := record.SessionQuery{
		After: in.After, Limit: limit, Model: in.Model, Tag: in.Tag, Client: in.Client, Project: project.Clean(cmp.Or(in.Project, in.Directory)),
	}
	if q.Client != "" {
		q.Client = record.ClientName(q.Client)
	}
	if q.Since, q.Until, err = period(in.Since, in.Until); err != nil {
		return err
	}
	sessions, err := t.archive.Sessions(t.account, q)
	if err != nil {
		return err
	}
	for i := range sessions.Data {
		showSession(p, &sessions.Data[i])
		if b, err := search.ReadBeginning(t.archive, t.account, sessions.Data[i].ID); err == nil && b.Asked != "" {
			p.quote("began"+behind(" in ", b.Client)+behind(" at ", b.Project)+" with", b.Asked, briefly)
			if b.Answered != "" {
				p.quote("answered last", b.Answered, briefly)
			}
		}
	}
	if len(sessions.Data) == 0 && q.After == "" {
		t.hint(ctx, p, []search.Filter{{Field: "project", Op: "eq", Value: q.Project}, {Field: "client", Op: "eq", Value: q.Client}, {Field: "model", Op: "eq", Value: q.Model}})
	}
	if n := len(sessions.Data); n > 0 && sessions.HasMore {
		p.line("There are more; the next page is after %s.", sessions.Data[n-1].ID)
	}
	return nil
}

type getSessionInput struct {
	Session string `json:"session_id"`
}

func (t *tools) getSession(_ context.Context, in *getSessionInput, p *page) error {
	p.bound(0)
	session, err := record.FollowMerges(in.Session, func(id string) (*record.Session, error) { return t.archive.Session(t.account, id) })
	if err != nil {
		return err
	}
	summary, err := t.archive.SessionSummary(t.account, session.ID)
	if err != nil {
		return err
	}
	showSession(p, session)
	if len(session.Tags) > 0 {
		p.quote("tags", strings.Join(session.Tags, ", "), briefly)
	}
	if session.Parent != "" {
		p.line("It is a subagent's, of %s.", session.Parent)
	}
	if summary != nil {
		p.quote("summary by "+summary.By, summary.Text, 0)
	}
	return nil
}

type statsInput struct{}

func (t *tools) stats(ctx context.Context, _ *statsInput, p *page) error {
	p.bound(0)
	usage, err := t.archive.Usage(ctx, t.account)
	if err != nil {
		return err
	}
	p.line("%d exchanges in %d sessions; %d bytes stored", usage.Exchanges, usage.Sessions, usage.Stored())
	status, err := t.searcher.Status(ctx, t.account)
	if err != nil {
		return err
	}
	if status != nil {
		p.line("%d of them can be searched, and the index is %d changes behind", status.Documents, status.Lag)
	}
	return nil
}

// count returns the agent's number, or the default.
func count(name string, n, usual, most int) (int, error) {
	if n < 0 || n > most {
		return 0, codec.Invalid(name, "%s is a number from 1 to %d", name, most)
	}
	return cmp.Or(n, usual), nil
}

const (
	usuallyAround = 5
	mostAround    = 50
)

func around(name string, n *int) (int, error) {
	if n == nil {
		return usuallyAround, nil
	}
	if *n < 0 || *n > mostAround {
		return 0, codec.Invalid(name, "%s is a number from 0 to %d", name, mostAround)
	}
	return *n, nil
}

// period is the pair of time bounds that every tool accepts.
func period(from, to string) (since, until time.Time, err error) {
	if since, err = moment("since", from); err != nil {
		return since, until, err
	}
	until, err = moment("until", to)
	return since, until, err
}

// moment reads a time as people write it, dates in UTC; "" is none.
func moment(name, text string) (at time.Time, err error) {
	if text == "" {
		return at, nil
	}
	if at, err = search.ParseTime(text, time.Now().UTC()); err != nil {
		return at, codec.Invalid(name, "%s: %s", name, err)
	}
	return at, nil
}
