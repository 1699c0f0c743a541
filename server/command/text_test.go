package command

import (
	"bytes"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/server/api"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/search"
)

func TestTimesAndAmountsAreWrittenForPeople(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.Local)
	for _, tt := range []struct{ want, got string }{
		{"-", ago(now, time.Time{})},
		{"just now", ago(now, now.Add(time.Second))}, // a clock that was set back
		{"just now", ago(now, now.Add(-59*time.Second))},
		{"1 min ago", ago(now, now.Add(-time.Minute))},
		{"23 h ago", ago(now, now.Add(-24*time.Hour+time.Second))},
		{"2026-11-19 12:00", ago(now, now.Add(-24*time.Hour))},
		{"0 ms", lasted(0)},
		{"999 ms", lasted(999*time.Millisecond + 999*time.Microsecond)},
		{"1.5 s", lasted(1500 * time.Millisecond)},
		{"599 s", lasted(10*time.Minute - time.Millisecond)},
		{"10 min", lasted(10 * time.Minute)},
		{"999 B", amount(999)},
		{"1.0 KB", amount(1000)},
		{"87.3 KB", amount(87_300)},
		{"64.0 MB", amount(64_000_000)},
		{"5000.0 TB", amount(5_000_000_000_000_000)},
	} {
		if tt.got != tt.want {
			t.Errorf("want %q, got %q", tt.want, tt.got)
		}
	}
}

func TestWhatCallersSentCannotPlayWithTheTerminal(t *testing.T) {
	for in, want := range map[string]string{
		"gpt-5-mini":        "gpt-5-mini",
		`say "hi" — 检索`:     `say "hi" — 检索`,
		"\x1b[2Jgone":       `\x1b[2Jgone`,
		"a\tb\nc":           `a\tb\nc`,
		"right\u202eleft":   `right\u202eleft`,
		"not utf-8: \xff\"": `not utf-8: \xff"`,
	} {
		if got := printable(in); got != want {
			t.Errorf("%q: want %s, got %s", in, want, got)
		}
	}
	if got, want := printableLines("one\r\ntwo\x07\n\n"), "one\ntwo\\a\n\n"; got != want {
		t.Errorf("want %q, got %q", want, got)
	}
}

// Lists fit a terminal: what matters least is left out, and long cells are cut, whatever a client put into them.
func TestAListFitsTheTerminal(t *testing.T) {
	long := strings.Repeat("a long name ", 20)
	several := func(m api.Session, account string) api.Session {
		m.Account = account
		return m
	}
	session := api.Session{Session: record.Session{Models: []string{long, long}, Exchanges: 123_456, Title: "検索" + long, Updated: time.Now().AddDate(-1, 0, 0)}}
	session.Beginning = &search.Beginning{Client: "名前の長いプログラムとその版\x1b[2J", Project: "/src/" + strings.Repeat("プロジェクト", 9), Asked: long}
	line := api.UsageLine{Model: long, Project: long, Account: long}
	line.Requests, line.Errors, line.Usage.Output = 123_456_789, 123_456_789, 123_456_789_012
	line.Cost.USD, line.Cost.Saved = 123_456_789_000_000_000, 123_456_789_000_000_000
	for _, width := range []int{80, 110} {
		t.Setenv("COLUMNS", strconv.Itoa(width))
		for name, write := range map[string]func(*Env) error{
			"session list": func(s *Env) error { return (&SessionList{}).show(s, []api.Session{session, several(session, long)}) },
			"usage": func(s *Env) error {
				return (&Usage{By: []string{"model"}}).writeTable(s, &api.Usage{Data: []api.UsageLine{line}, Total: line})
			},
			"usage --by model,project": func(s *Env) error {
				return (&Usage{By: []string{"model", "project"}}).writeTable(s, &api.Usage{Data: []api.UsageLine{line}, Total: line})
			},
			"key list": func(s *Env) error {
				key := store.Key{ID: "key_00000000000000", Account: long, Label: long, Models: []string{long}, Created: time.Now().AddDate(-1, 0, 0), LastUsed: time.Now().AddDate(-1, 0, 0)}
				key.Scopes, key.Revoked, key.Limits.RequestsPerMinute = store.AllScopes, time.Now().AddDate(-1, 0, 0), 123_456_789
				return (&KeyList{}).show(s, []store.Key{key})
			},
		} {
			var out bytes.Buffer
			if err := write(&Env{Out: &out, Err: io.Discard}); err != nil {
				t.Fatal(err)
			}
			for shown := range strings.Lines(out.String()) {
				if wide := displayWidth(strings.TrimSuffix(shown, "\n")); wide > width {
					t.Errorf("%s on %d columns has %d:\n%s", name, width, wide, out.String())
					break
				}
			}
			if strings.Contains(out.String(), "\x1b") {
				t.Errorf("%s moves the cursor: %q", name, out.String())
			}
		}
	}
}
