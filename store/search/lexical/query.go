package lexical

import (
	"slices"
	"strings"

	"github.com/RoaringBitmap/roaring/v2"
)

// Query is what is looked for.
type Query struct {
	root  group
	exact bool // hits have to be looked at by Matches

	question bool // it is longer than what people type to look something up, see isLookup
}

// maxQueryTerms bounds the terms that are scored; a question has a dozen.
const maxQueryTerms = 128

type occur uint8

const (
	should occur = iota
	must
	mustNot
)

// group is a list of clauses in parentheses: what must be there, what must not, and what counts in favour. Without
// anything that must be there, something of what counts in favour must be.
type group []clause

// clause is a leaf or a group.
type clause struct {
	occur   occur
	implied bool // must for no other reason than that it names a field; OR takes that back
	leaf    *leaf
	group   group
}

// leaf is a word, a phrase, a prefix, or one of these in a field.
type leaf struct {
	text   string   // as it is written
	in     string   // where: "" anywhere, [InUser], [InAssistant], [InOutput], [InName], or the name of a facet
	words  []string // terms of the text; all of them
	names  []string // or one of these
	phrase bool     // words in this order, side by side
	prefix string   // the beginning of a term
	value  string   // of a facet
}

// Fields of a query that are no facets.
const (
	InUser      = "user"
	InAssistant = "assistant"
	InOutput    = "output" // what tools were given and gave back
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

// Plain looks for the words and names of a text, whatever signs stand in it.
func Plain(text string) *Query {
	return &Query{root: group{{leaf: newLeaf("", text, isLookup(text))}}, question: !isLookup(text)}
}

// isLookup tells a query that is typed to look something up from a question, by its length. In a look-up any word may
// be the name of a thing: people type symbols without their capitals. In a question that would give common words a
// second vote.
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

// namesOf gives the names of things in a query.
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

// Empty reports whether there is nothing to look for: no word, or only such as stand in every text.
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

// Text is what the query looks for, without operators, facets and what must not be there.
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

// Exact reports whether hits have to be shown to [Query.Matches]: the index knows neither order nor speaker.
func (q *Query) Exact() bool { return q.exact }

// RenameFacets puts other values in place of those that the query's facets have.
func (q *Query) RenameFacets(rename func(name, value string) string) { q.root.renameFacets(rename) }

func (g group) renameFacets(rename func(name, value string) string) {
	for i := range g {
		l := g[i].leaf
		switch {
		case l == nil:
			g[i].group.renameFacets(rename)
		case l.isFacet() && l.prefix == "":
			l.value = rename(l.in, l.value)
		}
	}
}

// leaves visits what counts in favour of a document.
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

// scored gives the terms that documents are scored by, how often the query names each, and its prefixes.
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
		count(fieldName, l.names)
		if l.prefix != "" {
			prefixes = append(prefixes, l)
		}
	})
	return order, times, prefixes
}

// score adds up what the query's terms are worth. A term that occurs several times counts several times.
func (q *Query) score(s *Searcher, into *scores) error {
	order, times, prefixes := q.scored()
	for _, t := range order {
		if err := s.score(into, t.field, t.text, times[t]); err != nil {
			return err
		}
	}
	for _, l := range prefixes {
		for _, field := range l.prefixFields() {
			keys, err := s.expand(field, l.prefix)
			if err != nil {
				return err
			}
			if err := s.scoreTogether(into, field, keys); err != nil {
				return err
			}
		}
	}
	return nil
}

// wordFields are the fields in which words of the leaf can stand.
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

// matching gives the documents that satisfy the query; nil when those that score do.
func (q *Query) matching(s *Searcher) (*Set, error) {
	if !q.root.selective() {
		return nil, nil
	}
	return q.root.matching(s)
}

// selective reports whether not everything that scores matches.
func (g group) selective() bool {
	return slices.ContainsFunc(g, func(c clause) bool {
		if c.occur != should || c.leaf == nil {
			return true
		}
		return c.leaf.phrase || c.leaf.in != ""
	})
}

func (g group) matching(s *Searcher) (*Set, error) {
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

// certain reports whether every document of the clause's set satisfies it. For a phrase and for words of one speaker the
// set holds more, and [Query.Matches] has to decide.
func (c *clause) certain() bool {
	if c.leaf != nil {
		return !c.leaf.phrase && c.leaf.in != InUser && c.leaf.in != InAssistant
	}
	return !slices.ContainsFunc(c.group, func(c clause) bool { return !c.certain() || c.occur == mustNot })
}

func (c *clause) matching(s *Searcher) (*Set, error) {
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

// indexedIn gives the words of the leaf that the index of a field has. What a phrase leaves out, [Query.Matches] looks for.
func (l *leaf) indexedIn(f field) []string {
	if f != fieldOutput || !l.phrase {
		return l.words
	}
	return slices.DeleteFunc(slices.Clone(l.words), saysNothingInOutput)
}

// holding gives the documents that hold all of the terms; none for no terms.
func (s *Searcher) holding(f field, terms []string) (*Set, error) {
	all := roaring.New()
	for i, term := range terms {
		set, err := s.termSet(f, term)
		if err != nil {
			return nil, err
		}
		if i == 0 {
			all = set
		} else {
			all.And(set)
		}
	}
	return all, nil
}

func (s *Searcher) holdingPrefix(l *leaf) (*Set, error) {
	found := roaring.New()
	for _, field := range l.prefixFields() {
		keys, err := s.expand(field, l.prefix)
		if err != nil {
			return nil, err
		}
		for _, key := range keys {
			set, err := s.termSet(field, key)
			if err != nil {
				return nil, err
			}
			found.Or(set)
		}
	}
	return found, nil
}

// Words is how many different words the query has that do not stand in every text.
func (q *Query) Words() int {
	seen := make(map[string]bool)
	q.root.leaves(func(l *leaf) {
		for _, word := range l.words {
			seen[word] = true
		}
	})
	return len(seen)
}

// Names is how many identifiers the query has, in all their forms.
func (q *Query) Names() int {
	seen := make(map[string]bool)
	q.root.leaves(func(l *leaf) {
		if l.isFacet() {
			return
		}
		for _, name := range terms(identifiers([]byte(l.text))) {
			seen[name] = true
		}
	})
	return len(seen)
}
