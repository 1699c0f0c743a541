package lexical

import (
	"slices"
	"strings"

	"github.com/RoaringBitmap/roaring/v2"
)

// Query is a parsed query.
type Query struct {
	root  group
	exact bool // hits need to be checked by Matches

	question bool // longer than a lookup, see isLookup

	others []otherWords // see [Query.otherWords]; nil: not looked up yet
	used   []UsedSynonym
}

// maxQueryTerms bounds the terms that are scored, in all fields; a question has two dozen.
const maxQueryTerms = 192

type occur uint8

const (
	should occur = iota
	must
	mustNot
)

// group is a list of clauses in parentheses: required, excluded, and optional ones. Without a required clause, one of
// the optional ones must match.
type group []clause

// clause is a leaf or a group.
type clause struct {
	occur   occur
	implied bool // required only because it names a field; OR undoes that
	leaf    *leaf
	group   group
}

// leaf is a word, a phrase, a prefix, or one of these in a field.
type leaf struct {
	text   string   // as written
	in     string   // "" anywhere, [InUser], [InAssistant], [InOutput], [InName], or the name of a facet
	words  []string // terms of the text; all of them
	names  []string // or one of these
	phrase bool     // the words must be adjacent, in this order
	prefix string   // the prefix of a term
	value  string   // of a facet
}

// Fields of a query other than facets.
const (
	InUser      = "user"
	InAssistant = "assistant"
	InOutput    = "output" // tools' inputs and outputs
	InName      = "name"
)

func (l *leaf) isFacet() bool {
	switch l.in {
	case "", InUser, InAssistant, InOutput, InName:
		return false
	}
	return true
}

func (l *leaf) empty() bool {
	return len(l.words)+len(l.names) == 0 && l.prefix == "" && l.value == ""
}

// Plain makes a query from the words and names of a text, ignoring operators.
func Plain(text string) *Query {
	return &Query{root: group{{leaf: newLeaf("", text, isLookup(text))}}, question: !isLookup(text)}
}

// isLookup reports whether a query is short enough to be a lookup, not a question. In a lookup any word may be a name:
// people type symbols without their capitals. In a question that would count common words twice.
func isLookup(text string) bool { return len(strings.Fields(text)) <= 3 }

func newLeaf(in, text string, lookup bool) *leaf {
	l := &leaf{in: in, text: text}
	if in != InName {
		l.words = terms(prose([]byte(text)))
	}
	if in == "" || in == InName {
		l.names = namesOf(text, lookup || in == InName)
	}
	return l
}

// namesOf returns the names in a query.
func namesOf(text string, lookup bool) []string {
	names := terms(identifiers([]byte(text)))
	if !lookup {
		return names
	}
	for _, word := range strings.Fields(text) {
		if name := fold([]byte(word)); !slices.Contains(names, name) && !stops[name] && len(name) <= maxTerm {
			names = append(names, name)
		}
	}
	return names
}

func terms(tokens []token) []string {
	list := make([]string, len(tokens))
	for i := range tokens {
		list[i] = tokens[i].term
	}
	return list
}

// Empty reports whether there is nothing to search for: no words, or only stop words.
func (q *Query) Empty() bool { return q.root.empty() }

func (g group) empty() bool {
	return !slices.ContainsFunc(g, func(c clause) bool { return !c.empty() })
}

func (c *clause) empty() bool {
	if c.leaf != nil {
		return c.leaf.empty()
	}
	return c.group.empty()
}

// Text returns the words of the query, without operators, facets and exclusions.
func (q *Query) Text() string {
	var b strings.Builder
	q.root.leaves(func(l *leaf) {
		if l.text != "" && !l.isFacet() {
			if b.Len() > 0 {
				b.WriteByte(' ')
			}
			b.WriteString(l.text)
		}
	})
	return b.String()
}

// Exact reports whether hits must be checked by [Query.Matches]: the index knows neither order nor speaker.
func (q *Query) Exact() bool { return q.exact }

// Wants reports whether the query asks for a value of a facet.
func (q *Query) Wants(name, value string) (wanted bool) {
	q.root.leaves(func(l *leaf) { wanted = wanted || l.in == name && strings.EqualFold(l.value, value) })
	return wanted
}

// RenameFacets replaces the names and values of the query's facets.
func (q *Query) RenameFacets(rename func(name, value string) (string, string)) {
	q.root.renameFacets(rename)
}

func (g group) renameFacets(rename func(name, value string) (string, string)) {
	for i := range g {
		l := g[i].leaf
		switch {
		case l == nil:
			g[i].group.renameFacets(rename)
		case l.isFacet() && l.prefix == "":
			l.in, l.value = rename(l.in, l.value)
		}
	}
}

// leaves visits the leaves that are scored.
func (g group) leaves(visit func(*leaf)) {
	for _, c := range g {
		switch {
		case c.occur == mustNot:
		case c.leaf != nil:
			visit(c.leaf)
		default:
			c.group.leaves(visit)
		}
	}
}

// fieldTerm is a term of a field.
type fieldTerm struct {
	field field
	text  string
}

