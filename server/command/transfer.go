package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"slices"
	"time"

	"github.com/mnemeproxy/mneme/server/admin"
	"github.com/mnemeproxy/mneme/server/api"
	"github.com/mnemeproxy/mneme/server/history"
)

// Export is "mneme export [FILE]".
type Export struct {
	Target      `embed:""`
	AccountFlag `embed:""`
	File        string   `arg:"" optional:"" default:"-" help:"Where to write to (default: standard output)."`
	Session     []string `placeholder:"ID" help:"Only these sessions."`
	ChatKey     string   `placeholder:"KEY" help:"Only exchanges with this chat key."`
	ExternalID  string   `placeholder:"ID" help:"Only exchanges with this external session id."`
	Since       When     `placeholder:"TIME" help:"Only what began at or after this time: a date (2026-11-20, UTC), a time (2026-11-20T08:00:00Z), how long ago (1d, 12h), yesterday."`
	Until       When     `placeholder:"TIME" help:"Only what began before this time."`
	After       string   `placeholder:"ID" help:"Only exchanges after this one, to continue an export that was interrupted."`
	As          string   `placeholder:"FORM" enum:",openai-chat,sharegpt,markdown,html" default:"" help:"Write whole conversations for other programs: openai-chat, sharegpt, markdown, or html, a page to share (default: JSON lines for mneme import)."`
	Where       string   `placeholder:"QUERY" help:"With --as: only conversations with a turn that mneme search finds by this query."`
}

// Run writes an account's sessions and exchanges as lines of JSON that mneme import reads.
func (c *Export) Run(ctx context.Context, s *Env) error {
	switch {
	case c.As != "" && c.After != "":
		return errors.New("--after continues an export for mneme import; with --as, use --since")
	case c.As != "":
		return c.runTranscript(ctx, s)
	case c.Where != "":
		return errors.New("--where goes with --as")
	}
	return c.manage(ctx, mustExist, func(client *admin.Client) error {
		account, err := c.one(ctx, client)
		if err != nil {
			return err
		}
		export, err := client.Memory().Export(ctx, account, c.query())
		if err != nil {
			return err
		}
		defer export.Close()
		return c.write(ctx, s, account, &exportLines{from: export})
	})
}

func (c *Export) write(ctx context.Context, s *Env, account string, lines *exportLines) error {
	size, err := s.writeFile(ctx, c.File, "exporting", lines)
	switch {
	case err != nil && lines.last == "":
		return err
	case err != nil && c.File == "-":
		return fmt.Errorf("%w\n  the last whole line is of %s; for what follows: mneme export --after %[2]s", err, lines.last)
	case err != nil:
		return fmt.Errorf("%w\n  %s has everything up to %s; for what follows, in a file of its own: mneme export --after %[3]s; both can be imported", err, partOf(c.File), lines.last)
	case c.File != "-":
		fmt.Fprintf(s.Err, "mneme: %s of account %s written to %s\n", amount(size), account, c.File)
	}
	if lines.damaged > 0 {
		return fmt.Errorf("%d sessions or exchanges are damaged and not in the export; its lines %s name them", lines.damaged, damagedLine+"…}")
	}
	return nil
}

// damagedLine begins a line of an export about something unreadable, exchangeHead one of an exchange.
const (
	damagedLine  = `{"object":"memory.damaged",`
	exchangeHead = `{"object":"memory.exchange","id":"`
)

// exportLines notes what an export has while it is read.
type exportLines struct {
	from    io.Reader
	damaged int
	whole   int64  // bytes of whole lines
	last    string // the last exchange with a whole line

	read  int64
	begun []byte // the beginning of the line
}

// lineHead is how much of a line is kept: its kind and its id.
const lineHead = len(exchangeHead) + 60

func (e *exportLines) Read(p []byte) (int, error) {
	n, err := e.from.Read(p)
	for rest := p[:n]; len(rest) > 0; {
		part, _, ended := bytes.Cut(rest, []byte{'\n'})
		e.begun = append(e.begun, part[:min(len(part), lineHead-len(e.begun))]...)
		e.read += int64(len(part))
		if !ended {
			break
		}
		e.read++
		e.end()
		rest = rest[len(part)+1:]
	}
	return n, err
}

// useful returns how many bytes are of use although the export ends early.
func (e *exportLines) useful() int64 {
	if e.last == "" {
		return 0
	}
	return e.whole
}

// end notes that a line is whole.
func (e *exportLines) end() {
	if bytes.HasPrefix(e.begun, []byte(damagedLine)) {
		e.damaged++
	}
	if id, is := bytes.CutPrefix(e.begun, []byte(exchangeHead)); is {
		if id, _, whole := bytes.Cut(id, []byte{'"'}); whole {
			e.last = string(id)
		}
	}
	e.whole, e.begun = e.read, e.begun[:0]
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
	set("after", c.After)
	if !c.Since.IsZero() {
		set("since", c.Since.Format(time.RFC3339Nano))
	}
	if !c.Until.IsZero() {
		set("until", c.Until.Format(time.RFC3339Nano))
	}
	return query
}

// Import is "mneme import FILE" and "mneme import --from CLIENT [PATH]".
type Import struct {
	Target      `embed:""`
	AccountFlag `embed:""`
	File        string `arg:"" optional:"" help:"A file that mneme export wrote, - for standard input; with --from a file or folder of that client (default: where it keeps its history)."`
	From        string `placeholder:"CLIENT" enum:",claude-code,codex,opencode,chatgpt" default:"" help:"Read the history of claude-code, codex, opencode or chatgpt instead."`
	DryRun      bool   `help:"With --from: show what would be imported, and import nothing."`
	Watch       bool   `help:"With --from claude-code or codex: keep importing what it writes, until interrupted."`
	JSON        bool   `help:"Write the counts as JSON."`
}

// Run imports an export into an account, which need not be the one it came from. Existing records stay as they are.
func (c *Import) Run(ctx context.Context, s *Env) error {
	switch {
	case c.From != "":
		return c.runHistory(ctx, s)
	case c.File == "":
		return errors.New("name a file that mneme export wrote, or a client with --from")
	case c.DryRun, c.Watch:
		return errors.New("--dry-run and --watch go with --from")
	}
	export, err := s.shownReader(c.File, "importing")
	if errors.Is(err, fs.ErrNotExist) && slices.Contains(history.Clients(), c.File) {
		return fmt.Errorf("there is no file %s; to import what %[1]s has kept: mneme import --from %[1]s", c.File)
	}
	if err != nil {
		return err
	}
	defer export.Close()
	return c.manage(ctx, create, func(client *admin.Client) error {
		account, err := c.one(ctx, client)
		if err != nil {
			return err
		}
		done, err := client.Memory().Import(ctx, account, export)
		if err != nil {
			return err
		}
		return c.report(s, account, &done)
	})
}

func (c *Import) report(s *Env, account string, done *api.Import) error {
	if c.JSON {
		return writeJSON(s.Out, done)
	}
	fmt.Fprintf(s.Out, "imported %d exchanges and %d sessions into account %s; %d were there already\n", done.Exchanges, done.Sessions, account, done.Skipped)
	if !done.ErasedAfter.IsZero() {
		fmt.Fprintf(s.Out, "the %d exchanges are erased after %s (retention.max_age counts from the import)\n", done.Exchanges, done.ErasedAfter.Format(time.DateOnly))
	}
	return nil
}
