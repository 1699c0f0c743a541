package command

import (
	"context"
	"encoding"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/mnemeproxy/mneme/server/admin"
	"github.com/mnemeproxy/mneme/server/api"
	"github.com/mnemeproxy/mneme/store"
)

// KeyImport is "mneme key import FILE".
type KeyImport struct {
	Target `embed:""`
	File   string `arg:"" placeholder:"FILE" help:"CSV with a line of column names: account, and any of label, scopes, models, expires, requests_per_minute, tokens_per_minute, concurrent, tokens_per_month, repeats, stalled_tokens, budget_usd_day, budget_usd_month, budget_usd_burst, burst_minutes."`
	Out    string `placeholder:"FILE" help:"Write the keys to this new file, which only you can read, instead of standard output."`
	DryRun bool   `help:"Show what would be created, and create nothing."`
}

// mostImported bounds a file, in bytes; a line has about a hundred.
const mostImported = 1 << 20

// Run creates all keys in one commit, or none. Missing accounts are created first. The keys are written as CSV:
// account, label, id, key.
func (c *KeyImport) Run(ctx context.Context, s *Env) error {
	text, err := readBounded(c.File, mostImported)
	if err != nil {
		return err
	}
	asked, err := readKeys(c.File, text, time.Now())
	if err != nil {
		return err
	}
	return c.manage(ctx, create, func(client *admin.Client) (failed error) {
		missing, err := missingAccounts(ctx, client, asked)
		if err != nil {
			return err
		}
		if c.DryRun {
			fmt.Fprintf(s.Out, "%s would be created\n", counted(len(asked), "key"))
			for _, account := range missing {
				fmt.Fprintf(s.Out, "account %s would be created\n", account)
			}
			return nil
		}
		write := func(lines [][]string) error { return csv.NewWriter(s.Out).WriteAll(lines) }
		if c.Out != "" {
			file, err := os.OpenFile(c.Out, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
			if err != nil {
				return err
			}
			write = func(lines [][]string) error { return errors.Join(csv.NewWriter(file).WriteAll(lines), file.Close()) }
			defer func() {
				if failed != nil {
					_ = file.Close() // closed again after a successful write
					_ = os.Remove(c.Out)
				}
			}()
		}
		for _, account := range missing {
			if _, err := client.Accounts().Create(ctx, account); err != nil {
				return err
			}
		}
		return importKeys(ctx, client.Keys(), asked, write)
	})
}

func readBounded(name string, limit int64) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err == nil && int64(len(text)) > limit {
		err = fmt.Errorf("%s has more than %d bytes; import it in parts", name, limit)
	}
	return text, err
}

// importKeys creates the keys and writes them as lines of CSV. If they cannot be written, so that no caller could use
// them, they are revoked.
func importKeys(ctx context.Context, keys admin.KeyClient, asked []api.NewKey, write func(lines [][]string) error) error {
	made, err := keys.Import(ctx, asked)
	if err != nil {
		return err
	}
	lines := [][]string{{"account", "label", "id", "key"}}
	for i := range made {
		lines = append(lines, []string{made[i].Account, made[i].Label, made[i].ID, made[i].Secret})
	}
	err = write(lines)
	if err != nil {
		for i := range made {
			err = errors.Join(err, keys.Revoke(context.WithoutCancel(ctx), made[i].ID))
		}
	}
	return err
}

// missingAccounts returns the accounts that the keys need and that do not exist.
func missingAccounts(ctx context.Context, client *admin.Client, asked []api.NewKey) (missing []string, err error) {
	there, err := client.Accounts().List(ctx)
	if err != nil {
		return nil, err
	}
	for _, key := range asked {
		known := slices.ContainsFunc(there, func(a api.Account) bool { return a.Name == key.Account })
		if !known && !slices.Contains(missing, key.Account) {
			missing = append(missing, key.Account)
		}
	}
	return missing, nil
}

// readKeys reads a CSV of keys. The error lists every mistake with its line.
func readKeys(name string, text []byte, now time.Time) (asked []api.NewKey, err error) {
	reader := csv.NewReader(strings.NewReader(strings.TrimPrefix(string(text), "\ufeff"))) // written by spreadsheets
	reader.TrimLeadingSpace = true
	columns, err := reader.Read()
	if err != nil {
		return nil, fmt.Errorf("%s: a first line with the names of the columns is missing: %w", name, err)
	}
	if !slices.Contains(columns, "account") {
		return nil, fmt.Errorf("%s:1: there is no column account", name)
	}
	var mistakes []error
	for {
		fields, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil { // it includes the line
			return nil, errors.Join(append(mistakes, fmt.Errorf("%s: %w", name, err))...)
		}
		line, _ := reader.FieldPos(0)
		key, err := readKey(columns, fields, now)
		if err != nil {
			mistakes = append(mistakes, fmt.Errorf("%s:%d: %w", name, line, err))
		}
		asked = append(asked, key)
	}
	if n := len(asked); n == 0 && len(mistakes) == 0 || n > store.MostCreated {
		mistakes = append(mistakes, fmt.Errorf("%s has %d keys; import 1 to %d at a time", name, n, store.MostCreated))
	}
	return asked, errors.Join(mistakes...)
}

// readKey reads the fields of a line; an empty field means that none is given.
func readKey(columns, fields []string, now time.Time) (api.NewKey, error) {
	key := api.NewKey{Scopes: store.ScopeWrite | store.ScopeRead}
	var settings KeySettings
	for i, value := range fields {
		if value == "" {
			continue
		}
		var err error
		switch columns[i] {
		case "account":
			key.Account = value
		case "label":
			key.Label = value
		case "scopes":
			key.Scopes, err = store.ParseScopes(value)
		case "models":
			settings.Models, err = setting[Models](value)
		case "expires":
			settings.Expires, err = setting[Lifetime](value)
		case "requests_per_minute":
			settings.RequestsPerMinute, err = setting[Limit](value)
		case "tokens_per_minute":
			settings.TokensPerMinute, err = setting[Limit](value)
		case "concurrent":
			settings.Concurrent, err = setting[Limit](value)
		case "tokens_per_month":
			settings.TokensPerMonth, err = setting[Limit](value)
		case "repeats":
			settings.Repeats, err = setting[Limit](value)
		case "stalled_tokens":
			settings.StalledTokens, err = setting[Limit](value)
		case "budget_usd_day":
			settings.BudgetUSDDay, err = setting[Budget](value)
		case "budget_usd_month":
			settings.BudgetUSDMonth, err = setting[Budget](value)
		case "budget_usd_burst":
			settings.BudgetUSDBurst, err = setting[Budget](value)
		case "burst_minutes":
			settings.BurstMinutes, err = setting[Limit](value)
		default:
			err = errors.New("unknown column; see mneme key import --help")
		}
		if err != nil {
			return key, fmt.Errorf("%s: %s", columns[i], messageOf(err))
		}
	}
	if key.Account == "" {
		return key, errors.New("account: name the account of the key")
	}
	key.KeySettings = settings.asked(now)
	return key, nil
}

// setting reads a value as the flag of its name does.
func setting[T any, P interface {
	*T
	encoding.TextUnmarshaler
}](text string) (*T, error) {
	value := new(T)
	return value, P(value).UnmarshalText([]byte(text))
}
