package command

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mnemeproxy/mneme/server/admin"
	"github.com/mnemeproxy/mneme/server/api"
	"github.com/mnemeproxy/mneme/store"
)

// Key is the noun for service keys, which callers present.
type Key struct {
	Create KeyCreate `cmd:"" help:"Create a service key and show it once."`
	Import KeyImport `cmd:"" help:"Create the accounts and keys that a CSV file lists."`
	List   KeyList   `cmd:"" help:"List service keys, without their secrets."`
	Update KeyUpdate `cmd:"" help:"Change a key's label, expiry, limits, models, recall or trust in traces."`
	Rotate KeyRotate `cmd:"" help:"Replace a key with a new one like it; the old one expires."`
	Revoke KeyRevoke `cmd:"" help:"Revoke a service key, at once and for good."`
}

// KeyCreate is "mneme key create".
type KeyCreate struct {
	Target  `embed:""`
	Account string       `required:"" placeholder:"NAME" help:"Account that the key is for."`
	Scope   store.Scopes `default:"write,read" placeholder:"SCOPES" help:"What it may do, separated by commas: write, read, erase, admin, operator (default: ${default})."`
	Name    string       `placeholder:"LABEL" help:"A label to recognize the key by."`
	JSON    bool         `help:"Write the key and its settings as JSON."`

	KeySettings `embed:""`
}

// Run writes only the key to standard output, so that KEY=$(mneme key create ...) works.
func (c *KeyCreate) Run(ctx context.Context, s *Env) error {
	return c.manage(ctx, create, func(client *admin.Client) error {
		created, err := client.Keys().Create(ctx, api.NewKey{Account: c.Account, Scopes: c.Scope, Label: c.Name, KeySettings: c.asked(time.Now())})
		if err != nil {
			return err
		}
		return showCreated(s, created, c.JSON)
	})
}

// showCreated shows a new key, once.
func showCreated(s *Env, created api.CreatedKey, asJSON bool) error {
	if asJSON {
		return writeJSON(s.Out, created)
	}
	fmt.Fprintf(s.Err, "key %s of account %s may %s; it is shown this once, keep it safe:\n",
		created.ID, created.Account, strings.ReplaceAll(created.Scopes.String(), ",", ", "))
	fmt.Fprintln(s.Out, created.Secret)
	return nil
}

// KeyList is "mneme key list".
type KeyList struct {
	Target  `embed:""`
	Account string `placeholder:"NAME" help:"Only the keys of this account."`
	Revoked bool   `help:"List revoked keys too."`
	JSON    bool   `help:"Write a JSON array."`
}

// Run lists keys, oldest first.
func (c *KeyList) Run(ctx context.Context, s *Env) error {
	return c.manage(ctx, mustExist, func(client *admin.Client) error {
		keys, err := client.Keys().List(ctx, c.Account)
		if err != nil {
			return err
		}
		if !c.Revoked {
			keys = slices.DeleteFunc(keys, func(k store.Key) bool { return !k.Revoked.IsZero() })
		}
		if c.JSON {
			return writeJSON(s.Out, keys)
		}
		return c.show(s, keys)
	})
}

// show writes keys as a table that fits the terminal.
func (c *KeyList) show(s *Env, keys []store.Key) error {
	now := time.Now()
	rows := make([][]string, len(keys))
	for i, k := range keys {
		rows[i] = []string{
			k.ID, k.Account, k.Scopes.String(), orDash(k.Label), orDash(boundsLine(&k)),
			ago(now, k.Created), ago(now, k.LastUsed), tokensThisMonth(&k, now), stateOf(&k, now),
		}
	}
	return fitted(s.pages(), s.width(), []string{"KEY", "ACCOUNT", "SCOPES", "LABEL", "LIMITS", "CREATED", "LAST USED", "TOKENS THIS MONTH", "STATE"}, rows,
		"CREATED", "TOKENS THIS MONTH", "SCOPES", "LAST USED", "LIMITS", "ACCOUNT")
}