// scored returns the terms that documents are scored by, how often each is in the query, and its prefixes.
func (q *Query) scored() (order []fieldTerm, times map[fieldTerm]int, prefixes []*leaf) {
	times = make(map[fieldTerm]int)
	count := func(field field, terms []string) {
		for _, term := range terms {
			t := fieldTerm{field, term}
			if times[t] == 0 {
				if len(order) == maxQueryTerms {
					continue
				}
				order = append(order, t)
			}
			times[t]++
		}
	}
	q.root.leaves(func(l *leaf) {
		if l.isFacet() {
			return
		}
		for _, field := range l.wordFields() {
			count(field, l.words)
		}
		if l.in == "" || l.in == InUser {
			count(fieldOwn, l.words)
		}
		count(fieldName, l.names)
		if l.prefix != "" {
			prefixes = append(prefixes, l)
		}
	})
	return order, times, prefixes
}

// score adds the scores of the query's terms. A repeated term counts repeatedly.
func (q *Query) score(s *Searcher, into *scores) error {
	order, times, prefixes := q.scored()
	held := q.heldWords(s)
	for _, t := range order {
		if err := s.score(into, t.field, t.text, times[t], held); err != nil {
			return err
		}
	}
	for _, l := range prefixes {
		for _, field := range l.prefixFields() {
			keys, err := s.expand(field, l.prefix)
			if err != nil {
				return err
			}
			if err := s.scoreTogether(into, field, l.prefix, keys); err != nil {
				return err
			}
		}
	}
	return q.scoreSynonyms(s, held, into)
}

// wordFields returns the fields that may contain words of the leaf.
func (l *leaf) wordFields() []field {
	switch l.in {
	case InName:
		return nil
	case InUser, InAssistant:
		return []field{fieldText}
	case InOutput:
		return []field{fieldOutput}
	}
	return []field{fieldText, fieldOutput}
}

func (l *leaf) prefixFields() []field {
	fields := l.wordFields()
	if l.in == "" || l.in == InName {
		fields = append(fields, fieldName)
	}
	return fields
}

// Demands reports whether the query requires or excludes something, or names a field: then hits must match it, and need no score.
func (q *Query) Demands() bool { return q.root.selective() }

// selective reports whether some scored documents may not match.
func (g group) selective() bool {
	return slices.ContainsFunc(g, func(c clause) bool {
		if c.occur != should || c.leaf == nil {
			return true
		}
		return c.leaf.phrase || c.leaf.in != ""
	})
}

func (g group) matching(s *Sets) (*Set, error) {
	var required, optional *Set
	excluded := roaring.New()
	for _, c := range g {
		if c.empty() {
			continue
		}
		set, err := c.matching(s)
		if err != nil {
			return nil, err
		}
		switch {
		case c.occur == mustNot:
			if c.certain() {
				excluded.Or(set)
			}
		case c.occur == should:
			if optional == nil {
				optional = roaring.New()
			}
			optional.Or(set)
		case required == nil:
			required = set
		default:
			required.And(set)
		}
	}
	if required == nil {
		required = optional
	}
	if required == nil {
		var err error
		if required, err = s.All(); err != nil {
			return nil, err
		}
	}
	required.AndNot(excluded)
	return required, nil
}

// certain reports whether every document of the clause's set satisfies it. For a phrase and for words of one speaker
// the set is larger, and [Query.Matches] has to decide.
func (c *clause) certain() bool {
	if c.leaf != nil {
		return !c.leaf.phrase && c.leaf.in != InUser && c.leaf.in != InAssistant
	}
	return !slices.ContainsFunc(c.group, func(c clause) bool { return !c.certain() || c.occur == mustNot })
}

func (c *clause) matching(s *Sets) (*Set, error) {
	if c.leaf == nil {
		return c.group.matching(s)
	}
	l := c.leaf
	switch {
	case l.isFacet() && l.prefix != "":
		return s.FacetPrefix(l.in, l.prefix)
	case l.isFacet():
		return s.Facet(l.in, l.value)
	case l.prefix != "":
		return s.holdingPrefix(l)
	}
	set := roaring.New()
	for _, field := range l.wordFields() {
		held, err := s.holding(field, l.indexedIn(field))
		if err != nil {
			return nil, err
		}
		set.Or(held)
	}
	for _, name := range l.names {
		named, err := s.holding(fieldName, []string{name})
		if err != nil {
			return nil, err
		}
		set.Or(named)
	}
	return set, nil
}

// indexedIn returns the words of the leaf that are indexed in a field. [Query.Matches] checks the rest of a phrase.
func (l *leaf) indexedIn(f field) []string {
	if f != fieldOutput || !l.phrase {
		return l.words
	}
	return slices.DeleteFunc(slices.Clone(l.words), saysNothingInOutput)
}

// Words returns how many distinct words other than stop words the query has.
func (q *Query) Words() int {
	seen := make(map[string]bool)
	q.root.leaves(func(l *leaf) {
		for _, word := range l.words {
			seen[word] = true
		}
	})
	return len(seen)
}

// Names returns how many names the query has, in all their forms.
func (q *Query) Names() int {
	seen := make(map[string]bool)
	q.root.leaves(func(l *leaf) {
		if l.isFacet() {
			return
		}
		for _, name := range terms(identifiers([]byte(l.text))) {
			if isName(name) {
				seen[name] = true
			}
		}
	})
	return len(seen)
}
