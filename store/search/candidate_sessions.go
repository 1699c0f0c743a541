package search

import (
	"context"
	"slices"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/search/lexical"
)

// MostSessions is how many sessions of candidates are ranked, beside those that are found without their turns.
const MostSessions = 100

// SessionReader reads a session of the account with its first turn and its newest ones, at most that many of these;
// [codec.KindNotFound] if it is gone.
type SessionReader func(id string, newest int) (StoredSession, error)

// StoredSession is a session as it is stored.
type StoredSession struct {
	Session *store.Session
	Turns   []store.TimelineEntry // the first one and the newest, oldest first
	Summary *store.SessionSummary // by a model; nil: there is none
}

// document returns the document of the session; nil if nothing was said in it.
func (s *StoredSession) document() *sessionDocument {
	d := newSessionDocument(s.Session, s.Turns)
	if d != nil {
		d.written = s.Summary
	}
	return d
}

// Apart returns what is wanted of turns that make their session a hit only together: each has something scored, and none has to
// satisfy everything demanded of the session.
func (w *Wanted) Apart() *Wanted {
	apart := *w
	apart.Demanded, apart.Since = nil, time.Time{} // a session is as old as its last turn
	return &apart
}

// candidateSessions are the sessions of the best candidates.
type candidateSessions struct {
	candidateTurns
	documents map[string]*sessionDocument
}

func (c candidateSessions) document(session string) (*sessionDocument, error) {
	return c.documents[session], nil
}

// RankSessions answers a search for sessions with the turns that an engine has found, and the ids of the sessions that satisfy
// Named: it ranks these and the sessions of the best turns, at most MostSessions, as an index of only these sessions and turns would.
func (w *Wanted) RankSessions(ctx context.Context, candidates []store.TimelineEntry, named []string, read SessionReader) (*Answer, error) {
	answer := &Answer{Object: "memory.search", ModeUsed: Lexical, Data: []Hit{}}
	entries, turns, err := w.index(ctx, candidates)
	if err != nil {
		return nil, err
	}
	defer func() { _ = turns.Close() }()
	ids, err := w.bestSessions(turns, entries)
	if err != nil {
		return nil, err
	}
	for _, id := range named {
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	found := candidateSessions{candidateTurns{entries: entries}, make(map[string]*sessionDocument)}
	var documents []lexical.Document
	for _, id := range ids {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		session, err := read(id, sessionTurns)
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
		if d := session.document(); d != nil {
			d.entries = nil // hundreds of turns may be large
			found.documents[id] = d
			documents = append(documents, d.lexical(0))
		}
	}
	index, err := lexical.Over(ctx, documents)
	if err != nil {
		return nil, err
	}
	whole, err := index.Searcher(ctx, sessionSpace)
	if err != nil {
		return nil, err
	}
	defer func() { _ = whole.Close() }()
	s := &sessionSearch{source: found, request: w.request, query: w.query, whole: whole, turns: turns}
	return answer, s.run(ctx, answer)
}

// bestSessions returns the sessions of turns that satisfy everything demanded, best first, and then those of other turns.
func (w *Wanted) bestSessions(turns *lexical.Searcher, entries map[string]*store.TimelineEntry) (ids []string, err error) {
	allowed, _, err := w.request.Filter.narrow(turns)
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