// boundsLine describes the restrictions of a key.
func boundsLine(k *store.Key) string {
	var parts []string
	if limits := limitsLine(k.Limits); limits != "" {
		parts = append(parts, limits)
	}
	if len(k.Models) > 0 {
		parts = append(parts, "models "+strings.Join(k.Models, " "))
	}
	if k.Recall != "" {
		parts = append(parts, "recall "+string(k.Recall))
	}
	return strings.Join(parts, ", ")
}

func stateOf(k *store.Key, now time.Time) string {
	switch {
	case !k.Revoked.IsZero():
		return "revoked " + ago(now, k.Revoked)
	case k.Expires.IsZero():
		return "valid"
	case now.Before(k.Expires):
		return "valid until " + k.Expires.Local().Format("2006-01-02 15:04")
	}
	return "expired " + ago(now, k.Expires)
}

func tokensThisMonth(k *store.Key, now time.Time) string {
	if k.Month != now.UTC().Format("2006-01") {
		return "0"
	}
	return strconv.FormatInt(k.MonthTokens, 10)
}

// KeyUpdate is "mneme key update ID".
type KeyUpdate struct {
	Target `embed:""`
	ID     string  `arg:"" name:"id" help:"The key's id, key_..., as key list shows it."`
	Name   *string `placeholder:"LABEL" help:"A label to recognize the key by."`
	JSON   bool    `help:"Write the key's settings as JSON."`

	KeySettings `embed:""`
}

// Run changes only what the flags name, from the next request on.
func (c *KeyUpdate) Run(ctx context.Context, s *Env) error {
	asked := api.KeyUpdate{Label: c.Name, KeySettings: c.asked(time.Now())}
	if asked == (api.KeyUpdate{}) {
		return errors.New("nothing to change; mneme key update --help lists the settings")
	}
	return c.manage(ctx, mustExist, func(client *admin.Client) error {
		key, err := client.Keys().Update(ctx, c.ID, asked)
		if err != nil {
			return err
		}
		if c.JSON {
			return writeJSON(s.Out, key)
		}
		fmt.Fprintf(s.Out, "key %s changed\n", key.ID)
		return nil
	})
}

// KeyRotate is "mneme key rotate ID".
type KeyRotate struct {
	Target  `embed:""`
	ID      string   `arg:"" name:"id" help:"The key's id, key_..., as key list shows it."`
	Overlap Lifetime `default:"24h" placeholder:"TIME" help:"How long the old key stays valid (default: ${default})."`
	JSON    bool     `help:"Write the new key and its settings as JSON."`
}

// Run makes the new key and sets the old one to expire.
func (c *KeyRotate) Run(ctx context.Context, s *Env) error {
	if c.Overlap == 0 {
		return errors.New("--overlap never would keep the old key valid; make a second key with: mneme key create")
	}
	return c.manage(ctx, mustExist, func(client *admin.Client) error {
		created, err := client.Keys().Rotate(ctx, c.ID, api.Rotation{Overlap: time.Duration(c.Overlap)})
		if err != nil {
			return err
		}
		fmt.Fprintf(s.Err, "key %s expires %s\n", c.ID, c.Overlap.from(time.Now()).Local().Format("2006-01-02 15:04"))
		return showCreated(s, created, c.JSON)
	})
}

// KeyRevoke is "mneme key revoke ID".
type KeyRevoke struct {
	Target `embed:""`
	ID     string `arg:"" name:"id" help:"The key's id, key_..., as key list shows it."`
}

// Run revokes the key. Revoking it again is not an error.
func (c *KeyRevoke) Run(ctx context.Context, s *Env) error {
	return c.manage(ctx, mustExist, func(client *admin.Client) error {
		if err := client.Keys().Revoke(ctx, c.ID); err != nil {
			return err
		}
		fmt.Fprintf(s.Out, "key %s revoked\n", c.ID)
		return nil
	})
}
