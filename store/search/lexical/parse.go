package lexical

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// SyntaxError says where a query is malformed.
type SyntaxError struct {
	At      int // byte of the query
	Message string
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("%s at byte %d", e.Message, e.At) }

const (
	maxDepth    = 16 // nesting of parentheses
	minPrefix   = 2  // characters
	maxClauses  = 256
	fieldRunes  = "abcdefghijklmnopqrstuvwxyz_"
	quotationIn = `"`
)

// Parse reads a query:
//
//	lock timeout         either word; more of them is better
//	"lock timeout"       side by side
//	+lock -deadlock      the first required, the second excluded; AND, OR and NOT do the same
//	lock (retry OR wait) parentheses group
//	lock*                words and names with that prefix
//	user:lock            said by the user; also assistant:, output: for tools, and name: for identifiers only
//	tool:bash            a facet, see facets
//
// A colon is an operator only after the name of a facet or field, and a dash only before a word.
func Parse(text string, facets []string) (*Query, error) {
	p := parser{text: text, lookup: isLookup(text), fields: append([]string{InUser, InAssistant, InOutput, InName}, facets...)}
	root, err := p.group(0)
	if err != nil {
		return nil, err
	}
	return &Query{root: root, exact: p.exact, question: !p.lookup}, nil
}

type parser struct {
	text    string
	at      int
	fields  []string
	clauses int
	exact   bool
	lookup  bool
}

func (p *parser) fail(at int, format string, args ...any) error {
	return &SyntaxError{At: at, Message: fmt.Sprintf(format, args...)}
}

func (p *parser) space() {
	for p.at < len(p.text) {
		r, size := utf8.DecodeRuneInString(p.text[p.at:])
		if !unicode.IsSpace(r) {
			return
		}
		p.at += size
	}
}

// group reads clauses up to the end or the closing parenthesis.
func (p *parser) group(depth int) (g group, err error) {
	opened := p.at - 1
	and, or := false, false // the word before was AND, OR
	for {
		p.space()
		switch {
		case p.at == len(p.text) && depth > 0:
			return nil, p.fail(opened, "this parenthesis is not closed")
		case p.at == len(p.text):
			return g, p.dangling(and)
		case p.text[p.at] == ')' && depth == 0:
			return nil, p.fail(p.at, "nothing is open that this parenthesis could close")
		case p.text[p.at] == ')':
			p.at++
			return g, p.dangling(and)
		}
		if word := p.operator("AND", "OR"); word != "" {
			if len(g) == 0 || and {
				return nil, p.fail(p.at-len(word), "%s needs a word before it", word)
			}
			before := &g[len(g)-1]
			if and, or = word == "AND", word == "OR"; and && before.occur == should {
				before.occur = must
			}
			if or && before.implied {
				before.occur = should
			}
			continue
		}
		c, err := p.clause(depth)
		if err != nil {
			return nil, err
		}
		if and && c.occur == should {
			c.occur = must
		}
		if or && c.implied {
			c.occur = should
		}
		and, or = false, false
		if p.clauses++; p.clauses > maxClauses {
			return nil, p.fail(p.at, "the query has more than %d parts", maxClauses)
		}
		g = append(g, c)
	}
}

func (p *parser) dangling(and bool) error {
	if and {
		return p.fail(p.at, "AND needs a word after it")
	}
	return nil
}

// operator consumes one of the words if it is here as a separate word.
func (p *parser) operator(words ...string) string {
	for _, word := range words {
		rest, found := strings.CutPrefix(p.text[p.at:], word)
		if !found {
			continue
		}
		if r, _ := utf8.DecodeRuneInString(rest); rest == "" || unicode.IsSpace(r) || r == '(' {
			p.at += len(word)
			return word
		}
	}
	return ""
}

func (p *parser) clause(depth int) (c clause, err error) {
	start := p.at
	if p.operator("NOT") != "" {
		c.occur = mustNot
		p.space()
	} else if sign := p.text[p.at]; (sign == '+' || sign == '-') && p.startsWord(p.at+1) {
		c.occur = must
		if sign == '-' {
			c.occur = mustNot
		}
		p.at++
	}
	switch {
	case p.at == len(p.text):
		return c, p.fail(start, "NOT needs a word after it")
	case p.text[p.at] == '(':
		if depth == maxDepth {
			return c, p.fail(p.at, "parentheses are nested deeper than %d", maxDepth)
		}
		p.at++
		c.group, err = p.group(depth + 1)
		return c, err
	}
	c.leaf, err = p.leaf()
	if err == nil && c.leaf.in != "" && c.occur == should {
		c.occur, c.implied = must, true // a named field is meant as required
	}
	return c, err
}

// startsWord reports whether a sign before this place is an operator on a word, not part of a flag or a dash.
func (p *parser) startsWord(at int) bool {
	r, _ := utf8.DecodeRuneInString(p.text[at:])
	return at < len(p.text) && (r == '"' || r == '(' || unicode.IsLetter(r) || unicode.IsDigit(r))
}

func (p *parser) leaf() (*leaf, error) {
	in := p.field()
	if p.at < len(p.text) && strings.HasPrefix(p.text[p.at:], quotationIn) {
		return p.phrase(in)
	}
	start := p.at
	word := p.word()
	if word == "" {
		return nil, p.fail(start, "%s: needs a word after it", in)
	}
	stem, prefixed := strings.CutSuffix(word, "*")
	l := newLeaf(in, stem, p.lookup)
	p.exact = p.exact || in == InUser || in == InAssistant
	if l.isFacet() {
		l = &leaf{in: in, value: stem}
		if prefixed {
			l.prefix = stem
		}
		return l, nil
	}
	if prefixed && stem != "" {
		if utf8.RuneCountInString(stem) < minPrefix {
			return nil, p.fail(start, "at least %d characters have to stand before *", minPrefix)
		}
		return &leaf{in: in, text: stem, prefix: fold([]byte(stem))}, nil
	}
	return l, nil
}

// field consumes the name of a field and its colon.
func (p *parser) field() string {
	rest := p.text[p.at:]
	name := rest[:len(rest)-len(strings.TrimLeft(rest, fieldRunes))]
	after := rest[len(name):]
	if !strings.HasPrefix(after, ":") || strings.HasPrefix(after, "::") || !slices.Contains(p.fields, name) {
		return ""
	}
	p.at += len(name) + 1
	return name
}

func (p *parser) phrase(in string) (*leaf, error) {
	start := p.at
	p.at++
	end := strings.Index(p.text[p.at:], quotationIn)
	if end < 0 {
		return nil, p.fail(start, "this quotation mark is not closed")
	}
	text := p.text[p.at : p.at+end]
	p.at += end + 1
	l := newLeaf(in, text, p.lookup)
	if l.isFacet() {
		return &leaf{in: in, value: text}, nil
	}
	if in == "" {
		l.names = nil
	}
	l.phrase = len(l.words) > 1
	p.exact = p.exact || l.phrase || in == InUser || in == InAssistant
	return l, nil
}

// word consumes the text up to the next blank, or up to the parenthesis that closes the group.
func (p *parser) word() string {
	start, open := p.at, 0
	for p.at < len(p.text) {
		r, size := utf8.DecodeRuneInString(p.text[p.at:])
		switch {
		case unicode.IsSpace(r), r == ')' && open == 0 && p.at > start:
			return p.text[start:p.at]
		case r == '(':
			open++
		case r == ')':
			open--
		}
		p.at += size
	}
	return p.text[start:p.at]
}
