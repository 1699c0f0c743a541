// Package history reads the conversation histories of other programs as steps of a mneme export, one file per program.
// Their formats are undocumented and change, so each line is read for what it holds, and unknown kinds are counted by
// name. docs/import.md describes the shapes.
package history

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/record"
)

// client is a program whose history can be read.
type client struct {
	name  string
	what  string // its files, for errors
	shape *shape
	find  func(ctx context.Context, s *Search) ([]File, error)
	kept  func(s *Search) []File // kept returns what find would have a program export; nil: find exports nothing
	read  func(r *reader, from io.Reader) error
}

var clients = []*client{&claudeCode, &codex, &opencode, &chatGPT}

// Clients returns the names of the programs.
func Clients() []string {
	names := make([]string, len(clients))
	for i, c := range clients {
		names[i] = c.name
	}
	return names
}

// Count returns how many files of conversations a program keeps where it usually does, without reading them; those of subagents
// do not count.
func Count(ctx context.Context, name string, s *Search) (sessions int) {
	i := slices.IndexFunc(clients, func(c *client) bool { return c.name == name })
	if i < 0 || clients[i].kept != nil {
		return 0
	}
	files, err := clients[i].find(ctx, s)
	if err != nil {
		return 0
	}
	for i := range files {
		if isSession(&files[i]) {
			sessions++
		}
	}
	return sessions
}

// isSession reports whether a file is that of a conversation with a person, not of a subagent.
func isSession(f *File) bool { return !strings.HasPrefix(filepath.Base(f.Path), "agent-") }

// History is what was found of a program, after every file was read once.
type History struct {
	client   *client
	files    []File
	sessions map[sessionKey]*Session
	recorded map[string]bool // ids of answers that passed through the store, see RecordedIn
	known    answers         // of the latest Give
	marks    map[string]*mark
	watch    *Watch // may be nil

	Unknown  map[string]int // unknown lines and parts, counted by name
	Cut      []string       // last lines left out because they are cut off, each with its file
	Problems []error        // of files left out entirely
	Bytes    int64          // of the files used
	Files    int
	Passed   int // exchanges left out because they passed through the store
}

// answers are the conversations in which answers of models came first, by the ids of the answers. Clients that resume
// or fork a conversation copy its answers into the file of the new one: there they are no exchanges.
type answers map[string]sessionKey

// answerID identifies an answer among all of a program's: by the provider's id, or else by the exchange's.
func answerID(x *record.Exchange) string { return cmp.Or(x.ResponseID, x.ProviderReqID, x.ID) }

// repeats reports whether an answer came in another conversation before.
func (a answers) repeats(of *Session, id string) bool {
	key := sessionKey{of.Native, of.Agent}
	first, known := a[id]
	if !known {
		a[id] = key
		return false
	}
	return first != key
}

// sessionKey identifies a conversation of a program.
type sessionKey struct{ id, agent string }

// Session is one conversation.
type Session struct {
	ID          string // mneme's
	Native      string // the program's
	Agent       string // the subagent; "" for the main one
	Title       string
	Project     string
	Exchanges   int
	First, Last time.Time // when exchanges began

	before int // exchanges in front of the mark that the file was read from
}

// Recorded is what a store has of a conversation that passed through it.
type Recorded struct {
	Session string
	Answers map[string]bool // their ids
	Since   time.Time       // when the first exchange began; zero: nothing passed
}

// Kept counts the files of a program's history, and their bytes, without reading them.
func Kept(ctx context.Context, name string, s *Search) (files int, bytes int64, err error) {
	c, err := named(name)
	if err != nil {
		return 0, 0, err
	}
	var found []File
	if c.kept != nil && s.Path == "" {
		found = c.kept(s)
	} else {
		found, err = c.find(ctx, s)
	}
	for i := range found {
		bytes += found[i].Size
	}
	return len(found), bytes, err
}

func named(name string) (*client, error) {
	i := slices.IndexFunc(clients, func(c *client) bool { return c.name == name })
	if i < 0 {
		return nil, fmt.Errorf("no history of %q can be read; known are %s", name, strings.Join(Clients(), ", "))
	}
	return clients[i], nil
}

