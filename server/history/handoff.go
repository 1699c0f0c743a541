package history

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/search"
)

// Handoff is a conversation that another program is to continue.
type Handoff struct {
	Title    string
	Project  string // the working directory
	Model    string
	Began    time.Time
	Messages []record.Message // of one branch, in order
}

// Handed says where a conversation was written.
type Handed struct {
	Client  string   `json:"client"`
	Session string   `json:"session"` // the program's id
	File    string   `json:"file,omitempty"`
	Resume  []string `json:"resume"` // the command that continues it
	Project string   `json:"project"`
}

// Command returns what continues the conversation, as a line for a shell.
func (h *Handed) Command() string {
	return "cd '" + strings.ReplaceAll(h.Project, "'", `'\''`) + "' && " + strings.Join(h.Resume, " ")
}

// receiver is a program that a conversation can be handed to.
type receiver struct {
	name    string
	program string
	major   string // of its version, whose files are known
	write   func(ctx context.Context, s *Search, h *Handoff, version string) (Handed, error)
}

var receivers = []receiver{
	{"claude-code", "claude", "2", handToClaudeCode},
	{"codex", "codex", "0", handToCodex},
	{"opencode", "opencode", "1", handToOpencode},
}

// Receivers returns the names of the programs that a conversation can be handed to.
func Receivers() []string {
	names := make([]string, len(receivers))
	for i := range receivers {
		names[i] = receivers[i].name
	}
	return names
}

// HandTo writes a conversation into the history of a program, as a new one: no file that exists is changed. The program
// has to be installed, in a version whose files are known.
func HandTo(ctx context.Context, name string, s *Search, h *Handoff) (Handed, error) {
	i := slices.IndexFunc(receivers, func(r receiver) bool { return r.name == name })
	if i < 0 {
		return Handed{}, fmt.Errorf("no conversation can be handed to %q; known are %s", name, strings.Join(Receivers(), ", "))
	}
	r := &receivers[i]
	version, err := versionOf(ctx, r.program)
	if err != nil {
		return Handed{}, fmt.Errorf("%w; nothing was written. Begin there with a first message instead (mneme handoff --message)", err)
	}
	if major, _, _ := strings.Cut(version, "."); major != r.major {
		return Handed{}, fmt.Errorf("%s has version %s, whose history is not known (known is %s.x); nothing was written. Begin there with a first message instead (mneme handoff --message)", r.program, version, r.major)
	}
	if h.Project == "" {
		h.Project = s.Home
	}
	h.Messages = answeredCalls(spokenOnly(h.Messages))
	if len(h.Messages) == 0 {
		return Handed{}, errors.New("the session has no words to hand over; nothing was written")
	}
	return r.write(ctx, s, h, version)
}

// versionOf asks a program for its version, such as 2.1.197.
func versionOf(ctx context.Context, program string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, program, "--version").Output()
	if errors.Is(err, exec.ErrNotFound) {
		return "", fmt.Errorf("%s is not in PATH, so its version is unknown", program)
	}
	if err != nil {
		return "", fmt.Errorf("%s --version failed: %w", program, err)
	}
	for _, word := range strings.Fields(string(out)) {
		if word[0] >= '0' && word[0] <= '9' && strings.Contains(word, ".") {
			return word, nil
		}
	}
	return "", fmt.Errorf("%s does not say its version", program)
}

// spokenOnly leaves out what a client wove in, text for the model only, reasoning and media.
func spokenOnly(messages []record.Message) (kept []record.Message) {
	for i := range messages {
		m := record.Message{Role: messages[i].Role}
		if m.Role == "system" {
			continue
		}
		for _, p := range messages[i].Parts {
			switch {
			case p.Kind == "text" && m.Role == "user" && search.Own(p.Text) == "":
			case p.Kind == "text" && strings.TrimSpace(p.Text) != "", p.Kind == "call" && p.CallID != "", p.Kind == "result" && p.CallID != "":
				m.Parts = append(m.Parts, p)
			case p.Kind == "media":
				m.Parts = append(m.Parts, record.Part{Kind: "text", Text: strings.TrimRight("["+p.MediaType+" "+p.Name, " ") + "]"})
			}
		}
		if len(m.Parts) > 0 {
			kept = append(kept, m)
		}
	}
	return kept
}

