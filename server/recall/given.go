package recall

import (
	"context"
	"encoding/json"
	"slices"
)

// given is what a session has been given so far. It is kept with reasoning state; losing an entry costs only a
// repetition.
type given struct {
	Tokens    int      `json:"tokens"`
	Exchanges []string `json:"exchanges"`
	Calls     []string `json:"calls,omitempty"` // lines before calls, which count against no limit
}

const (
	mostGiven = 64  // exchanges remembered per session
	mostCalls = 100 // lines
)

func givenName(session string) string { return "recalled in " + session }

func (m *Memory) givenIn(account, session string) (g given) {
	if session != "" {
		_ = json.Unmarshal(m.engine.Recall(account, givenName(session)), &g)
	}
	return g
}

// Offer is Recall for clients that keep what they are given themselves: a session is given nothing twice, and in total
// no more than its share.
func (m *Memory) Offer(ctx context.Context, q *Query) Recalled {
	before := m.givenIn(q.Account, q.Session)
	if before.Tokens >= SessionTokens {
		r := Recalled{Hits: []Hit{}, Reason: ReasonBudget}
		m.counts.add(q.Account, &r)
		return r
	}
	asked := *q
	asked.Given = append(slices.Clone(q.Given), before.Exchanges...)
	if asked.Tokens <= 0 {
		asked.Tokens = DefaultTokens
	}
	asked.Tokens = min(asked.Tokens, SessionTokens-before.Tokens)
	r := m.Recall(ctx, &asked)
	m.noteGiven(q.Account, q.Session, before, &r)
	return r
}

func (m *Memory) noteGiven(account, session string, g given, r *Recalled) {
	if session == "" || r.Text == "" {
		return
	}
	g.Tokens += r.Tokens
	for i := range r.Hits {
		g.Exchanges = append(g.Exchanges, r.Hits[i].Exchanges()...)
	}
	g.Exchanges = slices.Clone(g.Exchanges[max(0, len(g.Exchanges)-mostGiven):])
	m.keepGiven(account, session, g)
}

// noteCalls notes the lines that a session was given before a call.
func (m *Memory) noteCalls(account, session string, g given, lines []string) {
	if session == "" || len(lines) == 0 {
		return
	}
	g.Calls = append(g.Calls, lines...)
	g.Calls = g.Calls[max(0, len(g.Calls)-mostCalls):]
	m.keepGiven(account, session, g)
}

func (m *Memory) keepGiven(account, session string, g given) {
	if value, err := json.Marshal(g); err == nil {
		m.engine.Keep(account, givenName(session), value)
	}
}
