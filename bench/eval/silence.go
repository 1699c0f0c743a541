package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/mnemeproxy/mneme/server/recall"
)

// A recall is judged by when it speaks: where the answer is in the memory, where it was taken out, and where the memory is
// about something else.

// silenceGate bounds how often a recall speaks.
type silenceGate struct {
	set, kind string
	least     float64 // of the questions whose answer is there
	without   float64 // most of those whose answer was taken out
	foreign   float64 // most of those that are about something else
	right     float64 // least share of those it speaks to in which it quotes the answer
}

var silenceGates = []silenceGate{
	{"memorybank-en", "", 19.0 / 99, 4.0 / 99, 3.0 / 99, 0},
	{"agent-turns", "identifier", 0.99, 0.01, 0.01, 0.98},
	{"agent-turns", "absent", 0, 0, 0.01, 0},
	{"tool-output", "error", 0.85, 1, 1, 0.99},
	{"tool-output", "new error", 0, 0, 0, 0},
}

// speaking counts what became of questions.
type speaking struct{ questions, present, right, without, foreign, foreigners int }

// judgeSilence asks a recall the questions of a set, and those of others.
func judgeSilence(ctx context.Context, out io.Writer, h *harness, s *set, documents map[string]string, others []question) (below bool, err error) {
	m := recall.New(recall.Over(h.store), recall.Options{Deadline: time.Minute})
	exchanges := make(map[string][]string) // by the set's session
	session := make(map[string]string)     // by document
	for i := range s.documents {
		session[s.documents[i].ID] = s.documents[i].session()
	}
	for exchange, document := range documents {
		exchanges[session[document]] = append(exchanges[session[document]], exchange)
	}
	byKind := make(map[string]*speaking)
	ask := func(account, text string, given []string) recall.Recalled {
		return m.Recall(ctx, &recall.Query{Account: account, Prompt: text, Wide: true, Given: given})
	}
	for _, q := range slices.Concat(s.questions, s.repeated) {
		c := byKind[kindOf(s, &q)]
		if c == nil {
			c = new(speaking)
			byKind[kindOf(s, &q)] = c
		}
		c.questions++
		if r := ask(accountOf(q.Account), q.Text, nil); len(r.Hits) > 0 {
			c.present++
			for _, hit := range r.Hits {
				if s.grades[q.ID][documents[hit.Exchange]] > 0 {
					c.right++
					break
				}
			}
		}
		var evidence []string
		for document, grade := range s.grades[q.ID] {
			if grade > 0 {
				evidence = append(evidence, exchanges[session[document]]...)
			}
		}
		if len(ask(accountOf(q.Account), q.Text, evidence).Hits) > 0 {
			c.without++
		}
	}
	account := accountOf(s.documents[0].Account)
	foreign := 0
	for i := range others {
		if len(ask(account, others[i].Text, nil).Hits) > 0 {
			foreign++
		}
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "recall\tquestions\tspeaks\tquotes the answer\twithout it\tforeign\t")
	for _, c := range byKind {
		c.foreign, c.foreigners = foreign, len(others)
	}
	for i := range s.unheard {
		q := &s.unheard[i]
		c := byKind[q.Kind]
		if c == nil {
			c = new(speaking)
			byKind[q.Kind] = c
		}
		if c.foreigners++; len(ask(accountOf(q.Account), q.Text, nil).Hits) > 0 {
			c.foreign++
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(byKind)) {
		c := byKind[kind]
		fmt.Fprintf(table, "%s\t%d\t%.3f\t%.3f\t%.3f\t%.3f\t\n", kind, cmp.Or(c.questions, c.foreigners), share(c.present, c.questions), share(c.right, c.present), share(c.without, c.questions), share(c.foreign, c.foreigners))
		below = c.check(out, s.name, kind) || below
	}
	return below, table.Flush()
}

func kindOf(s *set, q *question) string {
	if s.name == "agent-turns" || s.name == "tool-output" {
		return q.Kind
	}
	return ""
}

func share(n, of int) float64 { return float64(n) / float64(max(of, 1)) }

func (c *speaking) check(out io.Writer, set, kind string) (below bool) {
	for _, g := range silenceGates {
		if g.set != set || g.kind != kind {
			continue
		}
		if share(c.present, c.questions) < g.least || share(c.without, c.questions) > g.without || share(c.foreign, c.foreigners) > g.foreign || share(c.right, c.present) < g.right {
			below = true
			fmt.Fprintf(out, "BELOW THE GATE: recall on %s %s, wanted are at least %.3f and %.3f, at most %.3f and %.3f\n", set, kind, g.least, g.right, g.without, g.foreign)
		}
	}
	return below
}