// answeredCalls puts the result of each call right behind its message, as every provider requires; a call without one gets
// a result that says so, and a result without its call becomes text.
func answeredCalls(messages []record.Message) (ordered []record.Message) {
	results := make(map[string]record.Part)
	called := make(map[string]bool)
	for i := range messages {
		for _, p := range messages[i].Parts {
			switch p.Kind {
			case "result":
				results[p.CallID] = p
			case "call":
				called[p.CallID] = true
			}
		}
	}
	seen := make(map[string]bool)
	for i := range messages {
		m := record.Message{Role: messages[i].Role}
		var behind []record.Part
		for _, p := range messages[i].Parts {
			switch {
			case p.Kind == "call" && seen[p.CallID], p.Kind == "result" && called[p.CallID]:
				continue
			case p.Kind == "result":
				p = record.Part{Kind: "text", Text: p.Text}
				m.Role = "user"
			case p.Kind == "call":
				seen[p.CallID] = true
				result, known := results[p.CallID]
				if !known {
					result = record.Part{Kind: "result", CallID: p.CallID, Text: "There is no result on record.", Failed: true}
				}
				behind = append(behind, result)
			}
			m.Parts = append(m.Parts, p)
		}
		if len(m.Parts) > 0 {
			ordered = append(ordered, m)
		}
		if len(behind) > 0 {
			ordered = append(ordered, record.Message{Role: "tool", Parts: behind})
		}
	}
	return ordered
}

// callID returns the id of a call in letters that every provider takes.
func callID(id string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' {
			return r
		}
		return '_'
	}, id)
}

// newUUID returns a random UUID of version 4.
func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	h := hex.EncodeToString(b[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// writeNew writes a file that must not exist, with its folders.
func writeNew(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		_ = os.Remove(path) // half of a conversation is none
	}
	return err
}

// handToClaudeCode writes a file of lines in the folder of the project.
func handToClaudeCode(_ context.Context, s *Search, h *Handoff, version string) (Handed, error) {
	id := newUUID()
	folder := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, h.Project)
	var b bytes.Buffer
	parent, at := []byte("null"), h.Began
	for i := range h.Messages {
		m := &h.Messages[i]
		var parts [][]byte
		for j := range m.Parts {
			switch p := &m.Parts[j]; p.Kind {
			case "text":
				parts = append(parts, object("type", text("text"), "text", text(p.Text)))
			case "call":
				parts = append(parts, object("type", text("tool_use"), "id", text(callID(p.CallID)), "name", text(toolName(p.Name, inClaudeCode)), "input", argumentsFor(p, inClaudeCode)))
			case "result":
				parts = append(parts, object("type", text("tool_result"), "tool_use_id", text(callID(p.CallID)), "content", text(p.Text), "is_error", fmt.Append(nil, p.Failed)))
			}
		}
		at = at.Add(time.Millisecond)
		uuid := text(newUUID())
		role, message := "user", object("role", text("user"), "content", list(parts))
		if m.Role == "assistant" {
			role = "assistant"
			message = object("id", text("msg_"+strings.ReplaceAll(newUUID(), "-", "")[:24]), "type", text("message"), "role", text("assistant"), "model", text(h.Model), "content", list(parts),
				"stop_reason", text("end_turn"), "usage", object("input_tokens", []byte("0"), "output_tokens", []byte("0")))
		}
		b.Write(object("parentUuid", parent, "isSidechain", []byte("false"), "type", text(role), "message", message, "uuid", uuid, "timestamp", text(at.UTC().Format("2006-01-02T15:04:05.000Z")),
			"userType", text("external"), "cwd", text(h.Project), "sessionId", text(id), "version", text(version)))
		b.WriteByte('\n')
		parent = uuid
	}
	if h.Title != "" {
		b.Write(object("type", text("custom-title"), "customTitle", text(h.Title), "sessionId", text(id)))
		b.WriteByte('\n')
	}
	path := s.in("CLAUDE_CONFIG_DIR", ".claude", "projects", folder, id+".jsonl")
	return Handed{Client: "claude-code", Session: id, File: path, Project: h.Project, Resume: []string{"claude", "--resume", id}}, writeNew(path, b.Bytes())
}

// handToCodex writes a file of lines in the folder of the day.
func handToCodex(_ context.Context, s *Search, h *Handoff, version string) (Handed, error) {
	id, now := newUUID(), time.Now()
	stamp := text(now.UTC().Format("2006-01-02T15:04:05.000Z"))
	var b bytes.Buffer
	line := func(kind string, payload []byte) {
		b.Write(object("timestamp", stamp, "type", text(kind), "payload", payload))
		b.WriteByte('\n')
	}
	line("session_meta", object("id", text(id), "timestamp", stamp, "cwd", text(h.Project), "originator", text("codex_exec"), "cli_version", text(version), "source", text("exec"), "instructions", []byte("null")))
	for i := range h.Messages {
		m := &h.Messages[i]
		for j := range m.Parts {
			switch p := &m.Parts[j]; p.Kind {
			case "text":
				role, kind, event := "user", "input_text", "user_message"
				if m.Role == "assistant" {
					role, kind, event = "assistant", "output_text", "agent_message"
				}
				line("response_item", object("type", text("message"), "role", text(role), "content", list([][]byte{object("type", text(kind), "text", text(p.Text))})))
				line("event_msg", object("type", text(event), "message", text(p.Text)))
			case "call":
				line("response_item", object("type", text("function_call"), "name", text(toolName(p.Name, inCodex)), "arguments", text(string(argumentsFor(p, inCodex))), "call_id", text(callID(p.CallID))))
			case "result":
				line("response_item", object("type", text("function_call_output"), "call_id", text(callID(p.CallID)), "output", text(p.Text)))
			}
		}
	}
	path := s.in("CODEX_HOME", ".codex", "sessions", now.Format("2006"), now.Format("01"), now.Format("02"), "rollout-"+now.Format("2006-01-02T15-04-05")+"-"+id+".jsonl")
	return Handed{Client: "codex", Session: id, File: path, Project: h.Project, Resume: []string{"codex", "resume", id}}, writeNew(path, b.Bytes())
}

