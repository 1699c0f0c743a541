package store

import (
	"bytes"
	"context"
	"errors"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/store/internal/commit"
	"github.com/mnemeproxy/mneme/store/internal/journal"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/record"
)

// markInterrupted closes the exchanges that were open when the last process ended. It runs before the writer does.
func (s *core) markInterrupted() error {
	notes, err := s.openNotes()
	if err != nil {
		return err
	}
	g := s.writing
	g.Starting = true
	defer func() {
		g.Settled(g.Reset())
		g.Starting = false
	}()
	b := commit.NewBatch(s.db)
	defer b.Discard()
	for _, note := range notes {
		for _, id := range note.ids {
			w := new(commit.Op)
			if err := g.interrupt(w, kv.ExchangeRef{Account: note.account, ID: id}); err != nil {
				return err
			}
			b.Together(int64(len(w.Records()) + len(g.Changes.Noted())))
			b.Apply(g.Changes.Records())
			b.Apply(w.Records())
			g.Changes.Settled()
		}
		b.Delete(note.key)
	}
	err = b.Commit()
	g.Changes.Announce(false)
	return err
}

// leftOpen is a note left by an earlier process.
type leftOpen struct {
	key     []byte
	account kv.AccountNumber
	ids     []kv.ExchangeID
}

func (s *core) openNotes() (notes []leftOpen, err error) {
	err = kv.EachRecord(s.db, []byte{kv.SpaceOpen}, func(key, value []byte) error {
		account, ids, err := journal.ReadOpenNote(key, value)
		notes = append(notes, leftOpen{bytes.Clone(key), account, ids})
		return err
	})
	return notes, err
}

// interrupt ends an exchange with what has arrived of its answer, unless it has ended. A damaged exchange does not keep
// the store from opening: it stays unchanged for a check to find.
func (g *commitGroup) interrupt(w *commit.Op, at kv.ExchangeRef) error {
	info, err := journal.Info(g.Committed(), at.Account, at.ID)
	if errors.Is(err, badger.ErrKeyNotFound) || err == nil && info.Outcome != record.OutcomeOpen {
		return nil
	}
	if err != nil {
		g.store.log.Error("an exchange that was interrupted cannot be read; run mneme check", "exchange", at.ID.String(), "error", err)
		return nil
	}
	info.ResponseSize, err = journal.AnswerSize(context.Background(), g.Committed(), at.Account, at.ID)
	if err != nil {
		g.store.log.Error("the answer of an exchange that was interrupted cannot be read; run mneme check", "exchange", at.ID.String(), "error", err)
	}
	info.Outcome, info.Session = record.OutcomeInterrupted, ""
	w.Add(commit.Entry{Key: kv.ExchangeKey(kv.SpaceExchange, at.Account, at.ID), Value: record.Encode(info)})
	g.closeExchange(w, at, info, nil)
	return g.Err()
}
