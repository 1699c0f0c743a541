package command

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/mnemeproxy/mneme/server/admin"
	"github.com/mnemeproxy/mneme/server/api"
	"github.com/mnemeproxy/mneme/server/history"
)

// Handoff is "mneme handoff SESSION --to CLIENT".
type Handoff struct {
	Target      `embed:""`
	AccountFlag `embed:""`
	Session     string `arg:"" help:"The session, from mneme session list."`
	To          string `placeholder:"CLIENT" enum:",codex,claude-code,opencode" default:"" help:"The agent that goes on with it: codex, claude-code or opencode. It has to be installed here."`
	Message     bool   `help:"Print a first message for any agent instead: goal, outcome, what is left, files, failures."`
	Project     string `placeholder:"DIR" help:"The working directory (default: the session's)."`
	JSON        bool   `help:"Write what was made as JSON."`
}

// Run writes a conversation into the history of another agent, as a new conversation.
func (c *Handoff) Run(ctx context.Context, s *Env) error {
	if c.To == "" && !c.Message {
		return fmt.Errorf("name the agent that goes on, as --to %s, or print a first message for any with --message", strings.Join(history.Receivers(), "|"))
	}
	return c.manage(ctx, mustExist, func(client *admin.Client) error {
		account, err := c.one(ctx, client)
		if err != nil {
			return err
		}
		m, err := client.Memory().Session(ctx, account, c.Session)
		if err != nil {
			return err
		}
		if c.Message {
			_, err := fmt.Fprint(s.Out, history.FirstMessage(&m))
			return err
		}
		return c.hand(ctx, s, client, account, &m)
	})
}

func (c *Handoff) hand(ctx context.Context, s *Env, client *admin.Client, account string, m *api.Session) error {
	h, err := history.NewHandoff(m, turnsOf(ctx, client, account, m.ID))
	if err != nil {
		return err
	}
	if c.Project != "" {
		h.Project = c.Project
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return fmt.Errorf("there is no home directory to find the agent's history in; set HOME")
	}
	temp, err := os.MkdirTemp("", "mneme-handoff-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(temp) }()
	handed, err := history.HandTo(ctx, c.To, &history.Search{Home: home, Lookup: os.LookupEnv, Temp: temp}, h)
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(s.Out, handed)
	}
	fmt.Fprintf(s.Out, "Go on with it there:\n\n    %s\n", handed.Command())
	return nil
}
