package store

import (
	"context"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/internal/commit"
	"github.com/mnemeproxy/mneme/store/internal/journal"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/internal/writing"
	"github.com/mnemeproxy/mneme/store/record"
)

// DescribeSession sets a person's description of a session.
func (s Archive) DescribeSession(account, id string, d record.Description) (*record.Session, error) {
	number, key, err := s.sessionOf(account, id)
	if err != nil {
		return nil, err
	}
	if err := d.Check(); err != nil {
		return nil, err
	}
	d = record.RedactDescription(s.credentials.Redactor(account), d)
	var described record.Session
	err = s.writer.Update(context.Background(), func(g *writing.Group, w *commit.Op) error {
		r, ref := g.Sessions.Session(kv.SessionRef{Account: number, ID: key})
		if r == nil {
			return record.NoSession(id)
		}
		d.Set(&r.Title, &r.Tags, &r.Note)
		described = r.Session
		g.Sessions.PutSession(w, ref, r)
		g.Sessions.Changes.NoteSession(ref)
		return nil
	})
	if err != nil {
		return nil, kv.AsStorageError(err, "session %s could not be changed", id)
	}
	return &described, nil
}

// DescribeExchange sets a person's description of an exchange that has ended.
func (s Archive) DescribeExchange(account, id string, d record.Description) (*record.ExchangeInfo, error) {
	number, known := s.accounts.Find(account)
	key, ok := kv.ParseExchangeID(id)
	if !known || !ok {
		return nil, record.NoExchange(id)
	}
	if d.Title != nil {
		return nil, codec.Invalid("title", "an exchange has no title; its session has one")
	}
	if err := d.Check(); err != nil {
		return nil, err
	}
	d = record.RedactDescription(s.credentials.Redactor(account), d)
	err := s.writer.Update(context.Background(), func(g *writing.Group, w *commit.Op) error {
		info, readable := journal.Latest(g.Group, number, key)
		switch {
		case info == nil:
			return record.NoExchange(id)
		case !readable:
			return codec.Errorf(codec.KindStorage, "exchange %s cannot be read; run mneme check", id)
		case info.Outcome == record.OutcomeOpen: // its end would overwrite it
			return codec.Errorf(codec.KindConflict, "exchange %s is still running; describe it when it has ended", id)
		}
		d.Set(nil, &info.Tags, &info.Note)
		g.Put(w, kv.ExchangeKey(kv.SpaceExchange, number, key), record.Encode(info))
		return nil
	})
	if err != nil {
		return nil, kv.AsStorageError(err, "exchange %s could not be changed", id)
	}
	return s.ExchangeInfo(account, id)
}
