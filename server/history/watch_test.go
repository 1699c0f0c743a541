package history_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/server/history"
	"github.com/mnemeproxy/mneme/store/record"
)

// A file that a program still writes is read when it changes, its last answer when it has been quiet for a while, and the
// answers that a resumed conversation repeats never count again.
func TestAWatchedHistoryIsReadAsFarAsItIsComplete(t *testing.T) {
	dir := t.TempDir()
	line := func(session, kind, id, text, at string) string {
		return `{"type":"` + kind + `","sessionId":"` + session + `","uuid":"` + id + session + `","timestamp":"2026-11-20T08:00:` + at + `Z","cwd":"/src","version":"2.1.197","message":{"id":"msg_` + id + `","role":"` + kind + `","model":"claude-opus-4-8","content":[{"type":"text","text":"` + text + `"}],"usage":{"input_tokens":1,"output_tokens":1}}}` + "\n"
	}
	first, second := filepath.Join(dir, "a.jsonl"), filepath.Join(dir, "b.jsonl")
	write := func(path, text string, age time.Duration) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		at := time.Now().Add(-age)
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	watch := history.NewWatch()
	look := func() (said []string, found *history.History) {
		t.Helper()
		h, err := history.Look(t.Context(), "claude-code", &history.Search{Path: dir, Lookup: os.LookupEnv, Watch: watch})
		if err != nil {
			t.Fatal(err)
		}
		err = h.Give(t.Context(), nil, nil, func(e record.Exported) error {
			if e.Exchange != nil {
				said = append(said, e.Exchange.ResponseID)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return said, h
	}
	expect := func(what, want string, wantFiles int) {
		t.Helper()
		said, h := look()
		if strings.Join(said, " ") != want || h.Files != wantFiles {
			t.Errorf("%s: %q of %d files, not %q of %d", what, said, h.Files, want, wantFiles)
		}
		h.Imported()
	}
	begun := line("s1", "user", "q1", "One?", "01") + line("s1", "assistant", "a1", "One.", "02") + line("s1", "user", "q2", "Two?", "03") + line("s1", "assistant", "a2", "Tw", "04")
	write(first, begun, 0)
	expect("being written", "msg_a1", 1)
	write(first, begun, time.Hour)
	expect("complete", "msg_a2", 1)
	expect("unchanged", "", 0)
	write(second, strings.ReplaceAll(begun, "s1", "s2")+line("s2", "user", "q3", "Three?", "05")+line("s2", "assistant", "a3", "Three.", "06"), time.Hour)
	expect("resumed in another file", "msg_a3", 1)
	write(first, begun+`{"type":"user","sess`, time.Hour)
	expect("with a line cut off", "", 1)
	write(first, begun+line("s1", "user", "q4", "Four?", "07")+line("s1", "assistant", "a4", "Four.", "08"), time.Hour)
	expect("continued", "msg_a4", 1)
	failed := line("s1", "user", "q5", "Five?", "09") + line("s1", "assistant", "a5", "Five.", "10")
	write(first, begun+failed, time.Hour)
	if said, _ := look(); strings.Join(said, " ") != "msg_a5" {
		t.Errorf("before it is on record: %q", said)
	}
	expect("after an import that failed", "msg_a5", 1)
	expect("on record", "", 0)
}

// Claude Code deletes sessions after a time without use, which its settings say.
func TestSessionsThatClaudeCodeDeletesSoonAreCounted(t *testing.T) {
	home, now := t.TempDir(), time.Now()
	projects := filepath.Join(home, ".claude", "projects", "shop")
	ok(t, os.MkdirAll(projects, 0o700))
	for name, days := range map[string]int{"a": 1, "b": 24, "agent-c": 24, "d": 40} {
		file := filepath.Join(projects, name+".jsonl")
		ok(t, os.WriteFile(file, nil, 0o600))
		ok(t, os.Chtimes(file, now, now.AddDate(0, 0, -days)))
	}
	lookup := func(string) (string, bool) { return "", false }
	expect := func(days, next int) {
		t.Helper()
		c := history.CleanupOf(t.Context(), &history.Search{Home: home, Lookup: lookup}, now)
		if c.Days != days || c.Next != next {
			t.Errorf("after %d days, %d soon; want %d and %d", c.Days, c.Next, days, next)
		}
	}
	expect(30, 2)
	for settings, want := range map[string][2]int{`{"cleanupPeriodDays":20}`: {20, 2}, `{"cleanupPeriodDays":99999}`: {99999, 0}, `{"cleanupPeriodDays":"x"}`: {30, 2}, `{`: {30, 2}} {
		ok(t, os.WriteFile(filepath.Join(home, ".claude", "settings.json"), []byte(settings), 0o600))
		expect(want[0], want[1])
	}
}
