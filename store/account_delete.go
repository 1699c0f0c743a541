package store

import (
	"context"
	"time"
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
		d.Deleted = time.Now().UTC()
		return s.keeper.Deletions.Begin(ctx, name, keys, d)
	})
	return d, err
}