// Look reads everything without importing it, so that unreadable files are known before an import. A file with an error
// is left out, and the error is one of Problems.
func Look(ctx context.Context, name string, s *Search) (*History, error) {
	c, err := named(name)
	if err != nil {
		return nil, err
	}
	h := &History{client: c, sessions: make(map[sessionKey]*Session), marks: make(map[string]*mark), Unknown: make(map[string]int)}
	found, err := h.client.find(ctx, s)
	if err != nil {
		return nil, err
	}
	h.watch = s.Watch
	known := make(answers)
	found = h.watch.changed(found, time.Now())
	for _, file := range found {
		r := newReader(ctx, h.client)
		own := make(answers) // of this file, until it is known to be good
		r.give = func(s *Session, x *record.Exchange) error {
			id := answerID(x)
			if first, known := known[id]; known {
				own[id] = first
			}
			r.count(s, x, h.watch.has(id) || own.repeats(s, id))
			return nil
		}
		err := r.readFile(&file, s.Show)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil:
			h.Problems = append(h.Problems, err)
			continue
		}
		h.files = append(h.files, file)
		h.Files++
		h.marks[file.Path] = r.mark
		h.Bytes += file.Size - file.start()
		if r.cut > 0 {
			h.Cut = append(h.Cut, fmt.Sprintf("%s: line %d, the last one, is cut off", file.name(), r.cut))
		}
		maps.Copy(known, own)
		h.add(r)
	}
	if len(found) == 0 && s.Watch == nil {
		return nil, fmt.Errorf("there is no history of %s on this machine; name %s", h.client.name, h.client.what)
	}
	return h, nil
}

// add adds what was read of a file. A conversation may be in several.
func (h *History) add(r *reader) {
	for name, n := range r.unknown {
		h.Unknown[name] += n
	}
	for key, found := range r.sessions {
		s := h.sessions[key]
		if s == nil {
			h.sessions[key] = found
			continue
		}
		s.Exchanges += found.Exchanges
		s.before += found.before
		if found.First.Before(s.First) {
			s.First = found.First
		}
		if found.Last.After(s.Last) {
			s.Last = found.Last
		}
		if s.Title == "" {
			s.Title = found.Title
		}
	}
}

// Sessions returns the conversations with an answer of a model, oldest first.
func (h *History) Sessions() []*Session {
	list := slices.DeleteFunc(slices.Collect(maps.Values(h.sessions)), func(s *Session) bool { return s.Exchanges == 0 })
	slices.SortFunc(list, func(a, b *Session) int { return strings.Compare(h.idOf(a), h.idOf(b)) })
	return list
}

func (h *History) idOf(s *Session) string {
	if s.ID == "" {
		s.ID = record.DerivedSessionID(s.First, h.client.name, s.Native, s.Agent)
	}
	return s.ID
}

// Client returns the program's name in User-Agent headers.
func (h *History) Client() string { return record.ClientName(h.client.name) }

// Give rereads the files and calls give with each conversation before its exchanges. It leaves out exchanges that
// passed through the store according to recorded, which may be nil, and those that the watch has.
func (h *History) Give(ctx context.Context, show io.Writer, recorded func(*Session) *Recorded, give func(record.Exported) error) error {
	given := make(map[*Session]*Recorded)
	h.known = make(answers)
	for i := range h.files {
		r := newReader(ctx, h.client)
		r.give = func(of *Session, x *record.Exchange) error {
			s := h.sessions[sessionKey{of.Native, of.Agent}]
			if s == nil {
				return errors.New("the history changed while it was read; import it again")
			}
			if id := answerID(x); h.watch.has(id) || h.known.repeats(of, id) {
				return nil
			}
			had, begun := given[s]
			if !begun && recorded != nil {
				had = recorded(s)
			}
			if had.has(x) || h.recorded[x.ResponseID] {
				h.Passed++
				return nil
			}
			if had == nil {
				had = &Recorded{Session: h.idOf(s)}
				if err := give(record.Exported{Session: h.session(s, x)}); err != nil {
					return err
				}
			}
			given[s] = had
			x.Session = had.Session
			return give(record.Exported{Exchange: x})
		}
		if err := r.readFile(&h.files[i], show); err != nil {
			return err
		}
		if r.mark != nil {
			r.mark.session = *h.sessions[r.mark.thread.key]
		}
		h.marks[h.files[i].Path] = r.mark
	}
	return nil
}

