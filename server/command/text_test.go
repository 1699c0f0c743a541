package command

import (
	"testing"
	"time"
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
