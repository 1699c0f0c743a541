package command

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/server/admin"
	"github.com/mnemeproxy/mneme/server/api"
)

// AccountFlag selects the account of a command.
type AccountFlag struct {
	Account string `env:"MNEME_ACCOUNT" placeholder:"NAME" help:"The account (default: $MNEME_ACCOUNT; else all accounts, or for commands on a single one, the only account or 'default')."`
}

// accounts returns the selected accounts: the named one, else all.
func (o AccountFlag) accounts(ctx context.Context, client *admin.Client) ([]string, error) {
	if o.Account != "" {
		return []string{o.Account}, nil
	}
	all, err := client.Accounts().List(ctx)
	names := make([]string, len(all))
	for i, a := range all {
		names[i] = a.Name
	}
	return names, err
}

// one returns the selected account for commands that take only one: without a name it is the only one, or account
// default if there are several.
func (o AccountFlag) one(ctx context.Context, client *admin.Client) (string, error) {
	names, err := o.accounts(ctx, client)
	if len(names) > 1 && slices.Contains(names, admin.DefaultAccount) {
		return admin.DefaultAccount, nil
	}
	if err == nil && len(names) != 1 {
		err = fmt.Errorf("say which account is meant with --account: %s", strings.Join(names, ", "))
	}
	if err != nil {
		return "", err
	}
	return names[0], nil
}

// ownerOf returns the first of the selected accounts for which find succeeds.
func ownerOf[T any](ctx context.Context, client *admin.Client, o AccountFlag, find func(account string) (T, error)) (account string, found T, err error) {
	names, err := o.accounts(ctx, client)
	if err != nil {
		return "", found, err
	}
	for _, name := range names {
		found, err = find(name)
		if known := (*codec.Error)(nil); err == nil || !errors.As(err, &known) || known.Kind != codec.KindNotFound {
			return name, found, err
		}
	}
	return "", found, err
}

// sessionOwner returns the selected account that has a session, and the session.
func sessionOwner(ctx context.Context, client *admin.Client, o AccountFlag, id string) (account string, found api.Session, err error) {
	return ownerOf(ctx, client, o, func(account string) (api.Session, error) { return client.Memory().Session(ctx, account, id) })
}
