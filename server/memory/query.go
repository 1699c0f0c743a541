package memory

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mnemeproxy/mneme/codec"
)

// query returns a request's parameters one by one. An unused parameter is an error: a filter with a typo in its name
// would otherwise select everything.
type query struct {
	values url.Values
	err    error
}

func (q *query) text(name string) string {
	value := q.values.Get(name)
	if len(q.values[name]) > 1 {
		q.fail(name, "%s is given more than once", name)
	}
	delete(q.values, name)
	return value
}

// list returns a parameter that may be repeated, or hold several values separated by commas.
func (q *query) list(name string) (values []string) {
	for _, text := range q.values[name] {
		for value := range strings.SplitSeq(text, ",") {
			if value != "" {
				values = append(values, value)
			}
		}
	}
	delete(q.values, name)
	return values
}

func (q *query) time(name string) time.Time {
	text := q.text(name)
	if text == "" {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		q.fail(name, "%q is not a time; write it as 2026-11-20T08:00:00Z", text)
	}
	return t
}

const (
	defaultPage = 20
	maxPage     = 100
)

// page returns the parameters that every list has.
func (q *query) page(ascendingByDefault bool) (after, before string, limit int, ascending bool) {
	after, before, limit, ascending = q.text("after"), q.text("before"), defaultPage, ascendingByDefault
	if text := q.text("limit"); text != "" {
		var err error
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > maxPage {
			q.fail("limit", "limit is a number from 1 to %d", maxPage)
		}
	}
	switch text := q.text("order"); text {
	case "":
	case "asc", "desc":
		ascending = text == "asc"
	default:
		q.fail("order", "order is asc or desc")
	}
	return after, before, limit, ascending
}

func (q *query) fail(name, format string, args ...any) {
	if q.err == nil {
		q.err = codec.Invalid(name, format, args...)
	}
}

// end returns the first invalid parameter, or the first unknown one.
func (q *query) end() error {
	if q.err == nil && len(q.values) > 0 {
		name := slices.Min(slices.Collect(maps.Keys(q.values)))
		q.fail(name, "there is no parameter %q here", name)
	}
	return q.err
}
