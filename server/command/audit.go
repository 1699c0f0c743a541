package command

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/mnemeproxy/mneme/server/admin"
	"github.com/mnemeproxy/mneme/server/api"
	"github.com/mnemeproxy/mneme/store"
)

// Audit is the noun for the audit record.
type Audit struct {
	List AuditList `cmd:"" help:"List the audit record, newest first."`
}

// AuditList is "mneme audit list".
type AuditList struct {
	Target  `embed:""`
	Account string `placeholder:"NAME" help:"Only entries about this account."`
	Limit   int    `placeholder:"N" default:"50" help:"Show at most N (default: ${default})."`
	JSON    bool   `help:"Write a JSON array."`
}

// auditPage is how many entries are requested at a time.
const auditPage = 500

// Run lists entries; none contains a secret.
func (c *AuditList) Run(ctx context.Context, s *Env) error {
	if c.Limit < 1 {
		return fmt.Errorf("--limit %d: give a number above 0", c.Limit)
	}
	return c.manage(ctx, mustExist, func(client *admin.Client) error {
		entries, more, err := c.entries(ctx, client)
		if err != nil {
			return err
		}
		if c.JSON {
			return writeJSON(s.Out, entries)
		}
		now, rows := time.Now(), make([][]string, len(entries))
		for i, e := range entries {
			rows[i] = []string{
				ago(now, e.Time), labeled(e.Actor, e.ActorLabel), e.Action, orDash(e.Account), orDash(labeled(e.Subject, e.SubjectLabel)), orDash(string(e.Asked)), outcomeOf(&e.AuditEntry),
			}
		}
		if err := table(s.pages(), []string{"TIME", "ACTOR", "ACTION", "ACCOUNT", "SUBJECT", "ASKED", "OUTCOME"}, rows); err != nil {
			return err
		}
		if more {
			fmt.Fprintln(s.Err, "there are more; see them with --limit")
		}
		return nil
	})
}

func (c *AuditList) entries(ctx context.Context, client *admin.Client) (entries []api.AuditEntry, more bool, err error) {
	entries = []api.AuditEntry{}
	after := ""
	for {
		page, err := client.Audit(ctx, c.Account, after, min(auditPage, c.Limit-len(entries)))
		if err != nil {
			return nil, false, err
		}
		entries = append(entries, page.Data...)
		if !page.HasMore || len(entries) >= c.Limit {
			return entries, page.HasMore, nil
		}
		after = entries[len(entries)-1].ID
	}
}

// labeled returns the id of a key with its label.
func labeled(id, label string) string {
	if label == "" {
		return id
	}
	return id + " (" + label + ")"
}

func outcomeOf(e *store.AuditEntry) string {
	if e.Reason == "" {
		return string(e.Outcome)
	}
	return string(e.Outcome) + ": " + strings.ReplaceAll(e.Reason, "_", " ")
}
