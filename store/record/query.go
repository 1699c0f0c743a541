package record

import (
	"slices"
	"strings"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/project"
	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// SessionQuery asks for a page of sessions, by when they began.
type SessionQuery struct {
	After, Before string // cursors, as in [ExchangeQuery]
	Limit         int    // 1 to 1000; 0: 20
	Ascending     bool   // oldest first; otherwise newest first

	// Filters; the zero value does not filter.
	ChatKey         string
	ExternalSession string
	Model           string // requested in one of the session's exchanges, case-insensitive
	Tag             string
	Client          string // as [ExchangeInfo.Client] returns it
	Project         string
	State           SessionState
	Parent          string    // only the subagents of this session
	Since, Until    time.Time // the last exchange began in this range; Until is exclusive
}

// SessionState is how the exchanges of a session ended.
type SessionState uint8

const (
	AnyState   SessionState = iota
	Complete                // all have complete answers
	Incomplete              // some do not, or are open
)

// SessionPage is an answer to a [SessionQuery].
type SessionPage struct {
	Data    []Session
	HasMore bool

	// Reached is the session at which a filtered search stopped before the page was full; "" if it did not. Continue
	// with it as After, or as Before if the query had only that.
	Reached string
}

// Matches reports whether a session passes the filters.
func (q *SessionQuery) Matches(s *Session) bool {
	is := func(want, have string) bool { return want == "" || want == have }
	return s.Merged == "" &&
		is(q.ChatKey, s.ChatKey) && is(q.ExternalSession, s.ExternalSession) && is(q.Parent, s.Parent) &&
		(q.Model == "" || slices.ContainsFunc(s.Models, func(asked string) bool { return strings.EqualFold(asked, q.Model) })) &&
		(q.Tag == "" || slices.Contains(s.Tags, q.Tag)) &&
		is(q.Client, s.Client) && (q.Project == "" || project.Is(q.Project, s.Project)) &&
		(q.State == AnyState || (q.State == Complete) == (s.Exchanges == s.Completed)) &&
		!s.Updated.Before(q.Since) && (q.Until.IsZero() || s.Updated.Before(q.Until))
}

// NoSession returns the error for an id of no session.
func NoSession(id string) error {
	if strings.HasPrefix(id, kv.ExchangePrefix) {
		return codec.Errorf(codec.KindNotFound, "no session %q: that is the id of an exchange", id)
	}
	return codec.Errorf(codec.KindNotFound, "no session %q", id)
}

// NoExchange returns the error for an id of no exchange.
func NoExchange(id string) error {
	if strings.HasPrefix(id, kv.SessionPrefix) {
		return codec.Errorf(codec.KindNotFound, "no exchange %q: that is the id of a session", id)
	}
	return codec.Errorf(codec.KindNotFound, "no exchange %q", id)
}

// TimelineQuery asks for a page of a session's timeline.
type TimelineQuery struct {
	After, Before string // exchange ids as cursors, as in [ExchangeQuery]
	Limit         int    // 1 to 1000; 0: 20
	Descending    bool   // newest first; otherwise oldest first
}

// TimelineEntry is one exchange of a session.
type TimelineEntry struct {
	Exchange ExchangeInfo `json:"exchange"`
	Turn     *Turn        `json:"turn,omitempty"` // nil: auxiliary, not digested yet, or the exchange is damaged
}

// TimelinePage is an answer to a [TimelineQuery].
type TimelinePage struct {
	Data    []TimelineEntry
	HasMore bool
}

// ExchangeQuery asks for a page of exchanges.
type ExchangeQuery struct {
	After     string // only exchanges after this id in the requested order; the last id of the previous page
	Before    string // only exchanges before this id in the requested order
	Limit     int    // 1 to 1000; 0: 20
	Ascending bool   // oldest first; otherwise newest first
}

// ExchangePage is an answer to an [ExchangeQuery].
type ExchangePage struct {
	Data    []ExchangeInfo
	HasMore bool // there is at least one more in the same direction
}
