package history

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/mnemeproxy/mneme/codec/chat"
	"github.com/mnemeproxy/mneme/store/record"
)

// opencode keeps its history in its own database, and exports a session as one JSON object. So unless exported files
// are named, the program itself is run to export them.
var opencode = client{
	name: "opencode", what: "a file that \"opencode export ID\" wrote, or a folder of them", shape: &chatShape,
	find: func(ctx context.Context, s *Search) ([]File, error) {
		if s.Path != "" {
			return under(ctx, s, "", hasSuffix(".json"))
		}
		if len(opencodeDatabase(s)) == 0 {
			return nil, nil
		}
		return askOpencode(ctx, s)
	},
	kept: opencodeDatabase,
	read: func(r *reader, from io.Reader) error {
		text, err := io.ReadAll(io.LimitReader(from, maxElement+1))
		switch {
		case err != nil:
			return err
		case len(text) > maxElement:
			return fmt.Errorf("line 1: a session is longer than the maximum of %d MiB", maxElement>>20)
		}
		return r.opencodeSession(text)
	},
}

// opencodeDatabase returns the file of its database; none if it does not exist.
func opencodeDatabase(s *Search) []File {
	path := s.in("XDG_DATA_HOME", filepath.Join(".local", "share"), "opencode", "opencode.db")
	info, err := os.Stat(path)
	if err != nil {
		return nil
	}
	return []File{{Path: path, Size: info.Size()}}
}

// askOpencode runs opencode to export each session.
func askOpencode(ctx context.Context, s *Search) ([]File, error) {
	list, err := runOpencode(ctx, "db", "select id from session order by time_created", "--format", "json")
	if err != nil {
		return nil, err
	}
	var sessions []struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(list, &sessions); err != nil {
		return nil, errors.New("opencode lists its sessions in an unknown form; name files that \"opencode export ID\" wrote")
	}
	var files []File
	for _, session := range sessions {
		if !strings.HasPrefix(session.ID, "ses_") || native(session.ID) == "" || strings.ContainsAny(session.ID, `/\`) {
			continue
		}
		text, err := runOpencode(ctx, "export", session.ID)
		if err != nil {
			return nil, err
		}
		file := File{Path: filepath.Join(s.Temp, session.ID+".json"), Size: int64(len(text))}
		if err := os.WriteFile(file.Path, text, 0o600); err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	return files, nil
}

func runOpencode(ctx context.Context, args ...string) ([]byte, error) {
	run := exec.CommandContext(ctx, "opencode", args...)
	var failed bytes.Buffer
	run.Stderr = &failed
	out, err := run.Output()
	if errors.Is(err, exec.ErrNotFound) {
		return nil, errors.New("opencode is not in PATH, and only it can read its database; name files that \"opencode export ID\" wrote")
	}
	if err != nil && ctx.Err() == nil {
		return nil, fmt.Errorf("opencode %s: %w: %.200s", args[0], err, strings.TrimSpace(failed.String()))
	}
	return out, err
}

type opencodeSession struct {
	Info struct {
		ID        string `json:"id"`
		Title     string `json:"title"`
		Directory string `json:"directory"`
		Version   string `json:"version"`
	} `json:"info"`
	Messages []opencodeMessage `json:"messages"`
}

type opencodeMessage struct {
	Info struct {
		ID       string `json:"id"`
		Role     string `json:"role"`
		Model    string `json:"modelID"`
		Provider string `json:"providerID"`
		Finish   string `json:"finish"`
		Path     struct {
			Directory string `json:"cwd"`
		} `json:"path"`
		Tokens struct {
			Input     int64 `json:"input"`
			Output    int64 `json:"output"`
			Reasoning int64 `json:"reasoning"`
			Cache     struct {
				Read  int64 `json:"read"`
				Write int64 `json:"write"`
			} `json:"cache"`
		} `json:"tokens"`
		Time struct {
			Created   int64 `json:"created"` // milliseconds since 1970
			Completed int64 `json:"completed"`
		} `json:"time"`
	} `json:"info"`
	Parts []opencodePart `json:"parts"`
}

type opencodePart struct {
	Type      string `json:"type"`
	Text      string `json:"text"`
	Synthetic bool   `json:"synthetic"` // the program's own text
	Tool      string `json:"tool"`
	CallID    string `json:"callID"`
	State     struct {
		Status string          `json:"status"`
		Input  json.RawMessage `json:"input"`
		Output string          `json:"output"`
		Error  string          `json:"error"`
	} `json:"state"`
}

// opencodeNotes are parts without content of the conversation.
var opencodeNotes = map[string]bool{
	"step-start": true, "step-finish": true, "snapshot": true, "patch": true, "retry": true, "compaction": true, "agent": true, "subtask": true,
}

func (r *reader) opencodeSession(text []byte) error {
	var session opencodeSession
	switch err := r.unmarshal(text, &session); {
	case err != nil && !bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")):
		return fmt.Errorf("line 1: %w", errNotJSON)
	case err != nil:
		return fmt.Errorf("line %d: the session is truncated; export it again", 1+bytes.Count(text, []byte("\n")))
	}
	key := sessionKey{id: native(session.Info.ID)}
	if key.id == "" {
		return nil
	}
	r.known++
	if title := session.Info.Title; !strings.HasPrefix(title, "New session - ") {
		r.title(key, title)
	}
	t := r.thread(key)
	t.agent = strings.TrimSuffix("opencode/"+session.Info.Version, "/")
	t.project = session.Info.Directory
	for i := range session.Messages {
		if err := r.opencodeMessage(t, &session.Messages[i]); err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) opencodeMessage(t *thread, m *opencodeMessage) error {
	at := time.UnixMilli(m.Info.Time.Created)
	said := chatMessage{Role: m.Info.Role}
	var words []string
	var results []chatMessage
	for i := range m.Parts {
		switch p := &m.Parts[i]; {
		case p.Type == "text" && !p.Synthetic:
			words = append(words, p.Text)
		case p.Type == "reasoning":
			said.Reasoning += p.Text
		case p.Type == "tool":
			arguments := string(p.State.Input)
			said.Calls = append(said.Calls, chat.NewCall(p.CallID, p.Tool, cmp.Or(arguments, "{}")))
			if p.State.Status == "completed" || p.State.Status == "error" {
				results = append(results, chatMessage{Role: "tool", CallID: p.CallID, Content: text(cmp.Or(p.State.Output, p.State.Error))})
			}
		case p.Type != "text" && !opencodeNotes[p.Type]:
			r.skip(p.Type)
		}
	}
	if len(words) > 0 {
		said.Content = text(strings.Join(words, "\n\n"))
	}
	switch {
	case m.Info.Role == "user" && len(words) > 0:
		return t.ask(said.encode(), at)
	case m.Info.Role != "assistant" || len(words)+len(said.Calls) == 0:
		return nil
	}
	t.model, t.project = m.Info.Model, cmp.Or(m.Info.Path.Directory, t.project)
	a, err := t.answers(m.Info.ID, said.encode(), at)
	if err != nil {
		return err
	}
	if m.Info.Time.Completed > 0 {
		a.last = time.UnixMilli(m.Info.Time.Completed)
	}
	tokens := &m.Info.Tokens
	a.usage = record.UsageInfo{
		InputUncached: tokens.Input, CacheRead: tokens.Cache.Read, CacheWrite: tokens.Cache.Write,
		Output: tokens.Output + tokens.Reasoning, Reasoning: tokens.Reasoning,
	}
	for i := range results {
		if err := t.ask(results[i].encode(), a.last); err != nil {
			return err
		}
	}
	return nil
}
