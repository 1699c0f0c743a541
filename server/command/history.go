package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mnemeproxy/mneme/server/admin"
	"github.com/mnemeproxy/mneme/server/api"
	"github.com/mnemeproxy/mneme/server/history"
	"github.com/mnemeproxy/mneme/server/memory"
	"github.com/mnemeproxy/mneme/store/record"
)

// runHistory imports the conversation history of another program.
func (c *Import) runHistory(ctx context.Context, s *Env) error {
	home, err := os.UserHomeDir()
	if err != nil && c.File == "" {
		return errors.New("there is no home directory to find the history in; set HOME, or name a file or folder")
	}
	temp, err := os.MkdirTemp("", "mneme-import-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(temp) }()
	search := history.Search{Path: c.File, Home: home, Lookup: os.LookupEnv, Temp: temp}
	if c.Watch {
		return c.watch(ctx, s, &search)
	}
	search.Show = s.progress("reading", -1)
	return c.importFound(ctx, s, &search)
}

// importFound imports what is found of a history.
func (c *Import) importFound(ctx context.Context, s *Env, search *history.Search) error {
	found, err := history.Look(ctx, c.From, search)
	if bar, ok := search.Show.(interface{ Finish() error }); ok {
		_ = bar.Finish()
	}
	if err != nil {
		return err
	}
	if search.Watch != nil && len(found.Sessions()) == 0 && len(found.Problems) == 0 {
		found.Imported()
		return nil // nothing new
	}
	if err := c.show(s, found); err != nil {
		return err
	}
	if !c.DryRun && found.Files > 0 {
		err := c.manage(ctx, create, func(client *admin.Client) error {
			account, err := c.one(ctx, client)
			if err != nil {
				return err
			}
			done, err := c.give(ctx, s, client, account, found)
			if err != nil {
				return err
			}
			if found.Passed > 0 {
				fmt.Fprintf(s.Err, "%d exchanges passed through the server and are on record as they were\n", found.Passed)
			}
			return c.report(s, account, &done)
		})
		if err != nil {
			return err
		}
	}
	if n := len(found.Problems); n > 0 {
		return fmt.Errorf("%d files could not be read, and nothing was imported from them:\n  %w", n, errors.Join(found.Problems...))
	}
	return nil
}

// show shows what was found, before it is imported.
func (c *Import) show(s *Env, found *history.History) error {
	all := found.Projects()
	sessions, exchanges := 0, 0
	for _, p := range all {
		sessions += p.Sessions
		exchanges += p.Exchanges
	}
	if c.JSON && c.DryRun {
		return writeJSON(s.Out, struct {
			Files    int                `json:"files"`
			Bytes    int64              `json:"bytes"`
			Projects []*history.Project `json:"projects"`
			Unknown  map[string]int     `json:"unknown"`
			Cut      []string           `json:"cut,omitempty"`
		}{found.Files, found.Bytes, all, found.Unknown, found.Cut})
	}
	to := s.Out
	if c.JSON {
		to = s.Err
	}
	if c.DryRun {
		fmt.Fprintf(to, "%s in %s of %s would be imported, unless they are on record (%s, %s)\n", counted(exchanges, "exchange"), counted(sessions, "session"),
			found.Client(), counted(found.Files, "file"), amount(found.Bytes))
	} else {
		fmt.Fprintf(to, "found %d exchanges in %d sessions of %s (%d files, %s)\n", exchanges, sessions, found.Client(), found.Files, amount(found.Bytes))
	}
	rows := make([][]string, len(all))
	for i, p := range all {
		rows[i] = []string{
			orDash(p.Project), strconv.Itoa(p.Sessions), strconv.Itoa(p.Exchanges),
			p.First.Local().Format(time.DateOnly), p.Last.Local().Format(time.DateOnly),
		}
	}
	if len(rows) > 0 {
		if err := table(to, []string{"PROJECT", "SESSIONS", "EXCHANGES", "FIRST", "LAST"}, rows); err != nil {
			return err
		}
	}
	if len(found.Unknown) > 0 {
		var names []string
		for _, name := range slices.Sorted(maps.Keys(found.Unknown)) {
			names = append(names, fmt.Sprintf("%s (%d)", printable(name), found.Unknown[name]))
		}
		fmt.Fprintf(s.Err, "left out, because it is unknown: %s\n", strings.Join(names, ", "))
	}
	for _, line := range found.Cut {
		fmt.Fprintf(s.Err, "left out: %s\n", printable(line))
	}
	return nil
}

// give writes the history as an export and imports it.
func (c *Import) give(ctx context.Context, s *Env, client *admin.Client, account string, found *history.History) (done api.Import, err error) {
	recorded, err := found.RecordedIn(&accountSessions{ctx, client, account})
	if err != nil {
		return done, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	export, to := io.Pipe()
	bar := s.progress("importing", found.Bytes)
	read := make(chan error, 1)
	go func() {
		lines := memory.NewExportWriter(to)
		err := found.Give(ctx, bar, recorded, func(step record.Exported) error { return lines.Write(&step) })
		err = errors.Join(err, lines.Flush())
		_ = to.CloseWithError(err)
		read <- err
	}()
	done, err = client.Memory().Import(ctx, account, export)
	_ = export.CloseWithError(io.ErrClosedPipe) // nothing reads any further after an error
	if unread := <-read; unread != nil && !errors.Is(unread, io.ErrClosedPipe) {
		err = unread
	}
	_ = bar.Finish()
	if err == nil {
		found.Imported()
	}
	return done, err
}

// accountSessions are the sessions of an account, as the server reports them.
type accountSessions struct {
	ctx     context.Context
	client  *admin.Client
	account string
}

func (a *accountSessions) EachSession(visit func(*record.Session) error) error {
	list := SessionList{JSON: true}
	_, err := list.eachOf(a.ctx, a.client, a.account, 0, func(m *api.Session) error { return visit(&m.Session) })
	return err
}

func (a *accountSessions) EachExchange(session string, visit func(*record.ExchangeInfo)) error {
	return eachTurn(a.ctx, a.client, a.account, session, func(t *api.Turn) error {
		visit(&t.Exchange)
		return nil
	})
}
