package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/mnemeproxy/mneme/server/admin"
	"github.com/mnemeproxy/mneme/server/api"
	"github.com/mnemeproxy/mneme/server/config"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/record"
)

// Account is the noun for the owner of data, service keys and provider credentials.
type Account struct {
	List       AccountList       `cmd:"" help:"List accounts and the providers each has a credential for."`
	Create     AccountCreate     `cmd:"" help:"Create an account."`
	Update     AccountUpdate     `cmd:"" help:"Set the budgets of an account."`
	Delete     AccountDelete     `cmd:"" help:"Delete an account with everything it owns."`
	Credential AccountCredential `cmd:"" help:"Manage an account's own provider credentials."`
	Retention  AccountRetention  `cmd:"" help:"Set how long and how much is kept of an account."`
}

// AccountList is "mneme account list".
type AccountList struct {
	Target `embed:""`
	JSON   bool `help:"Write a JSON array."`
}

// Run lists accounts by name.
func (c *AccountList) Run(ctx context.Context, s *Env) error {
	return c.manage(ctx, mustExist, func(client *admin.Client) error {
		accounts, err := client.Accounts().List(ctx)
		if err != nil {
			return err
		}
		if c.JSON {
			return writeJSON(s.Out, accounts)
		}
		rows := make([][]string, len(accounts))
		for i, a := range accounts {
			rows[i] = []string{a.Name, ago(time.Now(), a.Created), orDash(strings.Join(a.Credentials, ", ")), orDash(strings.Join(budgetParts(a.Budget), ", "))}
		}
		return table(s.Out, []string{"ACCOUNT", "CREATED", "OWN CREDENTIALS", "BUDGET"}, rows)
	})
}

// AccountCreate is "mneme account create NAME".
type AccountCreate struct {
	Target `embed:""`
	Name   string `arg:"" help:"Name of the account: 1 to 64 of a-z, 0-9, '.', '_' and '-'."`
	JSON   bool   `help:"Write the account as JSON."`
}

// Run creates the account; an existing name is an error.
func (c *AccountCreate) Run(ctx context.Context, s *Env) error {
	return c.manage(ctx, create, func(client *admin.Client) error {
		account, err := client.Accounts().Create(ctx, c.Name)
		if err != nil {
			return err
		}
		if c.JSON {
			return writeJSON(s.Out, account)
		}
		fmt.Fprintf(s.Out, "account %s created; give it a key with: mneme key create --account %s\n", account.Name, account.Name)
		return nil
	})
}

// AccountUpdate is "mneme account update NAME".
type AccountUpdate struct {
	Target         `embed:""`
	Name           string  `arg:"" help:"Name of the account."`
	BudgetUSDDay   *Budget `name:"budget-usd-day" placeholder:"USD" help:"US dollars per day (UTC), of all its keys together; none: no budget."`
	BudgetUSDMonth *Budget `name:"budget-usd-month" placeholder:"USD" help:"US dollars per calendar month (UTC), likewise."`
	BudgetUSDBurst *Budget `name:"budget-usd-burst" placeholder:"USD" help:"US dollars within the last minutes, likewise; see --burst-minutes."`
	BurstMinutes   *Limit  `placeholder:"N" help:"Minutes of a burst; default: 10."`
	JSON           bool    `help:"Write the account as JSON."`
}

// Run sets what the flags name, from the next request on.
func (c *AccountUpdate) Run(ctx context.Context, s *Env) error {
	asked := api.BudgetChange{Day: (*record.USD)(c.BudgetUSDDay), Month: (*record.USD)(c.BudgetUSDMonth), Burst: (*record.USD)(c.BudgetUSDBurst), BurstMinutes: (*int64)(c.BurstMinutes)}
	if asked == (api.BudgetChange{}) {
		return errors.New("nothing to change; mneme account update --help lists the settings")
	}
	for _, amount := range []*record.USD{asked.Day, asked.Month} {
		if amount != nil && *amount < 0 {
			*amount = 0 // the server has no default budgets that this could differ from
		}
	}
	return c.manage(ctx, mustExist, func(client *admin.Client) error {
		account, err := client.Accounts().Update(ctx, c.Name, asked)
		if err != nil {
			return err
		}
		if c.JSON {
			return writeJSON(s.Out, account)
		}
		fmt.Fprintf(s.Out, "account %s changed\n", account.Name)
		return nil
	})
}

// AccountDelete is "mneme account delete NAME".
type AccountDelete struct {
	Target `embed:""`
	Name   string `arg:"" help:"Name of the account."`
	Yes    bool   `xor:"what" help:"Confirm; it cannot be undone. Without this, nothing is deleted."`
	DryRun bool   `xor:"what" help:"Show what would be deleted, and delete nothing."`
	JSON   bool   `help:"Write the receipt as JSON."`
}

// Run deletes the account if that is confirmed, and otherwise shows what would be deleted.
func (c *AccountDelete) Run(ctx context.Context, s *Env) error {
	return c.manage(ctx, mustExist, func(client *admin.Client) error {
		d, err := client.Accounts().Delete(ctx, c.Name, !c.Yes)
		if err != nil {
			return err
		}
		if c.JSON {
			err = writeJSON(s.Out, d)
		} else {
			what := "account " + c.Name
			if !c.Yes {
				what += " would be deleted"
			}
			fmt.Fprintf(s.Out, "%s: %s, %s, %s, %s, %s\n", what, counted(d.Exchanges, "exchange"),
				counted(d.Sessions, "session"), amount(d.Bytes), counted(d.Keys, "key"), counted(d.Credentials, "credential"))
		}
		switch {
		case err != nil || c.DryRun:
			return err
		case !c.Yes:
			return errors.New("nothing was deleted; add --yes to delete it for good")
		}
		fmt.Fprintln(s.Err, "deleted; its space is freed within minutes")
		return nil
	})
}

