package upkeep

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/internal/commit"
	"github.com/mnemeproxy/mneme/store/internal/files"
	"github.com/mnemeproxy/mneme/store/internal/identity"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/internal/writing"
	"github.com/mnemeproxy/mneme/store/record"
)

// Deletions frees what deleted accounts owned.
type Deletions struct {
	db       *files.Database
	writer   *writing.Writer
	accounts *identity.AccountTable
	roster   *identity.Roster
	erasures *Erasures
	log      *slog.Logger

	queue queue[kv.AccountNumber]
}

// Begin deletes an account and its keys. From the commit on, none of it can be read or called, and the name is free. The rest
// is freed in the background, of which the store has report until then.
func (s *Deletions) Begin(ctx context.Context, name string, keys []string, report any) error {
	account, ok := s.withdraw(name)
	if !ok {
		return codec.Errorf(codec.KindNotFound, "no account %q", name)
	}
	if err := s.commit(ctx, account, keys, report); err != nil {
		s.accounts.Put(account)
		return kv.AsStorageError(err, "account %q could not be deleted", name)
	}
	s.queue.add(account.Number)
	return nil
}

// withdraw removes an account from the table. Operations that found it there before are in the writer's queue.
func (s *Deletions) withdraw(name string) (identity.AccountRecord, bool) {
	s.writer.Planning.Lock()
	defer s.writer.Planning.Unlock()
	return s.accounts.Remove(name)
}

// commit deletes the records of the account itself, and notes that its data has to go.
func (s *Deletions) commit(ctx context.Context, account identity.AccountRecord, keys []string, report any) error {
	value, err := kv.EncodeRecord(report)
	if err != nil {
		return err
	}
	return s.writer.MakeRoom(ctx, func(g *writing.Group, w *commit.Op) error {
		if err := s.roster.Release(g.Txn(w), account.Name); err != nil {
			return err
		}
		g.Put(w, kv.SpaceKeyOf(kv.SpaceDeletion, account.Number), value)
		g.Put(w, kv.NameKey(kv.SpaceAccount, account.Name), nil)
		for _, id := range keys {
			g.Put(w, kv.NameKey(kv.SpaceKey, id), nil)
			g.Put(w, kv.NameKey(kv.SpaceKeyUse, id), nil)
		}
		return nil
	})
}

// errStillRunning means that exchanges of a deleted account have not ended yet.
var errStillRunning = errors.New("exchanges of a deleted account are still running")

// finish frees the data of a deleted account, resuming where it stopped.
func (s *Deletions) finish(ctx context.Context, account kv.AccountNumber) error {
	e := new(record.Erasure)
	everything := record.Selection{All: true}
	if err := s.erasures.erase(ctx, account, &everything, e, func(*writing.Group, *commit.Op) error { return nil }); err != nil {
		return err
	}
	if e.Open > 0 {
		return errStillRunning
	}
	for _, space := range Owned {
		if err := s.writer.DeletePrefix(ctx, s.db, kv.SpaceKeyOf(space, account)); err != nil {
			return err
		}
	}
	return s.writer.MakeRoom(ctx, func(g *writing.Group, w *commit.Op) error {
		g.Put(w, kv.SpaceKeyOf(kv.SpaceDeletion, account), nil)
		return nil
	})
}

// Owned are the kinds of records that belong to an account. Exchanges are erased one by one before that, so that
// their turns leave the indexes.
var Owned = [...]byte{
	kv.SpaceExchange, kv.SpaceOpen, kv.SpaceRequest, kv.SpaceResponse, kv.SpaceBlock, kv.SpaceNode, kv.SpaceSession, kv.SpaceMember, kv.SpaceBelongs,
	kv.SpaceLink, kv.SpaceTurn, kv.SpaceHistory, kv.SpaceMove, kv.SpaceLedger, kv.SpaceKept, kv.SpaceVector, kv.SpaceErasure,
	kv.SpaceCredential, kv.SpaceSummary, kv.SpaceUnsummarized, kv.SpaceSummaryTokens, kv.SpaceRollup, kv.SpaceRecollection, kv.SpaceQuoted,
}

// unfinished finds the accounts whose data an earlier process did not free.
func (s *Deletions) unfinished() (accounts []kv.AccountNumber) {
	err := kv.EachRecord(s.db, []byte{kv.SpaceDeletion}, func(key, _ []byte) error {
		if number, ok := kv.SplitAccountKey(key); ok {
			accounts = append(accounts, number)
		}
		return nil
	})
	if err != nil {
		s.log.Error("the deleted accounts cannot be read", "error", err)
	}
	return accounts
}

// runQueued frees the data of deleted accounts. What cannot be freed yet is retried later.
func (s *Deletions) runQueued(ctx context.Context) {
	for ctx.Err() == nil {
		account, ok := s.queue.take()
		if !ok {
			return
		}
		err := s.finish(ctx, account)
		if err == nil || ctx.Err() != nil {
			continue
		}
		if !errors.Is(err, errStillRunning) {
			s.log.Error("the data of a deleted account could not be freed; it is tried again", "error", err)
		}
		time.AfterFunc(retryDeletion, func() { s.queue.add(account) })
	}
}

// retryDeletion is the wait before a deletion is retried, after a failure or while exchanges are running.
const retryDeletion = time.Second
