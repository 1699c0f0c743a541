package ui

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/server/api"
	"github.com/mnemeproxy/mneme/server/history"
	"github.com/mnemeproxy/mneme/store"
)

// Histories of agents belong to the user whom the server runs as. They are open only to a browser on this machine that
// signed in with an operator's code, and only in the places where agents keep them: a browser names no path.

// keepers are the agents whose histories are in known places.
var keepers = []string{"claude-code", "codex", "opencode"}

// Kept is a history that can be imported.
type Kept struct {
	Client string `json:"client"`
	Files  int    `json:"files"`
	Bytes  int64  `json:"bytes"`
}

// ImportStep is a line of the answer to an import. It has one member.
type ImportStep struct {
	Reading   *ImportProgress `json:"reading,omitempty"`
	Found     *FoundHistory   `json:"found,omitempty"` // after every file was read once
	Importing *ImportProgress `json:"importing,omitempty"`
	Imported  *Imported       `json:"imported,omitempty"` // the last line, unless there was an error or a dry run
	Error     string          `json:"error,omitempty"`    // the last line
}

// ImportProgress is the progress in bytes.
type ImportProgress struct {
	Done int64 `json:"done"`
	Of   int64 `json:"of"`
}

// FoundHistory is the content of a history.
type FoundHistory struct {
	Projects []*history.Project `json:"projects"`
	Unknown  map[string]int     `json:"unknown,omitempty"`  // lines and parts left out, by name
	Cut      []string           `json:"cut,omitempty"`      // last lines left out because they are cut off
	Problems []string           `json:"problems,omitempty"` // errors of files left out
}

// Imported is the result of an import.
type Imported struct {
	api.Import
	Passed int `json:"passed"` // exchanges that are already on record because they passed through the server
}

// mayImport reports whether the signed-in user may import histories.
func (u *UI) mayImport(r *http.Request, t *ticket, identity *store.Identity) bool {
	return u.Home != "" && t.byCode() && u.Local(r) && identity.Scopes.Has(store.ScopeAdmin|store.ScopeWrite)
}

// importer authenticates a request for histories.
func (u *UI) importer(r *http.Request) (store.Identity, error) {
	t, identity, err := u.identify(r)
	if err != nil {
		return identity, err
	}
	if !u.mayImport(r, &t, &identity) {
		return identity, codec.Errorf(codec.KindPermission, "Histories are imported on the server's own machine, from a page that was opened with: mneme ui")
	}
	return identity, nil
}

func (u *UI) search() *history.Search { return &history.Search{Home: u.Home, Lookup: os.LookupEnv} }

func (u *UI) histories(w http.ResponseWriter, r *http.Request) {
	if _, err := u.importer(r); err != nil {
		u.fail(w, err)
		return
	}
	list := []Kept{}
	for _, client := range keepers {
		files, bytes, err := history.Kept(r.Context(), client, u.search())
		if err != nil {
			u.Log.Warn("a history cannot be looked for", "client", client, "error", err)
		}
		if files > 0 {
			list = append(list, Kept{client, files, bytes})
		}
	}
	writeJSON(w, http.StatusOK, api.Page[Kept]{Data: list})
}