// AccountCredential is the noun for an account's own secrets for providers.
type AccountCredential struct {
	Set    CredentialSet    `cmd:"" help:"Set a credential; the secret is read from standard input."`
	Remove CredentialRemove `cmd:"" help:"Remove a credential."`
}

// CredentialSet is "mneme account credential set ACCOUNT PROVIDER".
type CredentialSet struct {
	Target   `embed:""`
	Account  string `arg:"" help:"Name of the account."`
	Provider string `arg:"" help:"Name of the provider: anthropic, openai, gemini, deepseek or a configured one."`
}

// Run reads the secret, without showing it on a terminal, and replaces an earlier one.
func (c *CredentialSet) Run(ctx context.Context, s *Env) error {
	if err := warnOfUnknownProvider(c.StoreFlags, c.Provider, s.Err); err != nil {
		return err
	}
	secret, err := readSecret(ctx, s, fmt.Sprintf("Credential of account %s for %s (not shown): ", c.Account, c.Provider))
	if err != nil {
		return err
	}
	return c.manage(ctx, create, func(client *admin.Client) error {
		if err := client.Accounts().SetCredential(ctx, c.Account, c.Provider, secret); err != nil {
			return err
		}
		fmt.Fprintf(s.Out, "credential of account %s for %s set\n", c.Account, c.Provider)
		return nil
	})
}

// warnOfUnknownProvider only warns, because the running server may have another configuration than this command.
func warnOfUnknownProvider(place StoreFlags, provider string, w io.Writer) error {
	cfg, err := place.load()
	if err != nil {
		return err
	}
	if _, configured := cfg.Providers[provider]; !configured && !slices.Contains(config.BuiltInProviders(), provider) {
		fmt.Fprintf(w, "mneme: note: no provider is named %s in this configuration (built in: %s)\n",
			printable(provider), strings.Join(config.BuiltInProviders(), ", "))
	}
	return nil
}

// CredentialRemove is "mneme account credential remove ACCOUNT PROVIDER".
type CredentialRemove struct {
	Target   `embed:""`
	Account  string `arg:"" help:"Name of the account."`
	Provider string `arg:"" help:"Name of the provider."`
}

// Run removes the credential; a missing one is an error.
func (c *CredentialRemove) Run(ctx context.Context, s *Env) error {
	return c.manage(ctx, mustExist, func(client *admin.Client) error {
		if err := client.Accounts().RemoveCredential(ctx, c.Account, c.Provider); err != nil {
			return err
		}
		fmt.Fprintf(s.Out, "credential of account %s for %s removed\n", c.Account, c.Provider)
		return nil
	})
}

// AccountRetention is "mneme account retention NAME".
type AccountRetention struct {
	Target   `embed:""`
	Account  string          `arg:"" help:"Name of the account."`
	MaxAge   config.Duration `placeholder:"TIME" help:"How long exchanges are kept, such as 720h (default: forever)."`
	MaxBytes config.Size     `placeholder:"SIZE" help:"How much the account may take in the database, such as 10GiB; the oldest exchanges go first (default: no limit)."`
	Default  bool            `help:"Use the server's retention again."`
	Yes      bool            `help:"Set it without asking."`
}

// Run sets the account's own rule, which overrides the server's.
func (c *AccountRetention) Run(ctx context.Context, s *Env) error {
	rule := &store.Retention{MaxAge: time.Duration(c.MaxAge), MaxBytes: int64(c.MaxBytes)}
	bounded := *rule != store.Retention{}
	if bounded == c.Default {
		return errors.New("give --max-age, --max-bytes or both; or --default alone")
	}
	said := "kept by a rule of its own"
	if c.Default {
		rule, said = nil, "kept by the server's rule"
	}
	return c.manage(ctx, mustExist, func(client *admin.Client) error {
		if bounded && !c.Yes {
			would, err := c.wouldErase(ctx, client)
			if err != nil {
				return err
			}
			if would != "" {
				if err := s.confirm(ctx, fmt.Sprintf("This rule erases for good, of account %s: %s.", c.Account, would)); err != nil {
					return err
				}
			}
		}
		if err := client.Accounts().SetRetention(ctx, c.Account, rule); err != nil {
			return err
		}
		fmt.Fprintf(s.Out, "account %s is %s\n", c.Account, said)
		return nil
	})
}

// wouldErase says what the rule erases of what is on record now; "" for nothing.
func (c *AccountRetention) wouldErase(ctx context.Context, client *admin.Client) (string, error) {
	var parts []string
	if c.MaxAge > 0 {
		older := record.Selection{Until: time.Now().Add(-time.Duration(c.MaxAge)), ByAge: true}
		e, err := client.Memory().Erase(ctx, c.Account, api.NewErasure{Selection: older, DryRun: true})
		if err != nil {
			return "", err
		}
		if e.Exchanges > 0 {
			parts = append(parts, fmt.Sprintf("%s older than %s", counted(e.Exchanges, "exchange"), c.MaxAge))
		}
	}
	if c.MaxBytes > 0 {
		stats, err := client.Memory().Stats(ctx, c.Account)
		if err != nil {
			return "", err
		}
		if over := stats.Stored - int64(c.MaxBytes); over > 0 {
			parts = append(parts, fmt.Sprintf("the oldest exchanges, about %s of %s", amount(over), amount(stats.Stored)))
		}
	}
	return strings.Join(parts, ", and "), nil
}
