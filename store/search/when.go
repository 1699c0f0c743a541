package search

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// span is a period of time: from its beginning up to, but not including, its end.
type span struct{ from, to time.Time }

// last returns the last moment of the span.
func (s span) last() time.Time { return s.to.Add(-time.Nanosecond) }

// ParseTime reads a time as people write it: 2026-11-20T08:00:00Z, a date, a month (2026-11), an age (30m, 12h, 1d, 2w),
// today, yesterday, or a span that [Request.Query] may name, such as "last week". For a span it returns the beginning. Dates
// are in the location of now.
func ParseTime(text string, now time.Time) (time.Time, error) {
	if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return at, nil
	}
	if at, err := time.ParseInLocation(time.DateOnly, text, now.Location()); err == nil {
		return at, nil
	}
	if age, ok := parseAge(text); ok {
		return now.Add(-age), nil
	}
	if found, ok := spanIn(text, now); ok {
		return found.from, nil
	}
	return time.Time{}, fmt.Errorf("%q is not a time; write it as 2026-11-20, 2026-11-20T08:00:00Z, 1d, 12h, yesterday or \"last week\"", text)
}

const day = 24 * time.Hour

var ageUnits = map[byte]time.Duration{'m': time.Minute, 'h': time.Hour, 'd': day, 'w': 7 * day}

// maxAge is the highest age that ParseTime accepts, in any unit.
const maxAge = 100_000

func parseAge(text string) (time.Duration, bool) {
	if len(text) < 2 {
		return 0, false
	}
	unit, known := ageUnits[text[len(text)-1]]
	n, err := strconv.Atoi(text[:len(text)-1])
	if !known || err != nil || n < 0 || n > maxAge {
		return 0, false
	}
	return time.Duration(n) * unit, true
}

var months = []string{"january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november", "december"}

var (
	dateWords  = regexp.MustCompile(`\b(today|yesterday|(?:this|last|past) (?:week|month|year)|(\d{1,3}) (day|week|month)s? ago)\b`)
	monthWords = regexp.MustCompile(`\b(?:(?:in|of|since|during|last) )?(` + strings.Join(months, "|") + `)(?: (\d{4}))?\b`)
	isoDates   = regexp.MustCompile(`\b(\d{4})-(\d{2})(?:-(\d{2}))?\b`)
)

// spanIn finds the period that a text names, if it names one: "last week", "in March", "3 days ago", 2026-11, 2026-11-20.
// A month without a year is the last one of that name.
func spanIn(text string, now time.Time) (span, bool) {
	text = strings.ToLower(text)
	if m := isoDates.FindStringSubmatch(text); m != nil {
		if found, ok := isoSpan(m, now.Location()); ok {
			return found, true
		}
	}
	if m := dateWords.FindStringSubmatch(text); m != nil {
		return relativeSpan(m, now), true
	}
	m := monthWords.FindStringSubmatch(text)
	if len(m) == 0 || (m[1] == "may" || m[1] == "march") && m[0] == m[1] { // in lower case these two are other words too
		return span{}, false
	}
	return monthSpan(m, now), true
}

// Period returns the period that a text names, if it names one; see [Request.Query].
func Period(text string, now time.Time) (from, to time.Time, named bool) {
	found, named := spanIn(text, now)
	return found.from, found.to, named
}

func isoSpan(m []string, place *time.Location) (span, bool) {
	layout, text, days, months := "2006-01", m[1]+"-"+m[2], 0, 1
	if m[3] != "" {
		layout, text, days, months = time.DateOnly, text+"-"+m[3], 1, 0
	}
	from, err := time.ParseInLocation(layout, text, place)
	return span{from, from.AddDate(0, months, days)}, err == nil
}

func relativeSpan(m []string, now time.Time) span {
	year, month, date := now.Date()
	today := time.Date(year, month, date, 0, 0, 0, 0, now.Location())
	monday := today.AddDate(0, 0, -(int(today.Weekday())+6)%7)
	first := time.Date(year, month, 1, 0, 0, 0, 0, now.Location())
	if m[2] != "" {
		n, _ := strconv.Atoi(m[2])
		switch m[3] {
		case "day":
			return span{today.AddDate(0, 0, -n), today.AddDate(0, 0, 1-n)}
		case "week":
			return span{monday.AddDate(0, 0, -7*n), monday.AddDate(0, 0, 7-7*n)}
		}
		return span{first.AddDate(0, -n, 0), first.AddDate(0, 1-n, 0)}
	}
	switch m[1] {
	case "today":
		return span{today, today.AddDate(0, 0, 1)}
	case "yesterday":
		return span{today.AddDate(0, 0, -1), today}
	case "this week":
		return span{monday, monday.AddDate(0, 0, 7)}
	case "last week", "past week":
		return span{monday.AddDate(0, 0, -7), monday}
	case "this month":
		return span{first, first.AddDate(0, 1, 0)}
	case "last month", "past month":
		return span{first.AddDate(0, -1, 0), first}
	}
	start := time.Date(year, time.January, 1, 0, 0, 0, 0, now.Location())
	if m[1] == "this year" {
		return span{start, start.AddDate(1, 0, 0)}
	}
	return span{start.AddDate(-1, 0, 0), start}
}

func monthSpan(m []string, now time.Time) span {
	month := time.January
	for i, name := range months {
		if name == m[1] {
			month += time.Month(i)
		}
	}
	year := now.Year()
	if m[2] != "" {
		year, _ = strconv.Atoi(m[2])
	} else if month > now.Month() {
		year--
	}
	from := time.Date(year, month, 1, 0, 0, 0, 0, now.Location())
	return span{from, from.AddDate(0, 1, 0)}
}
