package command

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/mnemeproxy/mneme/server/admin"
	"github.com/mnemeproxy/mneme/server/api"
	"github.com/mnemeproxy/mneme/server/history"
	"github.com/mnemeproxy/mneme/server/transcript"
	"github.com/mnemeproxy/mneme/store/record"
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
			_, err := fmt.Fprint(s.Out, firstMessage(&m))
			return err
		}
		return c.hand(ctx, s, client, account, &m)
	})
}

func (c *Handoff) hand(ctx context.Context, s *Env, client *admin.Client, account string, m *api.Session) error {
	h := history.Handoff{Title: m.Title, Project: c.Project, Began: m.Created}
	if len(m.Models) > 0 {
		h.Model = m.Models[len(m.Models)-1]
	}
	if m.Beginning != nil {
		if h.Project == "" {
			h.Project = m.Beginning.Project
		}
		if h.Title == "" {
			h.Title = m.Beginning.Asked
		}
	}
	branch := transcript.Branch{Unanswered: true}
	if err := noteTurns(ctx, client, account, m.ID, &branch); err != nil {
		return err
	}
	err := eachPart(ctx, client, account, m.ID, &branch, func(t *record.Turn) {
		h.Messages = append(h.Messages, t.Messages...)
		h.Messages = append(h.Messages, t.Answer[:min(len(t.Answer), 1)]...)
	})
	if err != nil {
		return err
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
	handed, err := history.HandTo(ctx, c.To, &history.Search{Home: home, Lookup: os.LookupEnv, Temp: temp}, &h)
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(s.Out, handed)
	}
	fmt.Fprintf(s.Out, "Go on with it there:\n\n    cd %s && %s\n", quotedWord(handed.Project), strings.Join(handed.Resume, " "))
	return nil
}

// quotedWord returns a path as a word of a shell.
func quotedWord(path string) string { return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'" }

// firstMessage is a message with which any agent can go on with a session.
func firstMessage(m *api.Session) string {
	var b strings.Builder
	b.WriteString("Go on with work that another agent began. This is from its record.\n")
	if m.Story == nil {
		return b.String()
	}
	line := func(name, text string) {
		if text != "" {
			fmt.Fprintf(&b, "\n%s: %s\n", name, text)
		}
	}
	lines := func(name string, items []string) {
		if len(items) > 0 {
			fmt.Fprintf(&b, "\n%s:\n- %s\n", name, strings.Join(items, "\n- "))
		}
	}
	line("Goal", m.Story.Goal)
	line("Done", m.Story.Done)
	if m.Summary != nil {
		line("Summary", m.Summary.Text)
	}
	lines("Left", m.Story.Left)
	lines("Files edited", m.Story.Files)
	lines("Failures not seen to pass", m.Story.Errors)
	return b.String()
}
