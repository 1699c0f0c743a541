package redact

import (
	"fmt"
	"regexp"
	"slices"
)

// Pattern is an operator's own pattern to mask.
type Pattern struct {
	Name string // the name in records
	// Regex is in Go's syntax (RE2), matched against the text as it is in JSON, where a quote is \" and a line end \n.
	// If it has a group, only the match of the first group is masked.
	Regex string
}

// Bounds on an operator's patterns: each one reads everything new in a request.
const (
	maxPatterns = 32
	maxRegex    = 1 << 10 // bytes
)

var patternName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`)

type pattern struct {
	name  string
	regex *regexp.Regexp
}

func compile(patterns []Pattern) ([]pattern, error) {
	if len(patterns) > maxPatterns {
		return nil, fmt.Errorf("there are %d patterns; at most %d can be looked for", len(patterns), maxPatterns)
	}
	compiled := make([]pattern, len(patterns))
	for i, p := range patterns {
		if err := p.Check(); err != nil {
			return nil, fmt.Errorf("pattern %d: %w", i+1, err)
		}
		if slices.ContainsFunc(compiled[:i], func(have pattern) bool { return have.name == p.Name }) {
			return nil, fmt.Errorf("pattern %d: the name %q is taken by another one", i+1, p.Name)
		}
		compiled[i] = pattern{p.Name, regexp.MustCompile(p.Regex)}
	}
	return compiled, nil
}

// Check returns the fault of a pattern.
func (p *Pattern) Check() error {
	if !patternName.MatchString(p.Name) {
		return fmt.Errorf("%q is not a name; use 1 to 64 lower-case letters, digits, - and _", p.Name)
	}
	if len(p.Regex) > maxRegex {
		return fmt.Errorf("the regex has %d bytes; at most %d are taken", len(p.Regex), maxRegex)
	}
	regex, err := regexp.Compile(p.Regex)
	if err != nil {
		return fmt.Errorf("the regex cannot be read: %w", err)
	}
	if regex.MatchString("") {
		return fmt.Errorf("the regex matches the empty text, and so everywhere; make it ask for something")
	}
	return nil
}

// find appends the pattern's matches inside strings: the text between strings is JSON syntax, numbers and names.
func (p *pattern) find(dst []Match, text []byte, inString bool) []Match {
	place := stringWalk{text: text, inside: inString, always: inString}
	for _, at := range p.regex.FindAllSubmatchIndex(text, -1) {
		start, end := at[0], at[1]
		if len(at) > 2 && at[2] >= 0 {
			start, end = at[2], at[3]
		}
		for start < end {
			from, to := place.next(start, end)
			if from < to && !masked(text[from:to]) {
				dst = append(dst, Match{from, to, p.name})
			}
			start = to
		}
	}
	return dst
}

// masked reports whether nothing is left to mask.
func masked(text []byte) bool {
	for i := 0; i < len(text); i++ {
		if c := text[i]; c != '*' && c != '"' && c >= 0x20 {
			return false
		}
	}
	return true
}

// stringWalk finds the parts of a JSON text that are inside strings. It only moves forward.
type stringWalk struct {
	text   []byte
	at     int
	inside bool
	always bool // all of the text is inside one string
}

// next returns the first part of text[start:end] that is inside a string; empty, at end, if there is none.
func (w *stringWalk) next(start, end int) (from, to int) {
	if w.always {
		return start, end
	}
	for ; w.at < start; w.at++ {
		w.step()
	}
	for from = w.at; from < end && !w.inside; from = w.at {
		w.step()
		w.at++
	}
	from = w.at
	for w.at < end && w.inside {
		w.step()
		w.at++
	}
	if from >= end {
		return end, end
	}
	return max(from, start), min(w.at, end)
}

// step consumes the byte at w.at. A string ends with its line: no JSON string contains a line end, and in an event
// stream every line starts afresh.
func (w *stringWalk) step() {
	switch c := w.text[w.at]; {
	case c == '\n':
		w.inside = false
	case c == '\\' && w.inside && w.at+1 < len(w.text) && w.text[w.at+1] != '\n':
		w.at++
	case c == '"':
		w.inside = !w.inside
	}
}