// importHistory imports a history while the page waits. If the page is left, what has been imported stays, and is
// skipped the next time.
func (u *UI) importHistory(w http.ResponseWriter, r *http.Request) {
	identity, err := u.importer(r)
	if err != nil {
		u.fail(w, err)
		return
	}
	var asked struct {
		Client string `json:"client"`
		DryRun bool   `json:"dry_run"`
	}
	if err := readJSON(w, r, &asked); err != nil {
		u.fail(w, err)
		return
	}
	if !slices.Contains(keepers, asked.Client) {
		u.fail(w, codec.Invalid("client", "the page imports the histories of %s; for others use mneme import", strings.Join(keepers, ", ")))
		return
	}
	if !u.importing.TryLock() {
		u.fail(w, codec.Errorf(codec.KindConflict, "another import is under way; wait until it is done"))
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("Cache-Control", "no-store")
	i := importRun{ui: u, ctx: ctx, cancel: cancel, account: identity.Account, lines: json.NewEncoder(w), flush: http.NewResponseController(w).Flush}
	last, err := i.run(asked.Client, identity.KeyID, asked.DryRun)
	if err != nil {
		u.Log.Warn("a history could not be imported", "client", asked.Client, "error", err)
		last = &ImportStep{Error: codec.AsError(err, err.Error()).Message}
	}
	i.tell(last)
}

// importRun is the import of a history for a waiting page.
type importRun struct {
	ui      *UI
	ctx     context.Context
	cancel  context.CancelFunc // ends with the last waiting caller
	account string
	found   *history.History

	lines *json.Encoder
	flush func() error
}

func (i *importRun) tell(step *ImportStep) {
	if i.lines.Encode(step) != nil || i.flush() != nil {
		i.cancel()
	}
}

// run returns the last line. It unlocks what the caller has locked before that is sent, because the page may start the
// next import as soon as it reads it.
func (i *importRun) run(client, actor string, dry bool) (last *ImportStep, err error) {
	defer i.ui.importing.Unlock()
	temp, err := os.MkdirTemp("", "mneme-import-") // for exports from agents' own databases
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(temp) }()
	found, err := i.look(client, temp)
	if last = (&ImportStep{Found: found}); err != nil || dry {
		return last, err
	}
	i.tell(last)
	entry := store.AuditEntry{Actor: actor, Action: "history.import", Account: i.account, Subject: client}
	err = i.ui.Archive.Audited(entry, func(*store.AuditEntry) (err error) {
		last, err = i.give()
		return err
	})
	return last, err
}

// look reads the history once; temp holds files until the import is done.
func (i *importRun) look(client, temp string) (*FoundHistory, error) {
	search := i.ui.search()
	search.Temp = temp
	_, size, err := history.Kept(i.ctx, client, search)
	if err != nil {
		return nil, err
	}
	search.Show = &importProgress{run: i, of: size, step: func(p *ImportProgress) *ImportStep { return &ImportStep{Reading: p} }}
	if i.found, err = history.Look(i.ctx, client, search); err != nil {
		return nil, err
	}
	found := &FoundHistory{Projects: append([]*history.Project{}, i.found.Projects()...), Unknown: i.found.Unknown, Cut: i.found.Cut}
	for _, problem := range i.found.Problems {
		found.Problems = append(found.Problems, problem.Error())
	}
	return found, i.ctx.Err()
}

func (i *importRun) give() (*ImportStep, error) {
	archive := i.ui.Archive
	done := Imported{Import: api.Import{Object: "memory.import"}}
	show := &importProgress{run: i, of: i.found.Bytes, step: func(p *ImportProgress) *ImportStep { return &ImportStep{Importing: p} }}
	taken, err := i.found.Import(i.ctx, archive, i.account, show)
	if err != nil {
		return nil, err
	}
	done.Sessions, done.Exchanges, done.Skipped = taken.Sessions, taken.Exchanges, taken.Skipped
	if age := archive.RetentionOf(i.account).MaxAge; age > 0 && done.Exchanges > 0 {
		done.ErasedAfter = time.Now().Add(age).UTC().Truncate(time.Second)
	}
	done.Passed = i.found.Passed
	return &ImportStep{Imported: &done}, nil
}

// progressPause is the interval of progress lines.
const progressPause = 200 * time.Millisecond

// importProgress counts what is read of a history.
type importProgress struct {
	run  *importRun
	step func(*ImportProgress) *ImportStep
	of   int64
	done int64
	told time.Time
}

func (p *importProgress) Write(read []byte) (int, error) {
	p.done += int64(len(read))
	select {
	case <-p.run.ui.Closing:
		p.run.cancel()
	default:
	}
	if now := time.Now(); now.Sub(p.told) >= progressPause {
		p.told = now
		p.run.tell(p.step(&ImportProgress{min(p.done, p.of), p.of}))
	}
	return len(read), nil
}
