package history_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
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

// readBytes counts what is read.
type readBytes int

func (n *readBytes) Write(p []byte) (int, error) {
	*n += readBytes(len(p))
	return len(p), nil
}

// A watched file that has grown is read on where the last answer ended. One that was truncated, or is another one now, is
// read whole; however it is read, each answer is given once, and as a single reading of the whole file gives it.
func TestAWatchedFileThatHasGrownIsReadOn(t *testing.T) {
	claude := func(n int, session, word string) string {
		line := func(kind, id, content string, second int) string {
			at := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC).Add(time.Duration(n*10+second) * time.Second).Format(time.RFC3339)
			return fmt.Sprintf(`{"type":%q,"sessionId":%q,"uuid":"%s%d","timestamp":%q,"cwd":"/src","version":"2.1.197","message":{"id":"msg_%s%d","role":%q,"model":"claude-opus-4-8","content":[%s],"usage":{"input_tokens":9,"output_tokens":%d}}}`,
				kind, session, id, n, at, word, n, kind, content, n+1) + "\n"
		}
		text := func(words string) string { return fmt.Sprintf(`{"type":"text","text":"%s %d"}`, words, n) }
		return line("user", "q", text("asked "+word), 1) +
			line("assistant", "a", fmt.Sprintf(`{"type":"tool_use","id":"t%d","name":"Bash","input":{}}`, n), 2) +
			line("user", "r", fmt.Sprintf(`{"type":"tool_result","tool_use_id":"t%d","content":"ran %d"}`, n, n), 3) +
			line("assistant", "b", text("answered "+word), 4) // of the same answer
	}
	codex := func(n int, session, word string) string {
		line := func(second int, kind, payload string) string {
			at := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC).Add(time.Duration(n*10+second) * time.Second).Format(time.RFC3339)
			return fmt.Sprintf(`{"timestamp":%q,"type":%q,"payload":%s}`, at, kind, payload) + "\n"
		}
		head := ""
		if n == 0 {
			head = line(0, "session_meta", fmt.Sprintf(`{"id":%q,"cwd":"/src","originator":"codex_exec","cli_version":"0.171.0"}`, session))
		}
		return head + line(0, "turn_context", fmt.Sprintf(`{"model":"gpt-5-%d","cwd":"/src"}`, n%3)) +
			line(1, "response_item", fmt.Sprintf(`{"type":"message","role":"user","content":[{"type":"input_text","text":"asked %s %d"}]}`, word, n)) +
			line(2, "response_item", fmt.Sprintf(`{"type":"function_call","name":"exec_command","arguments":"{}","call_id":"c%d"}`, n)) +
			line(3, "event_msg", fmt.Sprintf(`{"type":"token_count","info":{"last_token_usage":{"input_tokens":9,"output_tokens":%d}}}`, n+1)) +
			line(4, "response_item", fmt.Sprintf(`{"type":"function_call_output","call_id":"c%d","output":"ran %d"}`, n, n)) +
			line(5, "response_item", fmt.Sprintf(`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"answered %s %d"}]}`, word, n))
	}
	for program, exchange := range map[string]func(n int, session, word string) string{"claude-code": claude, "codex": codex} {
		t.Run(program, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "a.jsonl")
			given := func(watch *history.Watch, age time.Duration) (said []string, read int) {
				t.Helper()
				at := time.Now().Add(-age)
				ok(t, os.Chtimes(path, at, at))
				var n readBytes
				h, err := history.Look(t.Context(), program, &history.Search{Path: path, Lookup: os.LookupEnv, Watch: watch, Show: &n})
				ok(t, err)
				if len(h.Problems) > 0 {
					t.Fatal(h.Problems)
				}
				ok(t, h.Give(t.Context(), nil, nil, func(e record.Exported) error {
					if x := e.Exchange; x != nil {
						said = append(said, fmt.Sprintf("%s %s %s %d %s %s", x.ID, x.ModelAsked, x.Session, x.Usage.Output, x.RawRequest, x.RawResponse))
					}
					return nil
				}))
				h.Imported()
				return said, int(n)
			}
			write := func(text string, flags int) {
				t.Helper()
				f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|flags, 0o600)
				ok(t, err)
				_, err = f.WriteString(text)
				ok(t, errors.Join(err, f.Close()))
			}
			watch := history.NewWatch()
			var said []string
			for n := range 200 {
				text := exchange(n, "session-1", "first")
				// Half of a line ends the file for a while.
				for _, part := range []string{text[:len(text)/2], text[len(text)/2:]} {
					write(part, os.O_APPEND)
					now, read := given(watch, 0)
					said = append(said, now...)
					if read > 3*len(text) {
						t.Fatalf("%d bytes are read for an exchange of %d", read, len(text))
					}
				}
			}
			last, _ := given(watch, time.Hour)
			said = append(said, last...)
			once, _ := given(nil, time.Hour)
			if !slices.Equal(said, once) {
				t.Errorf("read on, it gives %d exchanges, and at once %d:\n%s\n%s", len(said), len(once), said[len(said)-1], once[len(once)-1])
			}
			for word, exchanges := range map[string]int{"shorter": 2, "longer": 400} {
				text := ""
				for n := range exchanges {
					text += exchange(n, "session-"+word, word)
				}
				write(text, os.O_TRUNC)
				if now, _ := given(watch, time.Hour); len(now) < exchanges || !strings.Contains(now[0], "asked "+word+" 0") {
					t.Errorf("a %s file in its place gives %d exchanges", word, len(now))
				}
			}
		})
	}
}

// A subagent that begins after its session was imported still belongs to it.
func TestALaterSubagentHasItsSession(t *testing.T) {
	dir := t.TempDir()
	line := func(agent, kind, id, at string) string {
		return `{"type":"` + kind + `","sessionId":"s1","agentId":"` + agent + `","uuid":"` + id + `","timestamp":"2026-11-20T08:00:` + at + `Z","message":{"id":"msg_` + id + `","role":"` + kind + `","model":"m","content":"said","usage":{"input_tokens":1,"output_tokens":1}}}` + "\n"
	}
	watch := history.NewWatch()
	look := func() (sessions []*record.Session) {
		t.Helper()
		h, err := history.Look(t.Context(), "claude-code", &history.Search{Path: dir, Lookup: os.LookupEnv, Watch: watch})
		ok(t, err)
		ok(t, h.Give(t.Context(), nil, nil, func(e record.Exported) error {
			if e.Session != nil {
				sessions = append(sessions, e.Session)
			}
			return nil
		}))
		h.Imported()
		return sessions
	}
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		ok(t, os.MkdirAll(filepath.Dir(path), 0o700))
		ok(t, os.WriteFile(path, []byte(text), 0o600))
	}
	write("s1.jsonl", line("", "user", "q1", "01")+line("", "assistant", "a1", "02")+line("", "user", "q2", "03")+line("", "assistant", "a2", "04"))
	first := look()
	write("s1/subagents/agent-x.jsonl", line("x", "user", "q3", "05")+line("x", "assistant", "a3", "06")+line("x", "user", "q4", "07")+line("x", "assistant", "a4", "08"))
	later := look()
	if len(first) != 1 || len(later) != 1 || later[0].Agent != "x" || later[0].Parent != first[0].ID {
		t.Errorf("%+v, then %+v", first, later)
	}
}
