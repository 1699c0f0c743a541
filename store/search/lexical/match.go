package lexical

import (
	"slices"
	"strings"
)

// Said is the text of a document by speaker, for word-by-word matching.
type Said struct{ User, Assistant, Output string }

// Matches checks what the index cannot decide about a document it found, or about several that are one whole: the order of
// phrases and the speaker. It assumes what the index is certain of.
func (q *Query) Matches(documents ...Said) bool {
	var t texts
	for i := range documents {
		d := &documents[i]
		t.user, t.assistant, t.output = append(t.user, between), append(t.assistant, between), append(t.output, between)
		t.user = append(t.user, terms(prose([]byte(d.User)))...)
		t.assistant = append(t.assistant, terms(prose([]byte(d.Assistant)))...)
		t.output = append(t.output, terms(prose([]byte(d.Output)))...)
	}
	return q.root.matches(&t)
}

// between is no term, and keeps the words of two documents apart.
const between = ""

type texts struct{ user, assistant, output []string }

func (g group) matches(t *texts) bool {
	required, optional, any := false, false, false
	for _, c := range g {
		if c.empty() {
			continue
		}
		here := c.matches(t)
		switch c.occur {
		case mustNot:
			if here && !c.certain() {
				return false
			}
		case must:
			required = true
			if !here {
				return false
			}
		default:
			any = true
			optional = optional || here
		}
	}
	return required || !any || optional
}

func (c *clause) matches(t *texts) bool {
	if c.leaf == nil {
		return c.group.matches(t)
	}
	l := c.leaf
	switch {
	case l.in == InUser:
		return l.standsIn(t.user)
	case l.in == InAssistant:
		return l.standsIn(t.assistant)
	case l.in == InOutput:
		return l.standsIn(t.output)
	case l.phrase:
		return l.standsIn(t.user) || l.standsIn(t.assistant) || l.standsIn(t.output)
	}
	return true
}

func (l *leaf) standsIn(text []string) bool {
	switch {
	case l.prefix != "":
		return slices.ContainsFunc(text, func(term string) bool { return strings.HasPrefix(term, l.prefix) })
	case l.phrase:
		return sideBySide(text, l.words)
	}
	return !slices.ContainsFunc(l.words, func(word string) bool { return !slices.Contains(text, word) })
}

// sideBySide reports whether the words are adjacent in the text. Stop words, which neither list has, may be between
// them.
func sideBySide(text, words []string) bool {
	for i := 0; i+len(words) <= len(text); i++ {
		if slices.Equal(text[i:i+len(words)], words) {
			return true
		}
	}
	return false
}

// Highlights returns the places in text, as ascending byte ranges, of words and names of the query; of synonyms if there are none.
func (q *Query) Highlights(text string) [][2]int {
	words, names := make(map[string]bool), make(map[string]bool)
	var prefixes []string
	q.root.leaves(func(l *leaf) {
		for _, w := range l.words {
			words[w] = true
		}
		for _, n := range l.names {
			names[n] = true
		}
		if l.prefix != "" && !l.isFacet() {
			prefixes = append(prefixes, l.prefix)
		}
	})
	var places [][2]int
	note := func(tokens []token, wanted map[string]bool) {
		for _, t := range tokens {
			if wanted[t.term] || slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(t.term, p) }) {
				places = append(places, [2]int{t.start, t.end})
			}
		}
	}
	written := prose([]byte(text))
	note(written, words)
	note(identifiers([]byte(text)), names)
	if len(places) == 0 {
		note(written, q.usedTerms())
	}
	return joined(places)
}

// Likely returns likely places of the query's words in text, for a fraction of the cost of [Query.Highlights]: it
// compares only prefixes of words, of as many as are scored, and analyzes the text only if it finds none.
func (q *Query) Likely(text string) (places [][2]int) {
	var beginnings []string
	q.root.leaves(func(l *leaf) {
		for _, term := range slices.Concat(l.words, l.names, []string{l.prefix}) {
			if term != "" && !l.isFacet() && len(beginnings) < maxQueryTerms {
				beginnings = append(beginnings, term[:max(min(len(term), 3), len(term)-1)]) // the end of a stem may differ from its word
			}
		}
	})
	inside := false
	for i := range len(text) {
		letter := identifierByte(text[i])
		if letter && !inside && slices.ContainsFunc(beginnings, func(b string) bool {
			return i+len(b) <= len(text) && strings.EqualFold(text[i:i+len(b)], b)
		}) {
			places = append(places, [2]int{i, i + 1})
		}
		inside = letter && text[i] != '/' && text[i] != '.' && text[i] != '_'
	}
	if len(places) == 0 {
		return q.Highlights(text)
	}
	return places
}

// joined sorts ranges and joins overlapping ones.
func joined(places [][2]int) [][2]int {
	slices.SortFunc(places, func(a, b [2]int) int { return a[0] - b[0] })
	out := places[:0]
	for _, p := range places {
		if n := len(out); n > 0 && p[0] <= out[n-1][1] {
			out[n-1][1] = max(out[n-1][1], p[1])
			continue
		}
		out = append(out, p)
	}
	return out
}
