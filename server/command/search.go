package command

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mnemeproxy/mneme/codec/project"
	"github.com/mnemeproxy/mneme/server/admin"
	"github.com/mnemeproxy/mneme/store/search"
	"github.com/mnemeproxy/mneme/store/search/lexical"
)

// Search is "mneme search".
type Search struct {
	Target      `embed:""`
	AccountFlag `embed:""`
	Period      `embed:""`
	Query       []string `arg:"" optional:"" help:"Words; \"a phrase\", +must, -not, AND, OR, NOT, (groups), begin*, user:, assistant:, output:, name:, tool:, model:, client:. Without any, the newest turns are listed."`
	Mode        string   `default:"auto" enum:"auto,lexical,vector,hybrid" placeholder:"MODE" help:"How to rank: lexical (words), vector (similarity), hybrid (both), or auto (default: ${default})."`
	Plain       bool     `help:"Take the query literally, without operators."`
	Session     string   `placeholder:"ID" help:"Only turns of this session."`
	Model       string   `placeholder:"PREFIX" help:"Only turns of models with this prefix."`
	Provider    string   `placeholder:"NAME" help:"Only turns of this provider."`
	Client      string   `placeholder:"NAME" help:"Only turns of this client program."`
	Project     string   `placeholder:"DIR" help:"Only turns of this project: an agent's working directory, or the value of X-Service-Project."`
	Kind        string   `placeholder:"KIND" help:"Only turns of this kind: said (words of a person or a model), tool (calls and results), error (failures)."`
	Tool        string   `placeholder:"NAME" help:"Only turns in which this tool was called."`
	Outcome     string   `placeholder:"NAME" help:"Only turns with this outcome: complete, upstream_error, client_closed, …"`
	Tag         string   `placeholder:"TAG" help:"Only turns of sessions with this tag."`
	Recency     float64  `placeholder:"SHARE" help:"Share of recency in the score, from 0 to 1."`
	Limit       int      `default:"10" placeholder:"N" help:"Show at most N, up to 100."`
	Sessions    bool     `help:"Search for whole sessions instead of turns."`
	Facets      bool     `help:"List the values of the facets: tool:, model:, client: and the others."`
	Group       bool     `help:"Show only the best turn of each session."`
	Explain     bool     `help:"Show how each score is made up, and a summary of each turn."`
	JSON        bool     `help:"Write the answer as JSON, with the parts of each score."`
}

// Run searches and shows the hits, best first.
func (c *Search) Run(ctx context.Context, s *Env) error {
	asked := c.request()
	return c.manageIndex(ctx, false, func(client *admin.Client) error {
		account, err := c.one(ctx, client)
		if err != nil {
			return err
		}
		answer, err := client.Memory().Search(ctx, account, asked)
		if err != nil {
			return err
		}
		switch {
		case c.JSON:
			return writeJSON(s.Out, answer)
		case c.Facets:
			return showFacets(s.Out, answer.Facets)
		}
		return showHits(s, &answer)
	})
}

func (c *Search) request() *search.Request {
	r := &search.Request{Query: strings.Join(c.Query, " "), Newest: len(c.Query) == 0, Mode: search.Mode(c.Mode), Limit: c.Limit, Explain: c.JSON || c.Explain, Facets: c.Facets}
	r.Ranking.RecencyWeight = c.Recency
	if c.Plain {
		r.Syntax = search.Plain
	}
	if c.Sessions {
		r.Granularity = search.Sessions
	}
	if c.Group {
		r.GroupBy = "session"
	}
	for _, f := range []search.Filter{
		{Field: "session", Op: "eq", Value: c.Session},
		{Field: "model", Op: "prefix", Value: c.Model},
		{Field: "provider", Op: "eq", Value: c.Provider},
		{Field: "client", Op: "eq", Value: c.Client},
		{Field: "project", Op: "eq", Value: project.Clean(c.Project)},
		{Field: "kind", Op: "eq", Value: c.Kind},
		{Field: "tool", Op: "eq", Value: c.Tool},
		{Field: "outcome", Op: "eq", Value: c.Outcome},
		{Field: "tag", Op: "eq", Value: c.Tag},
	} {
		if f.Value != "" {
			r.Filter.And = append(r.Filter.And, f)
		}
	}
	r.Filter.And = append(r.Filter.And, search.Within(c.Since.Time, c.Until.Time)...)
	return r
}

