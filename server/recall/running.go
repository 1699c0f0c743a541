package recall

import (
	"context"
	"slices"
	"time"

	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/search"
)

const (
	runningFor  = 15 * time.Minute // since the last request of an agent that waits for a tool
	mostRunning = 40               // exchanges examined
)

// Running returns the sessions that are running with a key: those whose newest turn waits for a tool, such as for a search of
// this memory. An agent does not look for what it has just said.
func (m *Memory) Running(ctx context.Context, account, key string) (sessions []string) {
	if key == "" {
		return nil
	}
	found, err := m.engine.Search(ctx, account, &search.Request{
		Newest: true, Limit: mostRunning, Filter: search.Filter{And: search.Within(m.opts.Clock().Add(-runningFor), time.Time{})},
	})
	if err != nil {
		return nil
	}
	var seen []string
	for i := range found.Data {
		if session := found.Data[i].Session; !slices.Contains(seen, session) {
			seen = append(seen, session)
			if m.waits(account, session, key) {
				sessions = append(sessions, session)
			}
		}
	}
	return sessions
}

// Runs reports whether a session in which something was said at a time is running with a key, see [Memory.Running]. It sees what was said
// since Running has looked.
func (m *Memory) Runs(account, session, key string, said time.Time) bool {
	return key != "" && said.After(m.opts.Clock().Add(-runningFor)) && m.waits(account, session, key)
}

// waits reports whether the newest turn of a session was asked for with the key and has no answer, or waits for a tool. One
// that is not derived yet has just ended.
func (m *Memory) waits(account, session, key string) bool {
	const newest = 3 // clients have requests of their own
	page, err := m.engine.Timeline(account, session, record.TimelineQuery{Descending: true, Limit: newest})
	if err != nil {
		return false
	}
	for i := range page.Data {
		if x := &page.Data[i].Exchange; x.Auxiliary == "" {
			return x.KeyID == key && x.ModelAsked != noteModel && !search.Ends(page.Data[i].Turn)
		}
	}
	return false
}
