package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/mnemeproxy/mneme/server/recall"
	"github.com/mnemeproxy/mneme/store/search/localhash"
)

// A recall is judged by the text that it delivers: whether that says what is asked for, and how much more of it a larger budget
// gives.

// Gates of delivery.
const (
	leastDelivered = 0.98 // of questions whose answer is on record: the value stands in the text
	mostUnasked    = 0.01 // of questions without a record, and of those of other memories: something is said
)

var deliveryBudgets = []int{500, 1000, 2000} // tokens

// evaluateDelivery judges the texts of a recall over a set of rounds.
func evaluateDelivery(ctx context.Context, out io.Writer, s *set, _ string) (below bool, err error) {
	hasher, err := localhash.New(localhash.DefaultDimensions)
	if err != nil {
		return false, err
	}
	h, _, err := replay(ctx, s, localhash.Embedder{Hasher: hasher})
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, h.close()) }()
	m := recall.New(recall.Over(h.store), recall.Options{Deadline: time.Minute})
	var took []time.Duration
	deliver := func(q *question, asked bool, tokens int) string {
		began := time.Now()
		r := m.Recall(ctx, &recall.Query{Account: accountOf(q.Account), Prompt: q.Text, Wide: true, Asked: asked, Tokens: tokens})
		took = append(took, time.Since(began))
		return r.Text
	}
	spoke, delivered := 0, 0
	for i := range s.questions {
		text := deliver(&s.questions[i], false, 0)
		if text != "" {
			spoke++
		}
		delivered += held(text, s.questions[i].Values)
	}
	said := func(questions []question) (n int) {
		for i := range questions {
			q := questions[i]
			q.Account = roundsAccount
			if deliver(&q, false, 0) != "" {
				n++
			}
		}
		return n
	}
	others := foreignTo(s)
	absent, foreign := said(s.unheard), said(others)
	slices.Sort(took)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(out, "\n%s: %d rounds, %d questions\n", s.name, len(s.documents), len(s.questions))
	fmt.Fprintln(table, "delivered\tspeaks\tsays the value\tabsent\tforeign\tp50\tp99\t")
	fmt.Fprintf(table, "unasked\t%.3f\t%.3f\t%.3f\t%.3f\t%s\t%s\t\n", share(spoke, len(s.questions)), share(delivered, len(s.questions)),
		share(absent, len(s.unheard)), share(foreign, len(others)), quantile(took, 0.5), quantile(took, 0.99))
	below = share(delivered, len(s.questions)) < leastDelivered || share(absent, len(s.unheard)) > mostUnasked || share(foreign, len(others)) > mostUnasked
	last := 0
	for _, tokens := range deliveryBudgets {
		found, of := 0, 0
		took = nil
		for i := range s.repeated {
			found += held(deliver(&s.repeated[i], true, tokens), s.repeated[i].Values)
			of += len(s.repeated[i].Values)
		}
		slices.Sort(took)
		fmt.Fprintf(table, "asked, %d tokens\t\t%.3f\t\t\t%s\t%s\t\n", tokens, share(found, of), quantile(took, 0.5), quantile(took, 0.99))
		below = below || found < last || found == last && found < of
		last = found
	}
	if below {
		fmt.Fprintf(out, "BELOW THE GATE: recall on %s has to say the value in %.2f, to be silent but for %.2f, and to say more with each budget\n", s.name, leastDelivered, mostUnasked)
	}
	return below, table.Flush()
}

// held counts the values that stand in a text.
func held(text string, values []string) (n int) {
	for _, value := range values {
		if strings.Contains(text, value) {
			n++
		}
	}
	return n
}
