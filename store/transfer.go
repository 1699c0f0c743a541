package store

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"math"
	"slices"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/conversation"
	"github.com/mnemeproxy/mneme/store/internal/blob"
	"github.com/mnemeproxy/mneme/store/internal/commit"
	"github.com/mnemeproxy/mneme/store/internal/journal"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/internal/recording"
	"github.com/mnemeproxy/mneme/store/internal/sessions"
	"github.com/mnemeproxy/mneme/store/internal/writing"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/redact"
)

// Export returns the selected exchanges of an account that have ended, oldest first, and their sessions, from one
// snapshot. Unreadable ones are named as [record.Damaged] and the export continues. An error ends it early. A session that was
// merged into another one stands for that one.
func (s Archive) Export(ctx context.Context, account string, sel record.Selection) iter.Seq2[record.Exported, error] {
	return func(yield func(record.Exported, error) bool) {
		err := s.export(ctx, account, sel, func(e record.Exported) error {
			if !yield(e, nil) {
				return errStopped
			}
			return nil
		})
		if err != nil && err != errStopped { //nolint:errorlint // errStopped is passed on unchanged
			yield(record.Exported{}, kv.AsStorageError(err, "the export could not be finished; run mneme check"))
		}
	}
}

// errStopped ends an export whose reader has stopped.
var errStopped = codec.Errorf(codec.KindInternal, "stopped")

func (s *core) export(ctx context.Context, account string, sel record.Selection, give func(record.Exported) error) error {
	number, err := s.accounts.Number(account)
	if err != nil {
		return err
	}
	if err := sel.Check(); err != nil {
		return err
	}
	given := make(map[kv.SessionID]struct{})
	return s.db.View(func(tx *badger.Txn) error {
		sel := s.sessions.FollowMerged(tx, number, sel)
		return journal.EachSelected(ctx, tx, number, &sel, false, func(of journal.Selected) error {
			switch {
			case of.Damaged != nil:
				return give(damaged(of.ID.String(), of.Damaged))
			case of.Info.Outcome == record.OutcomeOpen:
				return nil
			}
			if err := s.exportSession(ctx, tx, number, &sel, of.Info, given, give); err != nil {
				return err
			}
			x, err := journal.Exchange(ctx, tx, number, of.ID, of.Info, math.MaxInt64)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil {
				return give(damaged(of.ID.String(), err))
			}
			return give(record.Exported{Exchange: x})
		})
	})
}

func damaged(id string, err error) record.Exported {
	return record.Exported{Damaged: &record.Damaged{ID: id, Error: err.Error()}}
}

func (s *core) exportSession(ctx context.Context, tx *badger.Txn, account kv.AccountNumber, sel *record.Selection, info *record.ExchangeInfo,
	given map[kv.SessionID]struct{}, give func(record.Exported) error,
) error {
	id, ok := kv.ParseSessionID(info.Session)
	if _, done := given[id]; done || !ok {
		return nil
	}
	given[id] = struct{}{}
	ref := kv.SessionRef{Account: account, ID: id}
	var r *record.StoredSession
	err := s.db.View(func(now *badger.Txn) (err error) { // tx may be minutes old
		r, err = s.sessions.Get(now, ref)
		return err
	})
	if errors.Is(err, badger.ErrKeyNotFound) {
		r, err = s.sessions.Get(tx, ref)
	}
	if err != nil {
		return give(damaged(id.String(), err))
	}
	written, err := getSummary(tx, ref)
	if err != nil {
		return give(damaged(id.String(), err))
	}
	if written != nil {
		whole, err := takesAll(ctx, tx, sel, ref)
		if err != nil {
			return err
		}
		if !whole {
			written = nil
		}
	}
	return give(record.Exported{Session: &r.Session, Summary: written})
}

