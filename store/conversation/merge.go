package conversation

import (
	"cmp"
	"slices"
	"strings"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/record"
)

// ErasingSession returns the error of a merge or split of a session that is being erased.
func ErasingSession(id string) error {
	return codec.Errorf(codec.KindConflict, "%s is being erased; merge or split it when the receipt of the erasure says done", id)
}

// Merge reduces a session to a reference to the target, and moves what was known of it to the target, whose id
// it returns. The exchanges still have to move.
func Merge(in SessionStore, from, into kv.SessionID) (kv.SessionID, error) {
	target, intoID := Follow(in.At, into)
	if target == nil {
		return intoID, record.NoSession(into.String())
	}
	r, source := Follow(in.At, from)
	switch {
	case r == nil:
		return intoID, record.NoSession(from.String())
	case source != from:
		return intoID, codec.Errorf(codec.KindConflict, "%s was merged into %s already", from, r.ID)
	case source == intoID:
		return intoID, codec.Errorf(codec.KindConflict, "a session cannot be merged into itself")
	}
	if r.Reply != nil {
		in.PutLink(r.Reply, source)
		r.Links = append(r.Links, r.Reply)
		target.Replied = true
	}
	for _, link := range r.Links {
		led, ok := in.Link(link)
		switch {
		case !ok || led != source:
		case record.IsBeginLink(link): // the target has its own place
			in.Unlink(link)
		default:
			in.PutLink(link, intoID)
			target.Links = append(target.Links, link)
		}
	}
	if r.Created.Before(target.Created) {
		target.Created = r.Created
	}
	if r.Updated.After(target.Updated) {
		target.Updated = r.Updated
	}
	for _, model := range r.Models {
		if len(target.Models) < record.MaxSessionModels && !slices.Contains(target.Models, model) {
			target.Models = append(target.Models, model)
		}
	}
	target.NoteOrigin(r.Client, r.Project)
	target.Replied = target.Replied || r.Replied
	in.Put(intoID, target)
	in.Put(source, &record.StoredSession{Session: record.Session{
		ID: r.ID, Account: r.Account, Created: r.Created, Updated: r.Updated, Merged: target.ID,
		Exchanges: r.Exchanges, Completed: r.Completed, Auxiliary: r.Auxiliary, Usage: r.Usage, Cost: r.Cost,
	}})
	return intoID, nil
}

// keepDescription adds to a session what people have written about another one, before that is merged into it, and
// reports whether there is room for all of it. A second title becomes part of the note.
func keepDescription(in SessionStore, from, into kv.SessionID) bool {
	source, target := in.At(from), in.At(into)
	if source == nil || target == nil {
		return false
	}
	title, tags, notes := cmp.Or(target.Title, source.Title), slices.Clone(target.Tags), []string{target.Note}
	for _, tag := range source.Tags {
		if !slices.Contains(tags, tag) {
			tags = append(tags, tag)
		}
	}
	if source.Title != title {
		notes = append(notes, source.Title)
	}
	if source.Note != target.Note {
		notes = append(notes, source.Note)
	}
	note := strings.Join(slices.DeleteFunc(notes, func(text string) bool { return text == "" }), "\n")
	d := record.Description{Title: &title, Tags: tags, Note: &note}
	if d.Check() != nil {
		return false
	}
	d.Set(&target.Title, &target.Tags, &target.Note)
	in.Put(into, target)
	return true
}

// CheckSplit returns an error if a session cannot be split at an exchange: it does not have that exchange, or none before.
func CheckSplit(session, exchange string, there, first bool) error {
	switch {
	case !there:
		return codec.Errorf(codec.KindNotFound, "%s is not in session %s", exchange, session)
	case first:
		return codec.Errorf(codec.KindConflict, "%s is the first exchange of %s: nothing would be left", exchange, session)
	}
	return nil
}

// Recount adds an exchange to the counts of a session, or subtracts it if sign is -1.
func Recount(in SessionStore, id kv.SessionID, info *record.ExchangeInfo, sign int64) {
	r := in.At(id)
	if r == nil {
		return
	}
	r.Exchanges += sign
	if info.Outcome != record.OutcomeOpen {
		r.Count(info, sign)
		r.Sketch(info, sign)
	}
	in.Put(id, r)
}
