package recall

import (
	"cmp"
	"math"
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
	size   int    // of what is quoted of the answer, in bytes; 0: the usual
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
func (a *question) choose(r *quotable, w *lexical.Weights) bool {
	if !r.chosen {
		r.chosen = true
		r.answer = a.others.answerTo(w, r.Asked, r.Said, cmp.Or(r.size, quoteBytes))
		a.others.quote(r.answer)
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
// other questions a passage of the person's words has to hold enough, or one of the answer: a long text holds most common words
// by chance, and two words stand together by chance more often than four. One word alone never decides.
func (a *question) says(r *quotable, w *lexical.Weights) bool {
	if w.Names > 0 {
		a.choose(r, w)
		c := r.held(w)
		return c.Names == w.Names && c.Share >= allNames || c.Names > 0 && c.Share >= someNames
	}
	if r.note || r.Answered != "" { // the question alone, in the same words, tells nothing
		if c, _, _ := w.Passage(lexical.Cut(r.Asked, maxSaid), passageBytes); saidByPerson.met(c, w) {
			return true
		}
	}
	c, _, _ := w.Passage(lexical.Cut(r.Said, maxSaid), passageBytes)
	return saidInAnswer.met(c, w)
}

// bar is the least share of a question that a passage has to hold, by how many of the question's words it holds.
type bar [mostBarred + 1]float64

const (
	mostBarred = 4   // as many words or more
	never      = 2.0 // no passage holds that much
)

// Few words together may be chance, so they have to be nearly all of the question. An answer has many more passages than a question.
var (
	saidByPerson = bar{never, never, 0.8, 0.65, 0.55}
	saidInAnswer = bar{never, never, never, 0.9, 0.7}
)

// met reports whether a passage holds enough. If no record has one of the question's words, one less counts: the question may be about it.
func (b *bar) met(c lexical.Covered, w *lexical.Weights) bool {
	return c.Share >= b[max(min(c.Words-min(w.Absent, 1), mostBarred), 0)]
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
		e.add("note", lexical.Cut(r.Asked, max(r.size, entryBytes)))
		return e
	case r.Answered == "":
		label = "said, unfinished"
	}
	if r.answer != "" {
		e.add(label, r.answer)
		e.also(r.SaidIn)
	}
	if r.output != "" {
		e.add("output", r.output)
		e.also(r.found.Exchange.ID)
	}
	if len(e.lines) == 0 || w.New(r.asked, lexical.Known(r.answer)) {
		e.add("asked", r.asked)
	}
	return e
}

// Bounds of the commands that are quoted of a round: the answer often says only that something was done.
const (
	ranBytes     = 200 // of a command
	mostRan      = 2   // commands where it is asked for; otherwise one
	mostRanSteps = 64  // turns read
)

// addRan adds to an entry the commands of its round that hold most of the question, or else that did something. Commands that only look are
// quoted where they hold a name of the question.
func (a *question) addRan(e *entry, r *quotable, w *lexical.Weights) {
	if r.note || r.Steps == 0 || r.Opened == "" {
		return
	}
	list, err := a.commands(&r.found.Exchange, r.Opened, r.Answered)
	if err != nil {
		return // the round was erased in the meantime
	}
	for i := range list {
		c := &list[i]
		held := w.Held(c.text)
		c.worth = held.Share
		if !looks.MatchString(search.SameCommand(c.text)) {
			c.worth += ranWorth
		} else if held.Names == 0 {
			c.worth = 0
		}
		if c.failed {
			c.worth /= 2
		}
	}
	list = slices.DeleteFunc(list, func(c command) bool { return c.worth == 0 })
	slices.Reverse(list) // of equal ones the last
	slices.SortStableFunc(list, func(a, b command) int { return cmp.Compare(b.worth, a.worth) })
	most := 1
	if a.query.Asked {
		most = mostRan
	}
	for _, c := range list[:min(len(list), most)] {
		label := "ran"
		if c.failed {
			label = "ran, failed"
		}
		e.add(label, lexical.Cut(c.text, ranBytes))
		e.also(c.exchange)
	}
}

// ranWorth is what a command that does more than look is worth beside its share of the question.
const ranWorth = 0.1

// commands reads the commands that a round ran, each once.
func (a *question) commands(x *record.ExchangeInfo, opened, answered string) (list []command, err error) {
	first, err := a.turn(opened)
	if err != nil {
		return nil, err
	}
	page, err := a.engine.Timeline(a.query.Account, x.Session, record.TimelineQuery{After: opened, Limit: mostRanSteps})
	if err != nil {
		return nil, err
	}
	for _, entry := range append([]record.TimelineEntry{first}, page.Data...) {
		if entry.Turn == nil {
			continue
		}
		if entry.Exchange.ID != opened && search.Opens(entry.Turn) {
			break
		}
		list = ranIn(list, entry.Exchange.ID, entry.Turn)
		if entry.Exchange.ID == answered {
			break
		}
	}
	return list, nil
}

// Sizes of quotations, in bytes.
const (
	quoteBytes   = 400  // of an answer, and of a person's words
	mostQuoted   = 1200 // of an answer where it is asked for and few come close
	passageBytes = 250  // 40 words
	maxSaid      = 32 << 10
)

// answerTo returns what an answer says that the question does not: the sentences that hold most of what is asked, name
// something, begin the answer, or continue such a one, in their order.
func (o *others) answerTo(w *lexical.Weights, asked, said string, size int) string {
	said = strings.TrimSpace(said)
	if len(said) <= size {
		return said
	}
	list, known := search.Sentences(lexical.Cut(said, maxSaid)), lexical.Known(asked)
	worth, begun, repeated := make([]float64, len(list)), false, make(map[string]bool)
	for i, s := range list {
		switch {
		case o.has(s) || repeated[strings.TrimSpace(s)]:
			worth[i] = math.Inf(-1)
			continue
		case !w.New(s, known):
			continue
		}
		repeated[strings.TrimSpace(s)] = true
		words := lexical.Known(s)
		worth[i] = w.Held(s).Share + namesWorth*float64(min(len(newNames(s, asked)), mostNames)) + aboutWorth*shareOf(known, words) + rareWorth*o.rarity(words)
		if len(search.Decisions(s, false)) > 0 {
			worth[i] += decisionWorth
		}
		if !begun {
			begun = true
			worth[i] += beginningWorth
		}
	}
	if !begun {
		return lexical.Cut(said, size)
	}
	for i := len(list) - 1; i > 0; i-- { // what follows a good sentence explains it
		worth[i] += max(worth[i-1], 0) * followingWorth
	}
	return extract(w, list, worth, size)
}

// What makes a sentence worth quoting, beside the share of the question that it holds.
const (
	namesWorth     = 0.2 // each name that the question does not have
	mostNames      = 2
	beginningWorth = 0.1
	aboutWorth     = 0.5 // times the share of the words of the round's question that it repeats
	decisionWorth  = 0.1 // it decides something
	rareWorth      = 0.3 // times how rare its words are in what else is quoted
	leastWorth     = 0.2 // as a share of the best
	followingWorth = 0.3 // of the worth of the sentence before
)

// shareOf returns the share of known words that are among others.
func shareOf(known, words map[string]bool) float64 {
	if len(known) == 0 {
		return 0
	}
	held := 0
	for word := range words {
		if known[word] {
			held++
		}
	}
	return float64(held) / float64(len(known))
}

// newNames returns the names of a text that the question does not have.
func newNames(text, asked string) []string {
	return slices.DeleteFunc(lexical.Names(text, 2*mostNames), func(name string) bool { return strings.Contains(asked, name) })
}

// extract joins the sentences that are worth most, in their order, as far as there is room.
func extract(w *lexical.Weights, list []string, worth []float64, room int) string {
	order := make([]int, len(list))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(worth[b], worth[a]) })
	if len(list[order[0]]) > room {
		return window(w, list[order[0]])
	}
	var taken []int
	for _, i := range order {
		if worth[i] <= leastWorth*worth[order[0]] {
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