// takesAll reports whether every exchange of a session is selected.
func takesAll(ctx context.Context, tx *badger.Txn, sel *record.Selection, ref kv.SessionRef) (bool, error) {
	anyOfIt := len(sel.Exchanges)+len(sel.Sessions) == 0 || slices.Contains(sel.Sessions, ref.ID.String())
	err := kv.EachItem(ctx, tx, kv.MemberPrefix(ref.Account, ref.ID), func(item *badger.Item) error {
		id := kv.ExchangeID(item.Key()[len(item.Key())-len(kv.ExchangeID{}):])
		if !anyOfIt && !slices.Contains(sel.Exchanges, id.String()) {
			return kv.ErrEnough
		}
		if info, err := journal.Info(tx, ref.Account, id); err != nil || !sel.Matches(info) { // whether a damaged one is selected is unknown
			return kv.ErrEnough
		}
		return nil
	})
	if errors.Is(err, kv.ErrEnough) {
		return false, nil
	}
	return err == nil, err
}

// Import imports one element of an export into an account, which need not be the one it came from. Ids are kept. If the
// id exists already, or a client's history repeats an answer of another session, nothing changes and taken is false. A session must be imported before its exchanges, or they get a
// new one by their evidence.
func (s Archive) Import(ctx context.Context, account string, e record.Exported) (taken bool, err error) {
	number, err := s.accounts.Number(account)
	if err != nil {
		return false, err
	}
	if err := s.writer.Gate.Admits(); err != nil {
		return false, err
	}
	switch {
	case e.Session != nil:
		taken, err = s.importSession(ctx, account, number, e.Session, e.Summary)
	case e.Exchange != nil:
		taken, err = s.importExchange(ctx, account, number, e.Exchange)
	}
	if err != nil {
		return false, kv.AsStorageError(err, "the import could not be stored")
	}
	return taken, nil
}

func (s *core) importSession(ctx context.Context, account string, number kv.AccountNumber, session *record.Session, written *record.SessionSummary) (taken bool, err error) {
	id, ok := kv.ParseSessionID(session.ID)
	if !ok {
		return false, codec.Invalid("id", "%q is not a session id", session.ID)
	}
	if err := record.CheckSession(session); err != nil {
		return false, err
	}
	redactor := s.credentials.Redactor(account)
	var summary []byte
	if written != nil {
		if summary, err = written.Record(redactor); err != nil {
			return false, err
		}
	}
	err = s.writer.UpdateOf(ctx, number, func(g *writing.Group, w *commit.Op) error {
		ref := kv.SessionRef{Account: number, ID: id}
		if g.Sessions.At(ref) != nil {
			return nil
		}
		taken = true
		r := &record.StoredSession{Session: *session}
		record.RedactSession(redactor, &r.Session)
		r.Account, r.Merged, r.Error = account, "", nil
		r.Exchanges, r.Completed, r.Auxiliary, r.Usage, r.Cost, r.Prompts = 0, 0, 0, record.UsageInfo{}, record.Spending{}, nil // counted again as exchanges are imported
		g.Sessions.Import(w, ref, r)
		if summary != nil {
			g.Put(w, sessions.SummaryKey(ref), summary)
		}
		if summary != nil || r.Title != "" {
			g.Sessions.Changes.NoteSession(ref)
		}
		return nil
	})
	return taken, err
}

