package command

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/mnemeproxy/mneme/server/admin"
	"github.com/mnemeproxy/mneme/store/search"
)

// Search is "mneme search".
type Search struct {
	Place   `embed:""`
	Owner   `embed:""`
	Query   []string `arg:"" help:"Words; \"a phrase\", +must, -not, AND, OR, NOT, (groups), begin*, user:, assistant:, name:, tool:, model:, client:."`
	Mode    string   `default:"auto" enum:"auto,lexical" help:"What to go by: ${enum}."`
	Plain   bool     `help:"Take the query as it is: no sign in it means anything."`
	Session string   `placeholder:"ID" help:"Only turns of this session."`
	Model   string   `placeholder:"PREFIX" help:"Only turns whose model begins so."`
	Tag     string   `placeholder:"TAG" help:"Only turns of sessions with this tag."`
	Since   string   `placeholder:"TIME" help:"Only turns from then on: a date, or a time as 2026-11-20T08:00:00Z."`
	Until   string   `placeholder:"TIME" help:"Only turns before then."`
	Limit   int      `default:"10" placeholder:"N" help:"At most so many, up to 100."`
	Group   bool     `help:"Only the best turn of each session."`
	JSON    bool     `help:"Write the answer as JSON, with the parts of each score."`
}

// Run searches and shows the hits, the best first.
func (c *Search) Run(ctx context.Context, s *Surroundings) error {
	asked, err := c.request()
	if err != nil {
		return err
	}
	return c.manageIndex(ctx, func(client *admin.Client) error {
		account, err := c.one(ctx, client)
		if err != nil {
			return err
		}
		answer, err := client.Search(ctx, account, asked)
		if err != nil {
			return err
		}
		if c.JSON {
			return writeJSON(s.Out, answer)
		}
		return showHits(s, &answer)
	})
}

func (c *Search) request() (*search.Request, error) {
	r := &search.Request{Query: strings.Join(c.Query, " "), Mode: search.Mode(c.Mode), Limit: c.Limit, Explain: c.JSON}
	if c.Plain {
		r.Syntax = search.Plain
	}
	if c.Group {
		r.GroupBy = "session"
	}
	for _, f := range []search.Filter{
		{Field: "session", Op: "eq", Value: c.Session}, {Field: "model", Op: "prefix", Value: c.Model}, {Field: "tag", Op: "eq", Value: c.Tag},
	} {
		if f.Value != "" {
			r.Filter.And = append(r.Filter.And, f)
		}
	}
	for _, bound := range []struct{ flag, op, value string }{{"--since", "gte", c.Since}, {"--until", "lt", c.Until}} {
		if bound.value == "" {
			continue
		}
		at, err := readTime(bound.value)
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", bound.flag, bound.value, err)
		}
		r.Filter.And = append(r.Filter.And, search.Filter{Field: "time", Op: bound.op, Value: at.Format(time.RFC3339Nano)})
	}
	return r, nil
}

// readTime reads a time, or a date as its beginning here.
func readTime(text string) (time.Time, error) {
	if at, err := time.ParseInLocation(time.DateOnly, text, time.Local); err == nil {
		return at, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, fmt.Errorf("write a date as 2026-11-20, or a time as 2026-11-20T08:00:00Z")
	}
	return at, nil
}

func showHits(s *Surroundings, answer *search.Answer) error {
	for _, note := range answer.Degraded {
		fmt.Fprintln(s.Err, "note:", note)
	}
	if len(answer.Data) == 0 {
		fmt.Fprintln(s.Err, "nothing found")
		return nil
	}
	bold := isTerminal(s.Out)
	now := time.Now()
	rows := make([][]string, len(answer.Data))
	for i := range answer.Data {
		h := &answer.Data[i]
		rows[i] = []string{h.Exchange, ago(now, h.Time), orDash(h.Model), fmt.Sprintf("%.2f", h.Score), h.Title}
	}
	if !bold {
		for i := range rows {
			rows[i] = append(rows[i], marked(&answer.Data[i], "[", "]"))
		}
		return table(s.Out, []string{"EXCHANGE", "STARTED", "MODEL", "SCORE", "ASKED", "FOUND"}, rows)
	}
	for i := range rows {
		fmt.Fprintf(s.Out, "%s  %s  %s  %s\n  %s\n  %s: %s\n\n", rows[i][0], rows[i][1], printable(rows[i][2]), rows[i][3],
			printable(rows[i][4]), answer.Data[i].Role, marked(&answer.Data[i], "\x1b[1m", "\x1b[0m"))
	}
	if answer.HasMore {
		fmt.Fprintln(s.Err, "there are more; see them with --limit")
	}
	return nil
}

// marked is a hit's snippet, safe to print, with signs around what was looked for.
func marked(h *search.Hit, from, to string) string {
	var b strings.Builder
	snippet, end := []rune(h.Snippet), 0
	for _, place := range h.Highlights {
		if place[0] < end || place[1] > len(snippet) {
			continue
		}
		b.WriteString(printable(string(snippet[end:place[0]])) + from + printable(string(snippet[place[0]:place[1]])) + to)
		end = place[1]
	}
	return b.String() + printable(string(snippet[end:]))
}
