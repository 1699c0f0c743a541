package command

import (
	"time"

	"github.com/mnemeproxy/mneme/store/search"
)

// When is a time in a bill or an export, as people write it: see [search.ParseTime]. Dates are in UTC, like the days
// that usage is counted in.
type When struct{ time.Time }

// UnmarshalText reads a time, or how long ago it was.
func (w *When) UnmarshalText(text []byte) (err error) {
	if w.Time, err = search.ParseTime(string(text), time.Now().UTC()); err == nil {
		return nil
	}
	var ago Lifetime // also 1h30m
	if ago.UnmarshalText(text) != nil || ago == 0 {
		return err
	}
	w.Time = time.Now().Add(-time.Duration(ago))
	return nil
}

// LocalTime is a time as people write it: see [search.ParseTime]. Dates are in the local time zone.
type LocalTime struct{ time.Time }

// UnmarshalText reads a time.
func (l *LocalTime) UnmarshalText(text []byte) (err error) {
	l.Time, err = search.ParseTime(string(text), time.Now())
	return err
}

// Period has the flags that bound a list in time.
type Period struct {
	Since LocalTime `placeholder:"TIME" help:"Only from this time on: 2026-11-20, 2026-11-20T08:00:00Z, 1d, 12h, yesterday, \"last week\"."`
	Until LocalTime `placeholder:"TIME" help:"Only before this time."`
}
