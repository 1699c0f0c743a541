package search

import (
	"context"
	"slices"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/search/lexical"
)

// MostSessions is how many sessions of candidates are ranked, beside those that are found without their turns.
const MostSessions = 100

// mostTogether is how many bytes of text the turns may have that are read because a search demands something of whole sessions.
const mostTogether = 32 << 20

// SessionReader reads a session of the account with its first turn and its newest ones, at most that many of these;
// [codec.KindNotFound] if it is gone.
type SessionReader func(id string, newest int) (StoredSession, error)

// StoredSession is a session as it is stored.
type StoredSession struct {
	Session *record.Session
	Turns   []record.TimelineEntry // the first one and the newest, oldest first
	Summary *record.SessionSummary // by a model; nil: there is none
}

// Apart returns what is wanted of turns that make their session a hit only together: each has something scored, and none has to
// satisfy everything demanded of the session.
func (w *Wanted) Apart() *Wanted {
	apart := *w
	apart.Demanded, apart.Since = nil, time.Time{} // a session is as old as its last turn
	return &apart
}

// candidateSessions are the sessions of candidates.
type candidateSessions struct {
	candidateTurns
	others map[string]string // sessions of indexed turns that are no candidates, by exchange
	read   SessionReader
}

func (c *candidateSessions) turn(exchange string) (record.TimelineEntry, error) {
	if session, other := c.others[exchange]; other { // its text is read with the session
		return record.TimelineEntry{Exchange: record.ExchangeInfo{ID: exchange, Session: session}}, nil
	}
	return c.candidateTurns.turn(exchange)
}

func (c *candidateSessions) document(session string) (*sessionDocument, error) {
	stored, err := c.read(session, sessionTurns)
	if err != nil {
		return nil, unlessNotFound(err)
	}
	return stored.document(), nil
}

// RankSessions answers a search for sessions with the turns that an engine has found, and the ids of the sessions that satisfy
// Named, as an index of only these sessions and turns would. If the search demands something of whole sessions, it reads the turns
// of the named sessions and of the best candidates, at most MostSessions.
func (w *Wanted) RankSessions(ctx context.Context, candidates []record.TimelineEntry, named []string, read SessionReader) (*Answer, error) {
	answer := &Answer{Object: "memory.search", ModeUsed: Lexical, Data: []Hit{}}
	entries, documents := byExchange(candidates)
	found := &candidateSessions{candidateTurns{entries: entries}, make(map[string]string), read}
	ids, newest := named, 0
	if w.request.listing() || w.query.Demands() || !w.request.Filter.isZero() {
		best, err := w.bestSessions(ctx, documents, entries)
		if err != nil {
			return nil, err
		}
		for _, id := range named {
			if !slices.Contains(best, id) {
				best = append(best, id)
			}
		}
		ids, newest = best, sessionTurns
	}
	var about []lexical.Document
	for _, id := range ids {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		session, err := read(id, newest)
		if isNotFound(err) {
			continue
		}
		if err != nil && codec.AsError(err, "").Kind == codec.KindStorage {
			answer.degrade(damagedSessions)
			continue
		}
		if err != nil {
			return nil, err
		}
		if d := aboutDocument(0, session.Session, session.Summary); d != nil {
			about = append(about, *d)
		}
		if newest > 0 && size(documents) < mostTogether {
			documents = found.add(documents, session.Turns)
		}
	}
	s := &sessionSearch{source: found, request: w.request, query: w.query}
	var err error
	if s.turns, err = w.index(ctx, documents); err != nil {
		return nil, err
	}
	defer func() { _ = s.turns.Close() }()
	index, err := lexical.Over(ctx, about)
	if err != nil {
		return nil, err
	}
	if s.about, err = index.Searcher(ctx, aboutSpace); err != nil {
		return nil, err
	}
	defer func() { _ = s.about.Close() }()
	return answer, s.run(ctx, answer)
}

// add adds the documents of turns that are no candidates.
func (c *candidateSessions) add(documents []lexical.Document, turns []record.TimelineEntry) []lexical.Document {
	for i := range turns {
		e := &turns[i]
		if d := newDocument(e); d != nil && c.entries[d.id] == nil && c.others[d.id] == "" {
			c.others[d.id] = d.session
			documents = append(documents, d.lexical(0))
		}
	}
	return documents
}

// bestSessions returns the sessions of turns that satisfy everything demanded, best first, and then those of other turns.
func (w *Wanted) bestSessions(ctx context.Context, documents []lexical.Document, entries map[string]*record.TimelineEntry) (ids []string, err error) {
	turns, err := w.index(ctx, documents)
	if err != nil {
		return nil, err
	}
	defer func() { _ = turns.Close() }()
	allowed, _, err := w.request.Filter.narrow(&turns.Sets)
	if err != nil {
		return nil, err
	}
	rankings := [...]func() (*lexical.Ranking, error){
		func() (*lexical.Ranking, error) { return turns.Rank(w.query, allowed) },
		func() (*lexical.Ranking, error) { return turns.Score(w.query) },
	}
	if w.request.listing() {
		rankings[0] = func() (*lexical.Ranking, error) { return turns.Newest(allowed) }
		rankings[1] = func() (*lexical.Ranking, error) { return turns.Newest(nil) }
	}
	known := make(map[string]bool)
	for _, rank := range rankings {
		ranking, err := rank()
		if err != nil {
			return nil, err
		}
		for len(known) < MostSessions {
			hit, more := ranking.Next()
			if !more {
				break
			}
			exchange, err := turns.ID(hit.Number)
			if err != nil {
				ranking.Close()
				return nil, err
			}
			if e := entries[exchange]; e != nil && e.Exchange.Session != "" && !known[e.Exchange.Session] {
				known[e.Exchange.Session] = true
				ids = append(ids, e.Exchange.Session)
			}
		}
		ranking.Close()
	}
	return ids, nil
}
