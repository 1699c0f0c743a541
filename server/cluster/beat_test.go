package cluster

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/mnemeproxy/mneme/store/ship"
)

// expiring notes until when a roster is valid.
type expiring struct {
	Followed
	until time.Time
}

func (e *expiring) Expire(at time.Time) { e.until = at }

func TestAReplayedBeatKeepsNoRosterValid(t *testing.T) {
	o := options(t, 1)
	roster := new(expiring)
	f := &follower{options: &o, roster: roster, maxAge: time.Hour}
	hear := func(revision uint64, at time.Time) (heard bool) {
		roster.until = time.Time{}
		f.hear(&nats.Msg{Data: (&ship.Beat{Revision: revision, Time: at}).Seal(o.Key)})
		return !roster.until.IsZero()
	}
	now := time.Now()
	for _, beat := range []struct {
		name  string
		at    time.Time
		heard bool
	}{
		{"the first", now, true},
		{"a newer one", now.Add(time.Second), true},
		{"the newest again", now.Add(time.Second), false},
		{"an earlier one", now, false},
		{"one of a clock that is a day ahead", now.Add(24 * time.Hour), true},
		{"one of that clock, set right", now.Add(2 * time.Minute), true},
	} {
		if heard := hear(7, beat.at); heard != beat.heard {
			t.Errorf("%s is heard: %v", beat.name, heard)
		}
	}
}