// handToOpencode lets opencode import the conversation: only it writes its database.
func handToOpencode(ctx context.Context, s *Search, h *Handoff, version string) (Handed, error) {
	suffix := strings.ReplaceAll(newUUID(), "-", "")
	id := "ses_" + suffix[:26]
	serial := 0
	name := func(kind string) []byte {
		serial++
		return text(fmt.Sprintf("%s_%s%06d", kind, suffix[:20], serial))
	}
	began := h.Began.UnixMilli()
	stamp := fmt.Append(nil, began)
	var messages [][]byte
	parent := []byte("null")
	for i := range h.Messages {
		m := &h.Messages[i]
		if m.Role == "tool" {
			continue // stands with its calls
		}
		messageID := name("msg")
		var parts [][]byte
		of := []any{"id", nil, "sessionID", text(id), "messageID", messageID}
		part := func(members ...any) {
			of[1] = name("prt")
			parts = append(parts, object(append(slices.Clone(of), members...)...))
		}
		for j := range m.Parts {
			switch p := &m.Parts[j]; p.Kind {
			case "text":
				part("type", text("text"), "text", text(p.Text))
			case "call":
				r := resultOf(h.Messages[i+1:], p.CallID)
				state := object("status", text("completed"), "input", argumentsFor(p, inOpencode), "output", text(r.Text), "title", text(p.Name), "metadata", []byte("{}"), "time", object("start", stamp, "end", stamp))
				if r.Failed {
					state = object("status", text("error"), "input", argumentsFor(p, inOpencode), "error", text(r.Text), "time", object("start", stamp, "end", stamp))
				}
				part("type", text("tool"), "callID", text(callID(p.CallID)), "tool", text(toolName(p.Name, inOpencode)), "state", state)
			}
		}
		model := object("providerID", text("anthropic"), "modelID", text(h.Model))
		info := object("id", messageID, "sessionID", text(id), "role", text("user"), "time", object("created", stamp), "agent", text("build"), "model", model)
		if m.Role == "assistant" {
			info = object("id", messageID, "sessionID", text(id), "role", text("assistant"), "time", object("created", stamp, "completed", stamp), "parentID", parent,
				"modelID", text(h.Model), "providerID", text("anthropic"), "mode", text("build"), "agent", text("build"), "path", object("cwd", text(h.Project), "root", text(h.Project)), "cost", []byte("0"),
				"tokens", object("input", []byte("0"), "output", []byte("0"), "reasoning", []byte("0"), "cache", object("read", []byte("0"), "write", []byte("0"))), "finish", text("stop"))
		} else {
			parent = messageID
		}
		messages = append(messages, object("info", info, "parts", list(parts)))
	}
	title := h.Title
	if title == "" {
		title = "Handed over"
	}
	session := object("info", object("id", text(id), "slug", text("handed-over"), "projectID", text("global"), "directory", text(h.Project), "title", text(title), "version", text(version), "time", object("created", stamp, "updated", stamp)), "messages", list(messages))
	path := filepath.Join(s.Temp, id+".json")
	if err := writeNew(path, session); err != nil {
		return Handed{}, err
	}
	run := exec.CommandContext(ctx, "opencode", "import", path)
	if info, err := os.Stat(h.Project); err == nil && info.IsDir() {
		run.Dir = h.Project
	}
	if out, err := run.CombinedOutput(); err != nil {
		return Handed{}, fmt.Errorf("opencode import failed, and nothing was written: %.300s", strings.TrimSpace(string(out)))
	}
	return Handed{Client: "opencode", Session: id, Project: h.Project, Resume: []string{"opencode", "--session", id}}, nil
}

// resultOf returns the result of a call in the messages behind it.
func resultOf(behind []record.Message, call string) record.Part {
	for i := range behind {
		for _, p := range behind[i].Parts {
			if p.Kind == "result" && p.CallID == call {
				return p
			}
		}
	}
	return record.Part{}
}
