package command

import (
	"cmp"
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
	"github.com/mnemeproxy/mneme/store"
)

// runHistory imports what another program has kept of its conversations.
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
	bar := s.progress("reading", -1)
	found, err := history.Look(ctx, c.From, &history.Search{Path: c.File, Home: home, Lookup: os.LookupEnv, Temp: temp, Show: bar})
	_ = bar.Finish()
	if err != nil {
		return err
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
		return fmt.Errorf("%d files could not be read, and nothing of them is imported:\n  %w", n, errors.Join(found.Problems...))
	}
	return nil
}

// projectHistory is what was found of a project.
type projectHistory struct {
	Project   string    `json:"project,omitempty"`
	Sessions  int       `json:"sessions"`
	Exchanges int       `json:"exchanges"`
	First     time.Time `json:"first"`
	Last      time.Time `json:"last"`
}

// show says what was found, before it is imported.
func (c *Import) show(s *Env, found *history.History) error {
	projects := make(map[string]*projectHistory)
	sessions, exchanges := found.Sessions(), 0
	for _, session := range sessions {
		p := projects[session.Project]
		if p == nil {
			p = &projectHistory{Project: session.Project, First: session.First}
			projects[session.Project] = p
		}
		p.Sessions++
		p.Exchanges += session.Exchanges
		exchanges += session.Exchanges
		if session.First.Before(p.First) {
			p.First = session.First
		}
		if session.Last.After(p.Last) {
			p.Last = session.Last
		}
	}
	all := slices.SortedFunc(maps.Values(projects), func(a, b *projectHistory) int {
		return cmp.Or(b.Last.Compare(a.Last), strings.Compare(a.Project, b.Project))
	})
	if c.JSON && c.DryRun {
		return writeJSON(s.Out, struct {
			Files    int               `json:"files"`
			Bytes    int64             `json:"bytes"`
			Projects []*projectHistory `json:"projects"`
			Unknown  map[string]int    `json:"unknown"`
		}{found.Files, found.Bytes, all, found.Unknown})
	}
	to := s.Out
	if c.JSON {
		to = s.Err
	}
	fmt.Fprintf(to, "found %d exchanges in %d sessions of %s (%d files, %s)\n", exchanges, len(sessions), found.Client(), found.Files, amount(found.Bytes))
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
		fmt.Fprintf(s.Err, "left out, because it is not known: %s\n", strings.Join(names, ", "))
	}
	return nil
}

// give writes the history as an export, and has it imported.
func (c *Import) give(ctx context.Context, s *Env, client *admin.Client, account string, found *history.History) (done api.Import, err error) {
	recorded, err := passed(ctx, client, account, found)
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
		err := found.Give(ctx, bar, recorded, func(step store.Exported) error { return lines.Write(&step) })
		err = errors.Join(err, lines.Flush())
		_ = to.CloseWithError(err)
		read <- err
	}()
	done, err = client.Memory().Import(ctx, account, export)
	_ = export.CloseWithError(io.ErrClosedPipe) // nobody reads on after an error
	if unread := <-read; unread != nil && !errors.Is(unread, io.ErrClosedPipe) {
		err = unread
	}
	_ = bar.Finish()
	return done, err
}

// passed says of the conversations that were found which of them passed through the server, and which answers: they are on
// record as they were.
func passed(ctx context.Context, client *admin.Client, account string, found *history.History) (func(*history.Session) *history.Recorded, error) {
	type names struct{ id, agent string }
	wanted := make(map[names]*history.Session)
	for _, session := range found.Sessions() {
		wanted[names{session.Native, session.Agent}] = session
	}
	recorded := make(map[*history.Session]*history.Recorded)
	list := SessionList{JSON: true}
	_, err := list.eachOf(ctx, client, account, 0, func(m *api.Session) error {
		session := wanted[names{m.NativeSession, m.Agent}]
		if session == nil || m.NativeSession == "" {
			return nil
		}
		had := recorded[session]
		if had == nil {
			had = &history.Recorded{Session: m.ID, Answers: make(map[string]bool)}
			recorded[session] = had
		}
		return eachTurn(ctx, client, account, m.ID, func(t *api.Turn) error {
			if x := &t.Exchange; x.Imported.IsZero() {
				if had.Since.IsZero() || x.Started.Before(had.Since) {
					had.Since = x.Started
				}
				had.Answers[x.ResponseID] = true
			}
			return nil
		})
	})
	return func(session *history.Session) *history.Recorded { return recorded[session] }, err
}
