package search

import (
	"context"
	"math"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/search/lexical"
)

// Sessions are found by their turns. Only what people and models have written about a session, its title and its summary, has a
// document of its own. Most sessions have none.
//
// These documents have their own account numbers in the lexical index, so that they count neither in the statistics nor among the
// hits of a search for turns.

// aboutSpace is added to the number of an account, for what is written about its sessions.
const aboutSpace = 1 << 30

// mostBefore is how many batches of changes a search looks at itself before it runs.
const mostBefore = 2

// aboutDocument makes the document for what is written about a session; nil if nothing is.
func aboutDocument(account record.AccountNumber, s *record.Session, written *record.SessionSummary) *lexical.Document {
	text := s.Title
	if written != nil {
		text += "\n" + written.Text
	}
	if text == "" {
		return nil
	}
	return &lexical.Document{Account: uint32(account) | aboutSpace, ID: s.ID, Text: text}
}

// readAbout is aboutDocument for a session in the store. It is nil if the session is gone.
func readAbout(st *store.Store, account record.AccountNumber, id string) (*lexical.Document, error) {
	s, err := st.Feed().SessionAt(account, id)
	if err != nil {
		return nil, unlessNotFound(err)
	}
	written, err := st.Archive().SessionSummary(s.Account, id)
	if err != nil {
		return nil, unlessNotFound(err)
	}
	return aboutDocument(account, s, written), nil
}

// takeUpSessions indexes what is written about the sessions of the next changes. One caller at a time does so, so that an older
// state never overwrites a newer one. A damaged session does not block others; it is tried again at the next start, or when it
// changes.
func (x *Index) takeUpSessions(ctx context.Context) (taken int, err error) {
	if err := x.aboutTurn.Acquire(ctx, 1); err != nil {
		return 0, err
	}
	defer x.aboutTurn.Release(1)
	u, began := x.unwritten.Load(), time.Now()
	defer x.progress.signal()
	b, err := x.feed.Next(store.StageSessions, math.MaxUint64, batchSize)
	if err != nil || b == nil {
		return 0, err
	}
	documents, gone, err := x.readAbouts(ctx, b)
	if err != nil {
		return 0, err
	}
	release, err := x.acquire(ctx)
	if err != nil {
		return 0, err
	}
	defer release()
	if err := x.apply(ctx, documents, gone, func() { u.sessions.add(b) }); err != nil {
		return 0, err
	}
	x.feed.Done(store.StageSessions, b)
	clear(b.Changes) // not needed until b is confirmed, which may take a minute
	x.feed.Worked(store.StageSessions, len(documents)+len(gone)+len(b.Later), began)
	return len(b.Changes), nil
}

// readAbouts reads what is written about the sessions that have changed themselves: their turns are not in these documents.
func (x *Index) readAbouts(ctx context.Context, b *store.Batch) (documents []lexical.Document, gone []lexical.Key, err error) {
	type sessionRef struct {
		account record.AccountNumber
		session string
	}
	known := make(map[sessionRef]bool)
	for _, c := range b.Changes {
		ref := sessionRef{c.Account, c.Session}
		if c.Exchange != "" || c.Session == "" || known[ref] {
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		known[ref] = true
		d, err := readAbout(x.store, c.Account, c.Session)
		switch {
		case err != nil:
			x.log.Error("a session cannot be read, and is not found by its title; run mneme check", "session", c.Session, "error", err)
			b.Later = append(b.Later, c)
		case d == nil:
			gone = append(gone, lexical.Key{Account: uint32(c.Account) | aboutSpace, ID: c.Session})
		default:
			documents = append(documents, *d)
		}
	}
	return documents, gone, nil
}

// takeUpSessionsBefore is takeUpSessions for the changes before the call, in so many batches at most.
func (x *Index) takeUpSessionsBefore(ctx context.Context, batches int) (all bool, err error) {
	select {
	case <-x.opened: // those who start an index wait for their turn
	case <-ctx.Done():
		return false, ctx.Err()
	}
	for last := x.feed.Last(); batches > 0; batches-- {
		if x.feed.Position(store.StageSessions) >= last {
			return true, nil
		}
		if x.unwritten.Load().full() {
			return false, errFull
		}
		if taken, err := x.takeUpSessions(ctx); err != nil || taken == 0 {
			return err == nil, err
		}
	}
	return false, nil
}

// errFull is the error of indexing sessions while too many texts wait for the disk.
var errFull = codec.Errorf(codec.KindStorage, "the search index cannot be written to disk at present; see the log of the proxy")