func (s *core) importExchange(ctx context.Context, account string, number kv.AccountNumber, x *record.Exchange) (taken bool, err error) {
	id, ok := kv.ParseExchangeID(x.ID)
	switch {
	case !ok:
		return false, codec.Invalid("id", "%q is not an exchange id", x.ID)
	case x.Outcome == record.OutcomeOpen:
		return false, codec.Invalid("outcome", "an exchange that is still open cannot be imported")
	case x.Outcome == record.OutcomeDamaged:
		return false, codec.Invalid("outcome", "an exchange that is damaged cannot be imported")
	}
	if err := record.CheckIDs(x.ChatKey, x.ExternalSession, x.NativeSession, x.NativeAgent); err != nil {
		return false, err
	}
	if err := (&record.Description{Tags: x.Tags, Note: &x.Note}).Check(); err != nil {
		return false, err
	}
	if err := record.CheckImport(&x.ExchangeInfo, time.Now()); err != nil {
		return false, err
	}
	x, spans := s.redactExchange(account, x)
	info := x.ExchangeInfo
	info.Account, info.Session, info.Imported = account, "", time.Now().UTC()
	info.Disown()
	info.ModelAsked, info.ModelSent = record.ModelName(info.ModelAsked), record.ModelName(info.ModelSent)
	info.RequestSize, info.ResponseSize = int64(len(x.RawRequest)), int64(len(x.RawResponse))
	record := record.Encode(&info)
	s.writer.Planning.RLock()
	defer s.writer.Planning.RUnlock()
	if now, ok := s.accounts.Find(account); !ok || now != number {
		return false, codec.Errorf(codec.KindNotFound, "no account %q", account)
	}
	plan := s.planner.Plan(number, &blob.Body{Bytes: x.RawRequest, Blocks: spans})
	err = s.writer.Update(ctx, func(g *writing.Group, w *commit.Op) error {
		if g.Has(kv.ExchangeKey(kv.SpaceExchange, number, id)) || repeats(g, number, x.Session, &info) {
			return nil
		}
		taken = true
		importSessionOf(g, w, number, id, x.Session, &info)
		g.Put(w, kv.ExchangeKey(kv.SpaceRequest, number, id), g.Blobs.AddBody(number, plan))
		for part, rest := uint32(0), x.RawResponse; len(rest) > 0; part++ {
			n := min(len(rest), recording.PartSize)
			g.Blobs.AddPart(number, id, part, blob.EncodeAnswer(rest[:n], nil))
			rest = rest[n:]
		}
		g.Put(w, kv.ExchangeKey(kv.SpaceExchange, number, id), record)
		g.CloseExchange(w, kv.ExchangeRef{Account: number, ID: id}, &info, nil)
		return nil
	})
	return taken, err
}

// redactExchange masks an exchange from elsewhere, where less may have been masked. It also returns where the request
// may be split.
func (s *core) redactExchange(account string, x *record.Exchange) (_ *record.Exchange, spans []codec.Span) {
	var envelope codec.Envelope
	if envelope.Read(x.RawRequest) == nil {
		spans = envelope.Blocks(nil)
	}
	r := s.credentials.Redactor(account)
	if r == nil {
		return x, spans
	}
	masked := *x
	var request redact.Tally
	masked.RawRequest, request = r.Body(x.RawRequest, spans, nil)
	masked.RawResponse = bytes.Clone(x.RawResponse)
	answer := s.recorder.MaskWhole(x.Surface, r, masked.RawResponse)
	record.RedactInfo(r, &masked.ExchangeInfo, &request)
	before, beforeAnswer := record.Tallies(x.Redactions)
	before.Join(request)
	beforeAnswer.Join(answer)
	masked.Redactions = record.Redactions(before, beforeAnswer)
	return &masked, spans
}

// importSessionOf puts an exchange into the session that it had, or into the one that its evidence identifies.
func importSessionOf(g *writing.Group, w *commit.Op, account kv.AccountNumber, id kv.ExchangeID, had string, info *record.ExchangeInfo) {
	session, ok := kv.ParseSessionID(had)
	ref := kv.SessionRef{Account: account, ID: session}
	if r := g.Sessions.At(ref); ok && r != nil && r.Merged == "" {
		r.Exchanges++
		r.NoteOrigin(info.Client(), info.Project)
		g.Sessions.PutSession(w, ref, r)
		g.Put(w, kv.MemberKey(account, session, id), []byte{})
		g.Put(w, kv.ExchangeKey(kv.SpaceBelongs, account, id), bytes.Clone(session[:]))
		return
	}
	if had == "" {
		return
	}
	evidence := conversation.EvidenceOf(&record.Opening{
		ChatKey: info.ChatKey, ExternalSession: info.ExternalSession,
		NativeSession: info.NativeSession, NativeAgent: info.NativeAgent, Auxiliary: info.Auxiliary,
	}, info)
	evidence.Refused = info.Format == ""
	g.Sessions.Open(w, kv.ExchangeRef{Account: account, ID: id}, evidence)
}
