package search

import (
	"testing"
	"time"
)

func TestTimesAreReadAsPeopleWriteThem(t *testing.T) {
	now := time.Date(2026, 11, 22, 10, 30, 0, 0, time.UTC) // a Sunday
	for text, want := range map[string]string{
		"2026-11-20T08:00:00Z": "2026-11-20T08:00:00Z",
		"2026-11-20":           "2026-11-20T00:00:00Z",
		"2026-10":              "2026-10-01T00:00:00Z",
		"1d":                   "2026-11-21T10:30:00Z",
		"2w":                   "2026-11-08T10:30:00Z",
		"90m":                  "2026-11-22T09:00:00Z",
		"today":                "2026-11-22T00:00:00Z",
		"Yesterday":            "2026-11-21T00:00:00Z",
		"this week":            "2026-11-16T00:00:00Z",
		"last week":            "2026-11-09T00:00:00Z",
		"last month":           "2026-10-01T00:00:00Z",
		"3 days ago":           "2026-11-19T00:00:00Z",
		"in March":             "2026-03-01T00:00:00Z",
		"December":             "2025-12-01T00:00:00Z",
		"may 2025":             "2025-05-01T00:00:00Z",
	} {
		got, err := ParseTime(text, now)
		if err != nil || got.Format(time.RFC3339) != want {
			t.Errorf("%s is %s (%v), want %s", text, got.Format(time.RFC3339), err, want)
		}
	}
	for _, text := range []string{"", "soon", "d", "-1d", "may", "march", "2026-13", "99999999999d"} {
		if got, err := ParseTime(text, now); err == nil {
			t.Errorf("%q is read as %s", text, got)
		}
	}
}

func TestQuestionsNameSpansOfTime(t *testing.T) {
	now := time.Date(2026, 11, 22, 10, 30, 0, 0, time.UTC)
	for question, want := range map[string][2]string{
		"what did we decide about locks last week?": {"2026-11-09", "2026-11-15"},
		"the deploy in March that failed":           {"2026-03-01", "2026-03-31"},
		"what broke on 2026-11-05":                  {"2026-11-05", "2026-11-05"},
		"errors of 2026-02":                         {"2026-02-01", "2026-02-28"},
		"what did I do yesterday":                   {"2026-11-21", "2026-11-21"},
	} {
		got, named := spanIn(question, now)
		if !named || got.from.Format(time.DateOnly) != want[0] || got.last().Format(time.DateOnly) != want[1] {
			t.Errorf("%q names %v to %v (%v), want %v", question, got.from, got.last(), named, want)
		}
	}
	for _, question := range []string{"may I march on?", "version 2026.11", "last error", "where is the lock"} {
		if got, named := spanIn(question, now); named {
			t.Errorf("%q names %v", question, got)
		}
	}
}
