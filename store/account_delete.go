package store

import (
	"context"
	"errors"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/internal/commit"
	"github.com/mnemeproxy/mneme/store/internal/identity"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/internal/writing"
	"github.com/mnemeproxy/mneme/store/record"
)

// AccountDeletion reports what is deleted with an account.
type AccountDeletion struct {
	Account     string    `json:"account"`
	DryRun      bool      `json:"dry_run,omitempty"`
	Exchanges   int64     `json:"exchanges"`
	Sessions    int64     `json:"sessions"`
	Bytes       int64     `json:"bytes"` // in the database
	Keys        int       `json:"keys"`
	Credentials int       `json:"credentials"`
	Deleted     time.Time `json:"deleted,omitzero"` // since when none of it can be read
}

// Delete deletes an account with everything it owns: exchanges, sessions, keys, credentials, receipts. From the commit
// on, none of it can be read or called, and the name is free. Its data is freed in the background, that of running
// exchanges when they have ended. With dryRun it only counts.
func (s Accounts) Delete(ctx context.Context, name string, dryRun bool) (AccountDeletion, error) {
	usage, err := Archive{s.core}.Usage(ctx, name)
	if err != nil {
		return AccountDeletion{}, err
	}
	providers, err := s.credentials.List(name)
	if err != nil {
		return AccountDeletion{}, err
	}
	d := AccountDeletion{
		Account: name, DryRun: dryRun, Exchanges: usage.Exchanges, Sessions: usage.Sessions, Bytes: usage.Stored(),
		Keys: len(s.keys.Keys().List(name)), Credentials: len(providers),
	}
	if dryRun {
		return d, nil
	}
	// The commit frees the name: a key of this account must not open another account of that name.
	err = s.keys.Without(name, func(keys []string) error {
		account, ok := s.withdrawAccount(name)
		if !ok {
			return codec.Errorf(codec.KindNotFound, "no account %q", name)
		}
		d.Deleted = time.Now().UTC()
		if err := s.commitDeletion(ctx, account, keys, d); err != nil {
			s.accounts.Put(account)
			return kv.AsStorageError(err, "account %q could not be deleted", name)
		}
		s.keeper.addDeletion(account.Number)
		return nil
	})
	return d, err
}

// withdrawAccount removes an account from the table. Operations that found it there before are in the writer's queue.
func (s *core) withdrawAccount(name string) (identity.AccountRecord, bool) {
	s.writer.Planning.Lock()
	defer s.writer.Planning.Unlock()
	return s.accounts.Remove(name)
}

// commitDeletion deletes the records of the account itself, and notes that its data has to go.
func (s *core) commitDeletion(ctx context.Context, account identity.AccountRecord, keys []string, d AccountDeletion) error {
	record, err := kv.EncodeRecord(d)
	if err != nil {
		return err
	}
	return s.writer.MakeRoom(ctx, func(g *writing.Group, w *commit.Op) error {
		if err := s.roster.Release(g.Txn(w), account.Name); err != nil {
			return err
		}
		g.Put(w, kv.SpaceKeyOf(kv.SpaceDeletion, account.Number), record)
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

// finishDeletion frees the data of a deleted account, resuming where it stopped.
func (s *core) finishDeletion(ctx context.Context, account kv.AccountNumber) error {
	e := new(record.Erasure)
	everything := record.Selection{All: true}
	if err := s.eraseSelection(ctx, account, &everything, e, func(*writing.Group, *commit.Op) error { return nil }); err != nil {
		return err
	}
	if e.Open > 0 {
		return errStillRunning
	}
	for _, space := range ownedSpaces {
		if err := s.writer.DeletePrefix(ctx, s.db, kv.SpaceKeyOf(space, account)); err != nil {
			return err
		}
	}
	return s.writer.MakeRoom(ctx, func(g *writing.Group, w *commit.Op) error {
		g.Put(w, kv.SpaceKeyOf(kv.SpaceDeletion, account), nil)
		return nil
	})
}

// ownedSpaces are the kinds of records that belong to an account. Exchanges are erased one by one before that, so that
// their turns leave the indexes.
var ownedSpaces = [...]byte{
	kv.SpaceExchange, kv.SpaceOpen, kv.SpaceRequest, kv.SpaceResponse, kv.SpaceBlock, kv.SpaceNode, kv.SpaceSession, kv.SpaceMember, kv.SpaceBelongs,
	kv.SpaceLink, kv.SpaceTurn, kv.SpaceHistory, kv.SpaceMove, kv.SpaceLedger, kv.SpaceKept, kv.SpaceVector, kv.SpaceErasure,
	kv.SpaceCredential, kv.SpaceSummary, kv.SpaceUnsummarized, kv.SpaceSummaryTokens, kv.SpaceRollup, kv.SpaceRecollection, kv.SpaceQuoted,
}

// unfinishedDeletions finds the accounts whose data an earlier process did not free.
func (s *core) unfinishedDeletions() (accounts []kv.AccountNumber) {
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

// runDeletions frees the data of deleted accounts. What cannot be freed yet is retried later.
func (s *core) runDeletions(ctx context.Context) {
	for ctx.Err() == nil {
		account, ok := s.keeper.takeDeletion()
		if !ok {
			return
		}
		err := s.finishDeletion(ctx, account)
		if err == nil || ctx.Err() != nil {
			continue
		}
		if !errors.Is(err, errStillRunning) {
			s.log.Error("the data of a deleted account could not be freed; it is tried again", "error", err)
		}
		time.AfterFunc(retryDeletion, func() { s.keeper.addDeletion(account) })
	}
}

// retryDeletion is the wait before a deletion is retried, after a failure or while exchanges are running.
const retryDeletion = time.Second
