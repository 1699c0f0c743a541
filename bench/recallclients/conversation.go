package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/mnemeproxy/mneme/bench/provider"
	"github.com/mnemeproxy/mneme/bench/serving"
	"github.com/mnemeproxy/mneme/server/api"
	"github.com/mnemeproxy/mneme/server/recall"
)

// client is a real client program.
type client struct {
	name        string   // for "mneme wrap"
	recorded    string   // its name in exchanges
	first, next []string // the arguments before the first question, and before later ones
	read        string   // script with which the simulated model reads a file
	recall      string   // the name of the tool memory_recall
	namespace   string   // of its name; "": it has none
	allowing    []string // arguments that allow it
}

var clients = map[string]client{
	"claude": {
		name: "claude", recorded: "claude-code", read: `call Read {"file_path": %q}`, recall: "mcp__mneme__memory_recall", allowing: []string{"--allowedTools=mcp__mneme__memory_recall", "--"},
		first: []string{"-p"}, next: []string{"--continue", "-p"},
	},
	"codex": {
		name: "codex", recorded: "codex", read: `call exec_command {"cmd": "cat %s"}`, recall: "memory_recall", namespace: "mcp__mneme",
		first: []string{"exec", "--skip-git-repo-check"}, next: []string{"exec", "--skip-git-repo-check", "resume", "--last"},
	},
}

// way is how a client gets recalled text.
type way struct {
	name string
	key  string // "mneme key create --recall"
	wrap []string
}

var ways = []way{
	{name: "off", key: "off"},
	{name: "in requests", key: "on"},
	{name: "by hooks", key: "off", wrap: []string{"--recall"}},
}

func (w *way) off() bool { return w.key == "off" && w.wrap == nil }

// topics are the subjects of earlier sessions, about which the client asks, one per turn.
var topics = []struct{ name, known string }{
	{"ErrLockTimeout", "The janitor holds the lock of the orders table while it compacts. With lock_wait at 30 s it went away."},
	{"PruneExpired", "It deletes in batches of 500, because larger ones held up the replicas for seconds."},
	{"retryBudget", "It is 10 % of the requests of a minute. Higher values made an outage of the warehouse worse."},
	{"CartTotals", "They are rounded for each line and not at the end, since the tax office adds up lines."},
	{"session_secret", "It comes from the vault. A copy in the environment was older and signed all customers out."},
	{"ImportStock", "It reads the export of the night as Windows-1252, because the warehouse writes that."},
}

// measured is a client's usage, and what was recalled for it.
type measured struct {
	api.UsageLine
	recalled recall.Counts
}

// prompts returns the tokens of all prompts.
func (m *measured) prompts() int64 {
	return m.Usage.InputUncached + m.Usage.CacheRead + m.Usage.CacheWrite
}

// measure runs a client's conversation, in a directory of its own.
func measure(ctx context.Context, program, dir string, c client, w way) (m measured, err error) {
	home := filepath.Join(dir, "home")
	project := filepath.Join(home, "shop")
	if err := os.MkdirAll(project, 0o700); err != nil {
		return m, err
	}
	files := []string{filepath.Join(project, "shop.go"), filepath.Join(project, "store.go")}
	script := fmt.Sprintf("[[sim: "+c.read+" ; then ; "+c.read+` ; then ; text "Because somebody decided it."]]`, files[0], files[1])
	up, err := provider.Start(provider.Options{Cache: true, Script: script, FreshIDs: true, Clock: time.Now, Keep: -1})
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, up.Close()) }()
	config := fmt.Sprintf("providers:\n  openai: {base_url: %[1]s/v1, api_key: none}\n  anthropic: {base_url: %[1]s, api_key: none}\n", up.URL()) +
		"recall: {deadline: 1s}\n" // the cache is measured, even on a busy machine
	s, err := serving.Start(ctx, program, dir, filepath.Join(dir, "data"), config)
	if err != nil {
		return m, err
	}
	defer s.Stop()
	key, err := s.Run(ctx, "key", "create", "--account", "default", "--recall", w.key)
	if err != nil {
		return m, err
	}
	if err := remember(ctx, s, key, project); err != nil {
		return m, err
	}
	for turn, topic := range topics {
		for _, file := range files { // different text each turn, which the client reads completely
			if err := os.WriteFile(file, []byte(source(topic.name)), 0o600); err != nil {
				return m, err
			}
		}
		process := exec.CommandContext(ctx, program, c.arguments(w, turn, question(topic.name))...)
		process.Dir = project
		process.Env = append(os.Environ(), "HOME="+home, "MNEME_URL="+s.URL, "MNEME_KEY="+key)
		if said, err := process.CombinedOutput(); err != nil {
			return m, fmt.Errorf("turn %d: %w: %s", turn+1, err, said)
		}
	}
	return collect(ctx, s, c)
}

// arguments returns the program's arguments.
func (c *client) arguments(w way, turn int, question string) []string {
	asked := c.next
	if turn == 0 {
		asked = c.first
	}
	return slices.Concat([]string{"wrap", c.name}, w.wrap, []string{"--"}, asked, []string{question})
}

func question(name string) string { return "Why does " + name + " work the way it does?" }

// source returns a file that takes some space in a prompt.
func source(name string) string {
	return "package shop\n\n" + strings.Repeat(fmt.Sprintf("func %s() error { return errors.New(%q) }\n", name, "not now"), 40)
}

// collect asks the server for the client's usage.
func collect(ctx context.Context, s *serving.Mneme, c client) (m measured, err error) {
	var used api.Usage
	if err := runJSON(ctx, s, &used, "usage", "--json", "--by", "client"); err != nil {
		return m, err
	}
	for _, line := range used.Data {
		if line.Client == c.recorded {
			m.UsageLine = line
		}
	}
	var stats []api.Stats
	if err := runJSON(ctx, s, &stats, "stats", "--json"); err != nil {
		return m, err
	}
	m.recalled = stats[0].Recall
	return m, nil
}

func runJSON(ctx context.Context, s *serving.Mneme, into any, args ...string) error {
	text, err := s.Run(ctx, args...)
	if err != nil {
		return err
	}
	return json.Unmarshal([]byte(text), into)
}
