package command

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"github.com/mnemeproxy/mneme/server/admin"
)

// Export is "mneme export [FILE]".
type Export struct {
	Place      `embed:""`
	Owner      `embed:""`
	File       string    `arg:"" optional:"" default:"-" help:"Where to write to (default: standard output)."`
	Session    []string  `placeholder:"ID" help:"Only these sessions."`
	ChatKey    string    `placeholder:"KEY" help:"Only exchanges with this chat key."`
	ExternalID string    `placeholder:"ID" help:"Only exchanges with this external session id."`
	Since      time.Time `placeholder:"TIME" help:"Only what began at or after this time, such as 2026-11-20T08:00:00Z."`
	Until      time.Time `placeholder:"TIME" help:"Only what began before this time."`
}

// Run writes an account's sessions and exchanges as lines of JSON that mneme import reads.
func (c *Export) Run(ctx context.Context, s *Surroundings) error {
	return c.manage(ctx, mustExist, func(client *admin.Client) error {
		account, err := c.one(ctx, client)
		if err != nil {
			return err
		}
		export, err := client.Export(ctx, account, c.query())
		if err != nil {
			return err
		}
		defer export.Close()
		size, err := s.writeFile(ctx, c.File, "exporting", export)
		if err == nil && c.File != "-" {
			fmt.Fprintf(s.Err, "mneme: %s of account %s written to %s\n", amount(size), account, c.File)
		}
		return err
	})
}

func (c *Export) query() url.Values {
	query := url.Values{}
	for _, id := range c.Session {
		query.Add("session", id)
	}
	set := func(name, value string) {
		if value != "" {
			query.Set(name, value)
		}
	}
	set("chat_key", c.ChatKey)
	set("external_id", c.ExternalID)
	if !c.Since.IsZero() {
		set("since", c.Since.Format(time.RFC3339Nano))
	}
	if !c.Until.IsZero() {
		set("until", c.Until.Format(time.RFC3339Nano))
	}
	return query
}

// Import is "mneme import FILE".
type Import struct {
	Place `embed:""`
	Owner `embed:""`
	File  string `arg:"" help:"A file that mneme export wrote; - is standard input."`
	JSON  bool   `help:"Write the counts as JSON."`
}

// Run takes an export into an account, which need not be the one it came from. What is there already stays as it is.
func (c *Import) Run(ctx context.Context, s *Surroundings) error {
	export, err := s.shownReader(c.File, "importing")
	if err != nil {
		return err
	}
	defer export.Close()
	return c.manage(ctx, create, func(client *admin.Client) error {
		account, err := c.one(ctx, client)
		if err != nil {
			return err
		}
		done, err := client.Import(ctx, account, export)
		if err != nil {
			return err
		}
		if c.JSON {
			return writeJSON(s.Out, done)
		}
		fmt.Fprintf(s.Out, "imported %d exchanges and %d sessions into account %s; %d were there already\n", done.Exchanges, done.Sessions, account, done.Skipped)
		return nil
	})
}