func showFacets(out io.Writer, facets map[string][]lexical.FacetValue) error {
	var rows [][]string
	for _, name := range slices.Sorted(maps.Keys(facets)) {
		for _, v := range facets[name] {
			rows = append(rows, []string{name + ":" + printable(v.Value), fmt.Sprint(v.Count)})
		}
	}
	return table(out, []string{"FACET", "TURNS"}, rows)
}

func showHits(s *Env, answer *search.Answer) error {
	for _, note := range answer.Degraded {
		fmt.Fprintln(s.Err, "note:", note)
	}
	if len(answer.Data) == 0 {
		fmt.Fprintln(s.Err, "nothing found")
		for _, hint := range answer.Hints {
			fmt.Fprintln(s.Err, printable(hint))
		}
		return nil
	}
	now := time.Now()
	if isTerminal(s.Out) {
		for i := range answer.Data {
			showHit(s.Out, now, &answer.Data[i])
		}
		if answer.HasMore {
			fmt.Fprintln(s.Err, "there are more; see them with --limit")
		}
		return nil
	}
	head := []string{"EXCHANGE", "STARTED", "MODEL", "SCORE", "ASKED", "FOUND", "SESSION"}
	if answer.Data[0].Exchange == "" {
		head[0] = "SESSION"
		head = head[:len(head)-1]
	}
	explained := answer.Data[0].Scores != nil
	if explained {
		head = append(head, "PARTS", "SUMMARY")
	}
	rows := make([][]string, len(answer.Data))
	for i := range answer.Data {
		h := &answer.Data[i]
		rows[i] = []string{cmp.Or(h.Exchange, h.Session), ago(now, h.Time), orDash(h.Model), fmt.Sprintf("%.2f", h.Score), h.Title, marked(h, "[", "]")}
		if h.Exchange != "" {
			rows[i] = append(rows[i], h.Session)
		}
		if explained {
			rows[i] = append(rows[i], parts(h.Scores), gist(h.Summary))
		}
	}
	return table(s.Out, head, rows)
}

// showHit writes a hit for a person at a terminal.
func showHit(out io.Writer, now time.Time, h *search.Hit) {
	fmt.Fprintf(out, "%s  %s  %s  %.2f", cmp.Or(h.Exchange, h.Session), ago(now, h.Time), printable(orDash(h.Model)), h.Score)
	if h.Match != "" {
		fmt.Fprintf(out, "  by %s", h.Match)
	}
	if h.Scores != nil {
		fmt.Fprintf(out, "  (%s)", parts(h.Scores))
	}
	fmt.Fprintf(out, "\n  %s\n  %s: %s\n", printable(h.Title), h.Role, marked(h, "\x1b[1m", "\x1b[0m"))
	if h.Exchange != "" {
		fmt.Fprintf(out, "  in %s\n", h.Session)
	}
	if text := gist(h.Summary); text != "" {
		fmt.Fprintf(out, "  %s\n", printable(text))
	}
	fmt.Fprintln(out)
}

// parts lists the components of a score.
func parts(s *search.Scores) string {
	text := fmt.Sprintf("words %.2f, bm25 %.2f", s.Lexical, s.BM25)
	if s.Context != 0 {
		text += fmt.Sprintf(", context %.2f", s.Context)
	}
	if s.Vector != nil && s.Cosine != nil {
		text += fmt.Sprintf(", likeness %.2f, cosine %.2f", *s.Vector, *s.Cosine)
	}
	if s.Recency != nil {
		text += fmt.Sprintf(", recency %.2f", *s.Recency)
	}
	return text
}

// gist returns a summary on one line.
func gist(s *search.Summary) string {
	if s == nil {
		return ""
	}
	var list []string
	for _, part := range []struct{ name, text string }{
		{"done", s.Done}, {"tools", strings.Join(s.Tools, " ")}, {"names", strings.Join(s.Names, " ")}, {"errors", strings.Join(s.Errors, " | ")},
	} {
		if part.text != "" {
			list = append(list, part.name+": "+part.text)
		}
	}
	return strings.Join(list, "; ")
}

// marked returns a hit's snippet, safe to print, with markers around the matches.
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
