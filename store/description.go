package store

import (
	"context"
	"slices"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/internal/kv"
)

const (
	maxTitle = 500
	maxNote  = 4000
	maxTags  = 50
	maxTag   = 100
)

// Description is a person's title, tags and note for a session or an exchange; a nil part stays unchanged. An exchange
// has no title.
type Description struct {
	Title *string
	Tags  []string
	Note  *string
}

func (d *Description) check() error {
	if d.Title != nil && len(*d.Title) > maxTitle {
		return codec.Invalid("title", "a title has at most %d bytes", maxTitle)
	}
	if d.Note != nil && len(*d.Note) > maxNote {
		return codec.Invalid("note", "a note has at most %d bytes", maxNote)
	}
	if len(d.Tags) > maxTags || slices.ContainsFunc(d.Tags, func(tag string) bool { return tag == "" || len(tag) > maxTag }) {
		return codec.Invalid("tags", "there are at most %d tags, of 1 to %d bytes", maxTags, maxTag)
	}
	return nil
}

// set changes the parts that are given.
func (d *Description) set(title *string, tags *[]string, note *string) {
	if d.Title != nil {
		*title = *d.Title
	}
	if d.Tags != nil {
		*tags = d.Tags
	}
	if d.Note != nil {
		*note = *d.Note
	}
}

// DescribeSession sets a person's description of a session.
func (s Archive) DescribeSession(account, id string, d Description) (*Session, error) {
	number, key, err := s.sessionOf(account, id)
	if err != nil {
		return nil, err
	}
	if err := d.check(); err != nil {
		return nil, err
	}
	d = redactDescription(s.credentials.Redactor(account), d)
	var described Session
	err = s.update(context.Background(), func(g *commitGroup, w *operation) error {
		r, ref := g.session(sessionRef{number, key})
		if r == nil {
			return NoSession(id)
		}
		d.set(&r.Title, &r.Tags, &r.Note)
		described = r.Session
		g.putSession(w, ref, r)
		g.sessionChanged(ref)
		return nil
	})
	if err != nil {
		return nil, kv.AsStorageError(err, "session %s could not be changed", id)
	}
	return &described, nil
}

// DescribeExchange sets a person's description of an exchange that has ended.
func (s Archive) DescribeExchange(account, id string, d Description) (*ExchangeInfo, error) {
	number, known := s.accounts.Find(account)
	key, ok := kv.ParseExchangeID(id)
	if !known || !ok {
		return nil, NoExchange(id)
	}
	if d.Title != nil {
		return nil, codec.Invalid("title", "an exchange has no title; its session has one")
	}
	if err := d.check(); err != nil {
		return nil, err
	}
	d = redactDescription(s.credentials.Redactor(account), d)
	err := s.update(context.Background(), func(g *commitGroup, w *operation) error {
		info, readable := g.info(number, key)
		switch {
		case info == nil:
			return NoExchange(id)
		case !readable:
			return codec.Errorf(codec.KindStorage, "exchange %s cannot be read; run mneme check", id)
		case info.Outcome == OutcomeOpen: // its end would overwrite it
			return codec.Errorf(codec.KindConflict, "exchange %s is still running; describe it when it has ended", id)
		}
		d.set(nil, &info.Tags, &info.Note)
		g.put(w, kv.ExchangeKey(kv.SpaceExchange, number, key), encodeFields(info))
		return nil
	})
	if err != nil {
		return nil, kv.AsStorageError(err, "exchange %s could not be changed", id)
	}
	return s.ExchangeInfo(account, id)
}
