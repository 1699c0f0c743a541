package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/mnemeproxy/mneme/bench/provider"
	"github.com/mnemeproxy/mneme/bench/serving"
	"github.com/mnemeproxy/mneme/bench/work"
)

// Sizes of the memory that is asked.
const (
	sessionsOfProject = 60 // of six projects
	leastAnswered     = 0.95
)

// ask lets a client ask questions about imported work, each in a session of its own, whose model calls memory_recall once. It fails if
// too few results have what was said then, or if one quotes a conversation of the client itself.
func ask(ctx context.Context, out io.Writer, program, dir string, c client, questions int) (err error) {
	home := filepath.Join(dir, "home")
	w := work.Generate(uint64(len(c.name)), home, time.Now().Add(-24*time.Hour), sessionsOfProject)
	up, err := provider.Start(provider.Options{FreshIDs: true, Clock: time.Now, Keep: 64})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, up.Close()) }()
	for _, s := range w.Sessions {
		if err := os.MkdirAll(s.Project, 0o700); err != nil {
			return err
		}
	}
	config := fmt.Sprintf("providers:\n  openai: {base_url: %[1]s/v1, api_key: none}\n  anthropic: {base_url: %[1]s, api_key: none}\n", up.URL())
	s, err := serving.Start(ctx, program, dir, filepath.Join(dir, "data"), config)
	if err != nil {
		return err
	}
	defer s.Stop()
	if err := importWork(ctx, s, w, dir); err != nil {
		return err
	}
	key, err := s.Run(ctx, "key", "create", "--account", "default", "--recall", "off")
	if err != nil {
		return err
	}
	answered, asked := 0, 0
	step := max(len(w.Questions)/questions, 1)
	for i := 0; i < len(w.Questions) && asked < questions; i += step {
		q := &w.Questions[i]
		arguments, err := json.Marshal(map[string]string{"prompt": q.Text, "directory": q.Project})
		if err != nil {
			return err
		}
		call := fmt.Sprintf("call %s %s", c.recall, arguments)
		if c.namespace != "" {
			call += " namespace=" + c.namespace
		}
		prompt := fmt.Sprintf(`%s [[sim: %s ; then ; text "I have read it."]]`, q.Text, call)
		process := exec.CommandContext(ctx, program, slices.Concat([]string{"wrap", c.name, "--memory", "--"}, c.first, c.allowing, []string{prompt})...)
		process.Dir = q.Project
		process.Env = append(os.Environ(), "HOME="+home, "MNEME_URL="+s.URL, "MNEME_KEY="+key)
		if said, err := process.CombinedOutput(); err != nil {
			return fmt.Errorf("%q: %w: %s", q.Text, err, said)
		}
		asked++
		results := toolResults(up.Requests())
		if len(results) == 0 {
			return fmt.Errorf("%q: the client sent no result of the tool", q.Text)
		}
		result := results[len(results)-1]
		if strings.Contains(result, q.Text+" [[sim:") {
			return fmt.Errorf("%q is answered with the conversation that asks: %s", q.Text, result)
		}
		if slices.ContainsFunc(q.Values, func(value string) bool { return !strings.Contains(result, value) }) {
			fmt.Fprintf(out, "%s: %q is not answered with %q\n", c.name, q.Text, q.Values)
			continue
		}
		answered++
	}
	fmt.Fprintf(out, "%s: %d of %d questions answered from %d imported sessions, one call each\n", c.name, answered, asked, len(w.Sessions))
	if float64(answered) < leastAnswered*float64(asked) {
		return fmt.Errorf("%s: %d of %d questions were answered from memory", c.name, answered, asked)
	}
	return nil
}

// importWork imports the sessions, and waits until searches find them.
func importWork(ctx context.Context, s *serving.Mneme, w *work.Work, dir string) error {
	claudeCode, codex := filepath.Join(dir, "claude-code"), filepath.Join(dir, "codex")
	if err := w.Write(claudeCode, codex); err != nil {
		return err
	}
	for client, folder := range map[string]string{"claude-code": claudeCode, "codex": codex} {
		if _, err := s.Run(ctx, "import", "--from", client, "--account", "default", folder); err != nil {
			return err
		}
	}
	return awaitIndexed(ctx, s, len(w.Sessions))
}

// toolResults returns the texts of the tool results in the newest request that has any.
func toolResults(requests []provider.Recorded) (texts []string) {
	for _, r := range slices.Backward(requests) {
		var body any
		if json.Unmarshal(r.Body, &body) != nil {
			continue
		}
		if texts = appendResults(nil, body); len(texts) > 0 {
			return texts
		}
	}
	return nil
}

func appendResults(texts []string, value any) []string {
	switch v := value.(type) {
	case []any:
		for _, one := range v {
			texts = appendResults(texts, one)
		}
	case map[string]any:
		if v["type"] == "tool_result" || v["type"] == "function_call_output" {
			return append(texts, written(v["content"])+written(v["output"]))
		}
		for _, one := range v {
			texts = appendResults(texts, one)
		}
	}
	return texts
}

// written returns all strings in a value.
func written(value any) (text string) {
	switch v := value.(type) {
	case string:
		return v
	case []any:
		for _, one := range v {
			text += written(one)
		}
	case map[string]any:
		text = written(v["text"])
	}
	return text
}
