package recall

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/search"
	"github.com/mnemeproxy/mneme/store/search/lexical"
)

// noteModel is the model of exchanges that are notes.
const noteModel = "note"

// quotable is a round that may be quoted, with what is quoted of it once that is chosen.
type quotable struct {
	search.Round
	hit    *search.Hit
	found  record.TimelineEntry
	note   bool
	chosen bool
	answer string // the passage of the answer to quote
	asked  string // of the person's words
	output string // of a tool, where only that has the names of the question
}

// read reads the round of a hit; nil if there is none.
func (a *question) read(h *search.Hit) (*quotable, error) {
	turn, err := a.turn(h.Exchange)
	if err != nil || turn.Turn == nil {
		return nil, nil //nolint:nilerr // it was erased in the meantime, or is damaged
	}
	r := &quotable{hit: h, found: turn, note: turn.Exchange.ModelAsked == noteModel}
	if r.Round, err = search.ReadRound(a.engine, a.query.Account, &turn); err != nil {
		return nil, err
	}
	return r, nil
}

// choose chooses what to quote, and reports whether there is anything. It takes longer than the rest of a decision about a
// round, so it is done only for those that are quoted, or that are judged by their quotation.
func (r *quotable) choose(w *lexical.Weights) bool {
	if !r.chosen {
		r.chosen = true
		r.answer = answerTo(w, r.Asked, r.Said)
		r.asked = window(w, r.Asked)
		if r.hit.Role == "tool" && w.Names > 0 && w.Held(r.answer, r.asked).Names == 0 {
			r.output = lexical.Cut(r.hit.Snippet, quoteBytes/2)
		}
	}
	return r.answer != "" || r.asked != "" || r.output != ""
}

// id is the exchange that a record is known by.
func (r *quotable) id() string { return cmp.Or(r.Opened, r.found.Exchange.ID) }

// held returns how much of the question stands in what is quoted.
func (r *quotable) held(w *lexical.Weights) lexical.Covered {
	return w.Held(r.asked, r.answer, r.output)
}

// says is the rule of silence: whether what would be quoted holds enough of the question. A question that contains names is
// about them: a record that holds all of them needs fewer of the other words, and one that holds none never counts. For
// other questions the person's words have to hold enough, or one passage of the answer: a long answer holds most common words
// by chance. One word alone never decides.
func (a *question) says(r *quotable, w *lexical.Weights) bool {
	if w.Names > 0 {
		r.choose(w)
		c := r.held(w)
		return c.Names == w.Names && c.Share >= nameCoverage/2 || c.Names > 0 && c.Share >= nameCoverage
	}
	least := a.opts.Coverage
	if w.Absent > 0 {
		least = max(least, absentCoverage) // what it is about may be what no record has
	}
	if c := w.Held(lexical.Cut(r.Asked, maxSaid)); c.Share >= least && c.Words >= leastHeld {
		return true
	}
	c, _, _ := w.Passage(lexical.Cut(r.Said, maxSaid), passageBytes)
	return c.Share >= a.opts.Passage && c.Words >= leastHeld
}

// entry makes the entry of a record.
func (r *quotable) entry(w *lexical.Weights, asked bool) entry {
	e := entry{Hit: hitOf(r.found, r.held(w).Share), shown: asked}
	e.Exchange = r.id()
	if r.Answered != e.Exchange {
		e.Answered = r.Answered
	}
	label := "answered"
	switch {
	case r.note:
		e.add("note", r.Asked)
		return e
	case r.Answered == "":
		label = "said, unfinished"
	}
	if r.answer != "" {
		e.add(label, r.answer)
	}
	if r.output != "" {
		e.add("output", r.output)
	}
	if len(e.lines) == 0 || w.New(r.asked, lexical.Known(r.answer)) {
		e.add("asked", r.asked)
	}
	return e
}

// Sizes of quotations, in bytes.
const (
	quoteBytes   = 400 // of an answer, and of a person's words
	passageBytes = 600 // 100 words
	maxSaid      = 32 << 10
)

// answerTo returns what an answer says that the question does not: the sentences that hold most of what is asked, name
// something, begin the answer, or continue such a one, in their order.
func answerTo(w *lexical.Weights, asked, said string) string {
	said = strings.TrimSpace(said)
	if len(said) <= quoteBytes {
		return said
	}
	list, known := search.Sentences(lexical.Cut(said, maxSaid)), lexical.Known(asked)
	worth, begun := make([]float64, len(list)), false
	for i, s := range list {
		if !w.New(s, known) {
			continue
		}
		worth[i] = w.Held(s).Share + namesWorth*float64(min(len(newNames(s, asked)), mostNames))
		if !begun {
			begun = true
			worth[i] += beginningWorth
		}
	}
	if !begun {
		return lexical.Cut(said, quoteBytes)
	}
	for i := len(list) - 1; i > 0; i-- { // what follows a good sentence explains it
		worth[i] += worth[i-1] * followingWorth
	}
	return extract(w, list, worth)
}

// What makes a sentence worth quoting, beside the share of the question that it holds.
const (
	namesWorth     = 0.2 // each name that the question does not have
	mostNames      = 2
	beginningWorth = 0.1
	followingWorth = 0.3 // of the worth of the sentence before
)

// newNames returns the names of a text that the question does not have.
func newNames(text, asked string) []string {
	return slices.DeleteFunc(lexical.Names(text, 2*mostNames), func(name string) bool { return strings.Contains(asked, name) })
}

// extract joins the sentences that are worth most, in their order, as far as there is room.
func extract(w *lexical.Weights, list []string, worth []float64) string {
	order := make([]int, len(list))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(worth[b], worth[a]) })
	if len(list[order[0]]) > quoteBytes {
		return window(w, list[order[0]])
	}
	room := quoteBytes
	var taken []int
	for _, i := range order {
		if worth[i] <= 0 {
			break
		}
		if size := len(list[i]) + len(gap); size <= room {
			room -= size
			taken = append(taken, i)
		}
	}
	slices.Sort(taken)
	var b strings.Builder
	for n, i := range taken {
		if n > 0 && taken[n-1] != i-1 {
			b.WriteString(gap)
		}
		b.WriteString(list[i])
	}
	return strings.TrimSpace(b.String())
}

const gap = "… "

// window returns a text, or of a long one the part that holds most of the question.
func window(w *lexical.Weights, text string) string {
	text = lexical.Cut(strings.TrimSpace(text), maxSaid)
	if len(text) <= quoteBytes {
		return text
	}
	_, start, end := w.Passage(text, quoteBytes)
	start = max(min(start-(quoteBytes-(end-start))/4, len(text)-quoteBytes), 0)
	if start > 0 {
		if i := strings.IndexAny(text[start:], " \n"); i >= 0 && i < quoteBytes/4 {
			start += i + 1
		}
		for start < len(text) && !utf8.RuneStart(text[start]) {
			start++
		}
	}
	return lexical.Cut(text[start:], quoteBytes)
}
