package command

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/mnemeproxy/mneme/server/admin"
	"github.com/mnemeproxy/mneme/store"
)

// Key is the noun for service keys: what callers present.
type Key struct {
	Create KeyCreate `cmd:"" help:"Create a service key and show it, this once."`
	List   KeyList   `cmd:"" help:"List service keys; their secrets are not kept."`
	Revoke KeyRevoke `cmd:"" help:"Make a service key invalid, at once and for good."`
}

// KeyCreate is "mneme key create".
type KeyCreate struct {
	Place   `embed:""`
	Account string       `required:"" placeholder:"NAME" help:"Account that the key is for."`
	Scope   store.Scopes `default:"write,read" placeholder:"SCOPES" help:"What it may do, with commas between: write, read, erase, admin (default: ${default})."`
	Name    string       `placeholder:"LABEL" help:"A label to know it by."`
	JSON    bool         `help:"Write the key and what is known of it as JSON."`
}

// Run writes nothing but the key to standard output, so that KEY=$(mneme key create ...) takes it.
func (c *KeyCreate) Run(ctx context.Context, s *Surroundings) error {
	return c.manage(ctx, create, func(client *admin.Client) error {
		created, err := client.CreateKey(ctx, admin.NewKey{Account: c.Account, Scopes: c.Scope, Label: c.Name})
		if err != nil {
			return err
		}
		if c.JSON {
			return writeJSON(s.Out, created)
		}
		fmt.Fprintf(s.Err, "key %s of account %s may %s; it is shown this once, keep it safe:\n",
			created.ID, created.Account, strings.ReplaceAll(created.Scopes.String(), ",", ", "))
		fmt.Fprintln(s.Out, created.Secret)
		return nil
	})
}

// KeyList is "mneme key list".
type KeyList struct {
	Place   `embed:""`
	Account string `placeholder:"NAME" help:"Only the keys of this account."`
	JSON    bool   `help:"Write a JSON array."`
}

// Run lists keys from the oldest on, revoked ones included.
func (c *KeyList) Run(ctx context.Context, s *Surroundings) error {
	return c.manage(ctx, mustExist, func(client *admin.Client) error {
		keys, err := client.Keys(ctx, c.Account)
		if err != nil {
			return err
		}
		if c.JSON {
			return writeJSON(s.Out, keys)
		}
		rows := make([][]string, len(keys))
		for i, k := range keys {
			state := "valid"
			if !k.Revoked.IsZero() {
				state = "revoked " + ago(time.Now(), k.Revoked)
			}
			rows[i] = []string{k.ID, k.Account, k.Scopes.String(), orDash(k.Label), ago(time.Now(), k.Created), state}
		}
		return table(s.Out, []string{"KEY", "ACCOUNT", "SCOPES", "LABEL", "CREATED", "STATE"}, rows)
	})
}

// KeyRevoke is "mneme key revoke ID".
type KeyRevoke struct {
	Place `embed:""`
	ID    string `arg:"" name:"id" help:"The key's id, key_..., as key list shows it."`
}

// Run revokes the key. A key that was revoked before stays so.
func (c *KeyRevoke) Run(ctx context.Context, s *Surroundings) error {
	return c.manage(ctx, mustExist, func(client *admin.Client) error {
		if err := client.RevokeKey(ctx, c.ID); err != nil {
			return err
		}
		fmt.Fprintf(s.Out, "key %s revoked\n", c.ID)
		return nil
	})
}
