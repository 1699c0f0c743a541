package writing

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

// MarkInterrupted closes the exchanges that were open when the last process ended. It runs before the writer does.
func (w *Writer) MarkInterrupted() error {
	notes, err := openNotes(w.db)
	if err != nil {
		return err
	}
	g := w.Group
	g.Sessions.Starting = true
	defer func() {
		g.Settled(g.Reset())
		g.Sessions.Starting = false
	}()
	b := commit.NewBatch(w.db)
	defer b.Discard()
	for _, note := range notes {
		for _, id := range note.ids {
			o := new(commit.Op)
			if err := g.interrupt(o, kv.ExchangeRef{Account: note.account, ID: id}); err != nil {
				return err
			}
			b.Together(int64(len(o.Records()) + len(g.Sessions.Changes.Noted())))
			b.Apply(g.Sessions.Changes.Records())
			b.Apply(o.Records())
			g.Sessions.Changes.Settled()
		}
		b.Delete(note.key)
	}
	err = b.Commit()
	g.Sessions.Changes.Announce(false)
	return err
}

// leftOpen is a note left by an earlier process.
type leftOpen struct {
	key     []byte
	account kv.AccountNumber
	ids     []kv.ExchangeID
}

func openNotes(db kv.Reader) (notes []leftOpen, err error) {
	err = kv.EachRecord(db, []byte{kv.SpaceOpen}, func(key, value []byte) error {
		account, ids, err := journal.ReadOpenNote(key, value)
		notes = append(notes, leftOpen{bytes.Clone(key), account, ids})
		return err
	})
	return notes, err
}

// interrupt ends an exchange with what has arrived of its answer, unless it has ended. A damaged exchange does not keep
// the store from opening: it stays unchanged for a check to find.
func (g *Group) interrupt(o *commit.Op, at kv.ExchangeRef) error {
	info, err := journal.Info(g.Committed(), at.Account, at.ID)
	if errors.Is(err, badger.ErrKeyNotFound) || err == nil && info.Outcome != record.OutcomeOpen {
		return nil
	}
	if err != nil {
		g.log.Error("an exchange that was interrupted cannot be read; run mneme check", "exchange", at.ID.String(), "error", err)
		return nil
	}
	info.ResponseSize, err = journal.AnswerSize(context.Background(), g.Committed(), at.Account, at.ID)
	if err != nil {
		g.log.Error("the answer of an exchange that was interrupted cannot be read; run mneme check", "exchange", at.ID.String(), "error", err)
	}
	info.Outcome, info.Session = record.OutcomeInterrupted, ""
	o.Add(commit.Entry{Key: kv.ExchangeKey(kv.SpaceExchange, at.Account, at.ID), Value: record.Encode(info)})
	g.CloseExchange(o, at, info, nil)
	return g.Err()
}