// Imported notes in the watch that what was given is on record.
func (h *History) Imported() { h.watch.took(h.files, h.known, h.marks) }

// has reports whether an exchange passed through the store. If the program does not keep the ids of answers, everything
// from the first recorded exchange on did.
func (r *Recorded) has(x *record.Exchange) bool {
	if r == nil || r.Since.IsZero() {
		return false
	}
	if x.ResponseID != "" {
		return r.Answers[x.ResponseID]
	}
	return !x.Started.Before(r.Since.Add(-recordedSlack))
}

// recordedSlack is how much earlier than mneme a program notes the start of a request, because of its own preparations.
const recordedSlack = 10 * time.Second

func (h *History) session(s *Session, first *record.Exchange) *record.Session {
	session := &record.Session{
		ID: h.idOf(s), Created: s.First, Updated: s.Last, Title: s.Title,
		NativeSession: s.Native, Agent: s.Agent, Models: []string{first.ModelAsked},
	}
	if main := h.sessions[sessionKey{s.Native, ""}]; s.Agent != "" && main != nil && main.Exchanges+main.before > 0 {
		session.Parent = h.idOf(main)
	}
	return session
}

// maxTitle is the longest title kept, in bytes.
const maxTitle = 200

// native returns a program's id in a form that can be kept; "" if there is none.
func native(id string) string {
	if codec.CheckContinuity("id", id) != nil {
		return ""
	}
	return id
}

// Project is the history of a project.
type Project struct {
	Project   string    `json:"project,omitempty"`
	Sessions  int       `json:"sessions"`
	Exchanges int       `json:"exchanges"`
	First     time.Time `json:"first"`
	Last      time.Time `json:"last"`
}

// Projects sums up the conversations, with the latest project first.
func (h *History) Projects() []*Project {
	projects := make(map[string]*Project)
	for _, session := range h.Sessions() {
		p := projects[session.Project]
		if p == nil {
			p = &Project{Project: session.Project, First: session.First}
			projects[session.Project] = p
		}
		p.Sessions++
		p.Exchanges += session.Exchanges
		if session.First.Before(p.First) {
			p.First = session.First
		}
		if session.Last.After(p.Last) {
			p.Last = session.Last
		}
	}
	return slices.SortedFunc(maps.Values(projects), func(a, b *Project) int {
		return cmp.Or(b.Last.Compare(a.Last), strings.Compare(a.Project, b.Project))
	})
}

// Store has the sessions of an account, and their exchanges.
type Store interface {
	EachSession(visit func(*record.Session) error) error
	EachExchange(session string, visit func(*record.ExchangeInfo)) error
}

// RecordedIn returns which of the found conversations passed through a store, and which answers: those are already on
// record.
func (h *History) RecordedIn(s Store) (func(*Session) *Recorded, error) {
	recorded := make(map[*Session]*Recorded)
	h.recorded = make(map[string]bool)
	err := s.EachSession(func(m *record.Session) error {
		session := h.sessions[sessionKey{m.NativeSession, m.Agent}]
		if session == nil || m.NativeSession == "" {
			return nil
		}
		had := recorded[session]
		if had == nil {
			had = &Recorded{Session: m.ID, Answers: make(map[string]bool)}
			recorded[session] = had
		}
		return s.EachExchange(m.ID, func(x *record.ExchangeInfo) {
			if !x.Imported.IsZero() {
				return
			}
			if had.Since.IsZero() || x.Started.Before(had.Since) {
				had.Since = x.Started
			}
			had.Answers[x.ResponseID] = true
			if x.ResponseID != "" {
				h.recorded[x.ResponseID] = true
			}
		})
	})
	return func(session *Session) *Recorded { return recorded[session] }, err
}
