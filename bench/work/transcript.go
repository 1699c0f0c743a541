package work

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Write writes every other session as Claude Code keeps it below its folder of projects, and the others as Codex does below its folder of sessions.
func (w *Work) Write(claudeCode, codex string) error {
	for n := range w.Sessions {
		s := &w.Sessions[n]
		id := fmt.Sprintf("5e551000-0000-4000-8000-%012x", n)
		file, lines := filepath.Join(claudeCode, strings.ReplaceAll(s.Project, "/", "-"), id+".jsonl"), s.asClaudeCode(id)
		if n%2 == 1 {
			file = filepath.Join(codex, s.Began.Format("2006/01/02"), fmt.Sprintf("rollout-%s-%s.jsonl", s.Began.Format("2006-01-02T15-04-05"), id))
			lines = s.asCodex(id)
		}
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(file, lines, 0o600); err != nil {
			return err
		}
	}
	return nil
}

type object map[string]any

// transcript writes the lines of a session, each some seconds after the one before.
type transcript struct {
	strings.Builder
	now   time.Time
	calls int
}

func (t *transcript) line(o object) {
	t.now = t.now.Add(3 * time.Second)
	o["timestamp"] = t.now.UTC().Format("2006-01-02T15:04:05.000Z")
	text, _ := json.Marshal(o) // of strings and numbers
	t.Write(append(text, '\n'))
}

func (s *Session) asClaudeCode(id string) []byte {
	t := transcript{now: s.Began}
	said := 0
	line := func(role string, content any) {
		said++
		message := object{"role": role, "content": content}
		if role == "assistant" {
			message["id"], message["type"], message["model"] = fmt.Sprintf("msg_%s_%d", id[24:], said), "message", "claude-sonnet-5"
			message["usage"] = object{"input_tokens": 100, "output_tokens": 20}
		}
		t.line(object{"type": role, "isSidechain": false, "uuid": fmt.Sprintf("%s-%d", id[24:], said), "cwd": s.Project, "sessionId": id, "version": "2.1.197", "message": message})
	}
	for _, r := range s.Rounds {
		line("user", r.Asked)
		for _, step := range r.Steps {
			t.calls++
			call := fmt.Sprintf("toolu_%s_%d", id[24:], t.calls)
			blocks := []object{{"type": "tool_use", "id": call, "name": "Bash", "input": object{"command": step.Command}}}
			if step.Saying != "" {
				blocks = append([]object{{"type": "text", "text": step.Saying}}, blocks...)
			}
			line("assistant", blocks)
			line("user", []object{{"type": "tool_result", "tool_use_id": call, "content": step.Output, "is_error": step.Failed}})
		}
		line("assistant", []object{{"type": "text", "text": r.Answered}})
	}
	return []byte(t.String())
}

func (s *Session) asCodex(id string) []byte {
	t := transcript{now: s.Began}
	said := 0
	item := func(payload object) {
		said++
		payload["id"] = fmt.Sprintf("item_%s_%d", id[24:], said)
		t.line(object{"type": "response_item", "payload": payload})
	}
	spoken := func(role, kind, text string) {
		item(object{"type": "message", "role": role, "content": []object{{"type": kind, "text": text}}})
	}
	used := func() {
		t.line(object{"type": "token_usage_record", "payload": object{"thread_id": id, "response_id": fmt.Sprintf("resp_%s_%d", id[24:], said), "usage": object{"input_tokens": 100, "output_tokens": 20, "total_tokens": 120}}})
	}
	t.line(object{"type": "session_meta", "payload": object{"id": id, "cwd": s.Project, "originator": "codex_exec", "cli_version": "0.171.0", "model_provider": "openai"}})
	spoken("user", "input_text", "<environment_context>\n  <cwd>"+s.Project+"</cwd>\n</environment_context>")
	t.line(object{"type": "turn_context", "payload": object{"turn_id": "t1", "cwd": s.Project, "model": "gpt-5.5"}})
	for _, r := range s.Rounds {
		spoken("user", "input_text", r.Asked)
		for _, step := range r.Steps {
			t.calls++
			call := fmt.Sprintf("call_%s_%d", id[24:], t.calls)
			if step.Saying != "" {
				spoken("assistant", "output_text", step.Saying)
			}
			arguments, _ := json.Marshal(object{"cmd": step.Command}) // of a string
			item(object{"type": "function_call", "name": "exec_command", "arguments": string(arguments), "call_id": call})
			used()
			code := 0
			if step.Failed {
				code = 1
			}
			item(object{"type": "function_call_output", "call_id": call, "output": fmt.Sprintf("Process exited with code %d\nOutput:\n%s", code, step.Output)})
		}
		spoken("assistant", "output_text", r.Answered)
		used()
	}
	return []byte(t.String())
}
