package search

import (
	"slices"
	"strings"
	"time"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/search/lexical"
)

// Filter restricts a search: a comparison, or combined filters. The zero Filter excludes nothing.
type Filter struct {
	And []Filter `json:"and,omitempty"`
	Or  []Filter `json:"or,omitempty"`
	Not *Filter  `json:"not,omitempty"`

	Field  string   `json:"field,omitempty"` // time, or one of session, model, provider, client, surface, outcome, project, kind, tool, tag, file, edited, ran
	Op     string   `json:"op,omitempty"`    // eq, in, prefix; for time gte, gt, lte, lt
	Value  string   `json:"value,omitempty"`
	Values []string `json:"values,omitempty"` // of in
}

// Within returns the filters for turns from since on and before until; a zero time is no bound.
func Within(since, until time.Time) (filters []Filter) {
	for _, bound := range []struct {
		op string
		at time.Time
	}{{"gte", since}, {"lt", until}} {
		if !bound.at.IsZero() {
			filters = append(filters, Filter{Field: fieldTime, Op: bound.op, Value: bound.at.Format(time.RFC3339Nano)})
		}
	}
	return filters
}

const (
	maxFilterDepth = 16
	maxFilterSize  = 256
	fieldTime      = "time"
	fieldTag       = "tag"
)

// check returns the fault of a filter, with the path to it.
func (f *Filter) check(path string, depth int, left *int) error {
	if *left--; *left < 0 {
		return codec.Invalid(path, "a filter has at most %d parts", maxFilterSize)
	}
	if depth > maxFilterDepth {
		return codec.Invalid(path, "filters are nested deeper than %d", maxFilterDepth)
	}
	for i := range f.And {
		if err := f.And[i].check(path+".and", depth+1, left); err != nil {
			return err
		}
	}
	for i := range f.Or {
		if err := f.Or[i].check(path+".or", depth+1, left); err != nil {
			return err
		}
	}
	if f.Not != nil {
		if err := f.Not.check(path+".not", depth+1, left); err != nil {
			return err
		}
	}
	kinds := 0
	for _, present := range [...]bool{len(f.And) > 0, len(f.Or) > 0, f.Not != nil, f.Field != ""} {
		if present {
			kinds++
		}
	}
	if kinds > 1 {
		return codec.Invalid(path, "a filter is one of and, or, not, or a field with op and value")
	}
	if f.And != nil && len(f.And) == 0 || f.Or != nil && len(f.Or) == 0 {
		return codec.Invalid(path, "and and or need a filter, at least one")
	}
	if f.Field == "" {
		if f.Op != "" || f.Value != "" || f.Values != nil {
			return codec.Invalid(path, "op, value and values need a field")
		}
		return nil
	}
	return f.checkComparison(path)
}

func (f *Filter) checkComparison(path string) error {
	if f.Field == fieldTime {
		if !slices.Contains([]string{"gte", "gt", "lte", "lt"}, f.Op) {
			return codec.Invalid(path+".op", "for time op is gte, gt, lte or lt")
		}
		if _, err := time.Parse(time.RFC3339Nano, f.Value); err != nil {
			return codec.Invalid(path+".value", "%q is not a time; write it as 2026-11-20T08:00:00Z", f.Value)
		}
		return nil
	}
	if f.Field != fieldTag && !slices.Contains(facetNames, f.Field) {
		return codec.Invalid(path+".field", "there is no field %q; there are time, tag, %s", f.Field, strings.Join(facetNames, ", "))
	}
	if !slices.Contains([]string{"eq", "in", "prefix"}, f.Op) {
		return codec.Invalid(path+".op", "for %s op is eq, in or prefix", f.Field)
	}
	if f.Op == "in" && f.Value != "" {
		return codec.Invalid(path+".value", "for in the values are a list, in values")
	}
	if f.Op != "in" && f.Values != nil {
		return codec.Invalid(path+".values", "for %s there is one value, in value", f.Op)
	}
	if len(f.Values) > maxFilterSize {
		return codec.Invalid(path+".values", "at most %d values", maxFilterSize)
	}
	return nil
}

func (f *Filter) isZero() bool {
	return len(f.And) == 0 && len(f.Or) == 0 && f.Not == nil && f.Field == ""
}

// wanted returns the values of a comparison by eq or in.
func (f *Filter) wanted() []string {
	if f.Op == "in" {
		return f.Values
	}
	return []string{f.Value}
}

// subject is what a filter is matched against.
type subject struct {
	time   time.Time
	facets []lexical.Facet
	holds  func(f *Filter) bool // decides comparisons of facets instead; nil: facets do
	tags   []string             // of the session
}

