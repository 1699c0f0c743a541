package history

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"time"

	"github.com/mnemeproxy/mneme/store/record"
)

// claudeCode keeps a file of lines for each session and each subagent. An answer takes a line per block, possibly with
// tool results in between.
var claudeCode = client{
	name: "claude-code", what: "a file or folder of ~/.claude/projects", shape: &messagesShape,
	find: func(ctx context.Context, s *Search) ([]File, error) {
		return under(ctx, s, s.in("CLAUDE_CONFIG_DIR", ".claude", "projects"), hasSuffix(".jsonl"))
	},
	read: func(r *reader, from io.Reader) error {
		return r.eachLine(from, r.claudeLine)
	},
}

type claudeLine struct {
	Type       string    `json:"type"`
	UUID       string    `json:"uuid"`
	Request    string    `json:"requestId"`
	Session    string    `json:"sessionId"`
	Agent      string    `json:"agentId"`
	Sidechain  bool      `json:"isSidechain"`
	Meta       bool      `json:"isMeta"`            // the program's own text
	Compact    bool      `json:"isCompactSummary"`  // a summary that replaces earlier messages
	Failed     bool      `json:"isApiErrorMessage"` // the program's own, instead of an answer
	Time       time.Time `json:"timestamp"`
	Directory  string    `json:"cwd"`
	Version    string    `json:"version"`
	Entrypoint string    `json:"entrypoint"`
	Custom     string    `json:"customTitle"`
	Generated  string    `json:"aiTitle"`
	Message    *struct {
		ID      string          `json:"id"`
		Role    string          `json:"role"`
		Model   string          `json:"model"`
		Content json.RawMessage `json:"content"`
		Usage   *claudeUsage    `json:"usage"`
	} `json:"message"`
}

type claudeUsage struct {
	Input      int64 `json:"input_tokens"`
	CacheRead  int64 `json:"cache_read_input_tokens"`
	CacheWrite int64 `json:"cache_creation_input_tokens"`
	Output     int64 `json:"output_tokens"`
	Creation   struct {
		Long int64 `json:"ephemeral_1h_input_tokens"`
	} `json:"cache_creation"`
}

// claudeNotes are lines that are not messages.
var claudeNotes = map[string]bool{
	"system": true, "summary": true, "attachment": true, "progress": true, "queue-operation": true, "last-prompt": true, "mode": true,
	"permission-mode": true, "file-history-snapshot": true, "custom-title": true, "ai-title": true, "agent-name": true, "tag": true,
}

func (r *reader) claudeLine(text []byte) error {
	var line claudeLine
	if err := r.unmarshal(text, &line); err != nil {
		return err
	}
	key := sessionKey{id: native(line.Session), agent: native(line.Agent)}
	if line.Sidechain && key.agent == "" {
		key.agent = "sidechain" // of versions that did not name subagents
	}
	if title := line.Custom + line.Generated; title != "" && key.id != "" {
		r.title(key, title)
	}
	m := line.Message
	switch {
	case m == nil || key.id == "" || len(m.Content) == 0 || m.Role != "user" && m.Role != "assistant":
		if !claudeNotes[line.Type] {
			r.skip(line.Type)
		} else if key.id != "" || line.Type == "summary" {
			r.known++
		}
		return nil
	case line.Meta || line.Compact || line.Failed:
		r.known++
		return nil
	}
	r.known++
	t := r.thread(key)
	if line.Directory != "" {
		t.project = line.Directory
	}
	if line.Version != "" {
		t.agent = "claude-cli/" + line.Version
		if line.Entrypoint != "" {
			t.agent += " (external, " + line.Entrypoint + ")"
		}
	}
	if m.Role == "user" {
		return t.ask(object("role", []byte(`"user"`), "content", []byte(m.Content)), line.Time)
	}
	return r.claudeAnswer(t, &line)
}

func (r *reader) claudeAnswer(t *thread, line *claudeLine) error {
	m := line.Message
	var blocks []json.RawMessage
	if json.Unmarshal(m.Content, &blocks) != nil {
		blocks = []json.RawMessage{object("type", []byte(`"text"`), "text", []byte(m.Content))}
	}
	name := cmp.Or(m.ID, line.Request, line.UUID)
	t.model = m.Model
	for _, block := range blocks {
		a, err := t.answers(name, block, line.Time)
		if err != nil {
			return err
		}
		a.id, a.request = m.ID, native(line.Request)
		if u := m.Usage; u != nil {
			a.usage = record.UsageInfo{
				InputUncached: u.Input, CacheRead: u.CacheRead, CacheWrite: u.CacheWrite, CacheLong: u.Creation.Long, Output: u.Output,
			}
		}
	}
	return nil
}
