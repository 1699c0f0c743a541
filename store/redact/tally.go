package redact

import (
	"maps"
	"slices"
)

// Tally is how many credentials of each name were masked. A nil one is empty.
type Tally map[string]int

// Count counts matches; nil if there are none.
func Count(matches []Match) (t Tally) {
	t.Add(matches)
	return t
}

// Add counts matches.
func (t *Tally) Add(matches []Match) {
	for _, m := range matches {
		t.Join(Tally{m.Name: 1})
	}
}

// Join adds the counts of another tally.
func (t *Tally) Join(other Tally) {
	for name, n := range other {
		if n == 0 {
			continue
		}
		if *t == nil {
			*t = make(Tally)
		}
		(*t)[name] += n
	}
}

// Names lists the names in order.
func (t Tally) Names() []string { return slices.Sorted(maps.Keys(t)) }