func (f *Filter) matches(s *subject) bool {
	switch {
	case len(f.And) > 0:
		for i := range f.And {
			if !f.And[i].matches(s) {
				return false
			}
		}
		return true
	case len(f.Or) > 0:
		for i := range f.Or {
			if f.Or[i].matches(s) {
				return true
			}
		}
		return false
	case f.Not != nil:
		return !f.Not.matches(s)
	case f.Field == "":
		return true
	case f.Field == fieldTime:
		return f.matchesTime(s.time)
	case f.Field == fieldTag:
		return slices.ContainsFunc(s.tags, f.matchesTag)
	}
	if s.holds != nil {
		return s.holds(f)
	}
	return slices.ContainsFunc(s.facets, f.matchesFacet)
}

func (f *Filter) matchesTag(tag string) bool {
	if f.Op == "prefix" {
		return strings.HasPrefix(tag, f.Value)
	}
	return slices.Contains(f.wanted(), tag)
}

// matchesFacet compares like the index, ignoring case.
func (f *Filter) matchesFacet(facet lexical.Facet) bool {
	if f.Op == "prefix" {
		return facet.Name == f.Field && strings.HasPrefix(strings.ToLower(facet.Value), strings.ToLower(f.Value))
	}
	return slices.ContainsFunc(f.wanted(), func(wanted string) bool {
		name, value := facetOf(f.Field, wanted)
		return facet.Name == name && strings.EqualFold(value, facet.Value)
	})
}

func (f *Filter) matchesTime(at time.Time) bool {
	limit, _ := time.Parse(time.RFC3339Nano, f.Value)
	switch f.Op {
	case "gte":
		return !at.Before(limit)
	case "gt":
		return at.After(limit)
	case "lte":
		return !at.After(limit)
	default:
		return at.Before(limit)
	}
}

// uses reports whether a field occurs in the filter.
func (f *Filter) uses(field string) bool {
	part := func(p Filter) bool { return p.uses(field) }
	return f.Field == field || slices.ContainsFunc(f.And, part) || slices.ContainsFunc(f.Or, part) || f.Not != nil && f.Not.uses(field)
}

// eachFacet visits the comparisons of facets in the filter.
func (f *Filter) eachFacet(visit func(*Filter) error) error {
	for _, parts := range [...][]Filter{f.And, f.Or} {
		for i := range parts {
			if err := parts[i].eachFacet(visit); err != nil {
				return err
			}
		}
	}
	switch f.Field {
	case fieldTime, fieldTag:
		return nil
	case "":
		if f.Not != nil {
			return f.Not.eachFacet(visit)
		}
		return nil
	}
	return visit(f)
}

// wants reports whether the filter asks for a value of a facet.
func (f *Filter) wants(name, value string) (wanted bool) {
	_ = f.eachFacet(func(f *Filter) error {
		wanted = wanted || f.Field == name && slices.Contains(f.wanted(), value)
		return nil
	})
	return wanted
}

// narrow returns a set of documents, or of groups, that includes all that the filter accepts; exact reports whether it accepts all
// of them. A nil set is every one.
func (f *Filter) narrow(s *lexical.Sets) (set *lexical.Set, exact bool, err error) {
	switch {
	case len(f.And) > 0:
		return narrowAll(s, f.And)
	case len(f.Or) > 0:
		return narrowAny(s, f.Or)
	case f.Not != nil:
		set, exact, err = f.Not.narrow(s)
		if err != nil || !exact {
			return nil, false, err
		}
		all, err := s.All()
		if err != nil {
			return nil, false, err
		}
		if set == nil {
			return roaring.New(), true, nil
		}
		all.AndNot(set)
		return all, true, nil
	case f.Field == "":
		return nil, true, nil
	case f.Field == fieldTag: // tags belong to sessions and change without their turns
		return nil, false, nil
	case f.Field == fieldTime:
		at, _ := time.Parse(time.RFC3339Nano, f.Value)
		day := at.UTC().Format(dayLayout)
		if f.Op == "gte" || f.Op == "gt" {
			set, err = s.FacetRange(facetDay, day, "")
		} else {
			set, err = s.FacetRange(facetDay, "", day)
		}
		return set, false, err
	case f.Op == "prefix":
		set, err = s.FacetPrefix(f.Field, f.Value)
		return set, true, err
	}
	set = roaring.New()
	for _, value := range f.wanted() {
		one, err := s.Facet(facetOf(f.Field, value))
		if err != nil {
			return nil, false, err
		}
		set.Or(one)
	}
	return set, true, nil
}

func narrowAll(s *lexical.Sets, parts []Filter) (all *lexical.Set, exact bool, err error) {
	exact = true
	for i := range parts {
		set, certain, err := parts[i].narrow(s)
		if err != nil {
			return nil, false, err
		}
		exact = exact && certain
		switch {
		case set == nil:
		case all == nil:
			all = set
		default:
			all.And(set)
		}
	}
	return all, exact, nil
}

func narrowAny(s *lexical.Sets, parts []Filter) (any *lexical.Set, exact bool, err error) {
	any, exact = roaring.New(), true
	for i := range parts {
		set, certain, err := parts[i].narrow(s)
		if err != nil || set == nil {
			return nil, false, err
		}
		exact = exact && certain
		any.Or(set)
	}
	return any, exact, nil
}
