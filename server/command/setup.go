package command

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/mnemeproxy/mneme/server/admin"
	"github.com/mnemeproxy/mneme/server/agent"
	"github.com/mnemeproxy/mneme/server/api"
	"github.com/mnemeproxy/mneme/server/config"
	"github.com/mnemeproxy/mneme/store"
)

// Setup is "mneme setup AGENT".
type Setup struct {
	Target   `embed:""`
	Account  string `default:"default" placeholder:"NAME" help:"Account to make a first key for if it has none (default: ${default})."`
	Memory   bool   `default:"true" negatable:"" help:"Offer the memory to the agent as tools (default: yes)."`
	OwnLogin bool   `help:"Keep the agent's own login: the provider bills it, and mneme keeps no copy (claude)."`
	Recall   bool   `help:"Install the hooks with which the memory answers prompts, starts of sessions and calls of tools by itself (claude)."`
	Undo     bool   `help:"Undo a setup: files are restored byte for byte; from files changed since, only what setup wrote is removed."`
	Agent    string `arg:"" enum:"claude,codex,opencode,cursor,vscode" help:"The agent: claude, codex, opencode, cursor or vscode."`
}

// Run writes the agent's configuration files, or undoes that.
func (c *Setup) Run(ctx context.Context, s *Env) error {
	file, err := c.recordFile()
	if err != nil {
		return err
	}
	record, err := readRecord(file)
	switch {
	case c.Undo && errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s was not set up by mneme, or that was undone already", c.Agent)
	case c.Undo && err != nil:
		return err
	case c.Undo:
		return c.undo(ctx, s, file, record)
	case err == nil:
		return fmt.Errorf("%s is set up already; undo that with: mneme setup %s --undo", c.Agent, c.Agent)
	}
	if c.OwnLogin && c.Agent != "claude" {
		return fmt.Errorf("%s has no login that can be passed through mneme", c.Agent)
	}
	if c.Recall && c.Agent != "claude" {
		return fmt.Errorf("%s has no hooks that can be set up; let the server recall in its requests: mneme key update --recall on", c.Agent)
	}
	homes, err := agent.UserHomes()
	if err != nil {
		return err
	}
	url, err := c.origin(ctx)
	if err != nil {
		return err
	}
	key, id, err := c.key(ctx)
	if err != nil {
		return err
	}
	record, err = agent.Apply(c.Agent, homes, agent.Server{Origin: url, Key: key, Memory: c.Memory, Recall: recaller(c.Recall, ""), OwnLogin: c.OwnLogin}, func(r agent.Record) error {
		r.Key = id
		return writeRecord(file, r)
	})
	if err != nil {
		return errors.Join(err, os.Remove(file), c.revoke(ctx, id))
	}
	for _, f := range record.Files {
		fmt.Fprintf(s.Out, "%s leads %s to %s\n", f.File, c.Agent, url)
	}
	if note := agent.Note(c.Agent); note != "" {
		fmt.Fprintln(s.Out, note)
	}
	fmt.Fprintf(s.Out, "take it back with: mneme setup %s --undo\n", c.Agent)
	return nil
}

// key returns the caller's key, or a new one, with its id, that lasts until the setup is undone.
func (c *Setup) key(ctx context.Context) (secret, id string, err error) {
	_, secret, err = c.elsewhere()
	if secret = cmp.Or(strings.TrimSpace(os.Getenv(envKey)), secret); err != nil || secret != "" {
		return secret, "", err
	}
	var created api.CreatedKey
	err = c.StoreFlags.manage(ctx, mustExist, func(client *admin.Client) error {
		created, err = client.Keys().Create(ctx, api.NewKey{Account: c.Account, Scopes: store.ScopeWrite | store.ScopeRead, Label: "setup " + c.Agent})
		return err
	})
	return created.Secret, created.ID, err
}

func (c *Setup) revoke(ctx context.Context, id string) error {
	if id == "" {
		return nil
	}
	return c.StoreFlags.manage(ctx, mustExist, func(client *admin.Client) error { return client.Keys().Revoke(ctx, id) })
}

func (c *Setup) undo(ctx context.Context, s *Env, file string, record agent.Record) error {
	said, err := agent.Undo(record)
	for _, text := range said {
		if text != "" {
			fmt.Fprintln(s.Out, text)
		}
	}
	if err != nil {
		return err
	}
	if err := c.revoke(ctx, record.Key); err != nil {
		fmt.Fprintf(s.Err, "mneme: key %s, which was made for it, is not revoked: %s", record.Key, strings.TrimPrefix(explain(err), "mneme: "))
	}
	return os.Remove(file)
}

// recordFile returns the file that records what a setup has changed.
func (c *Setup) recordFile() (string, error) {
	home := config.Home()
	if home == "" {
		return "", errors.New("there is no home directory to set anything up in; set HOME")
	}
	return filepath.Join(home, "setup", c.Agent+".json"), nil
}

func readRecord(file string) (r agent.Record, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return r, fmt.Errorf("%s, which says what was set up, cannot be read: %w", file, err)
	}
	return r, nil
}

func writeRecord(file string, r agent.Record) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	return writePrivately(file, text)
}
