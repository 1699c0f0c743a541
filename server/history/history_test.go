package history_test

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mnemeproxy/mneme/server/history"
	"github.com/mnemeproxy/mneme/store/digest"
	"github.com/mnemeproxy/mneme/store/record"
)

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// look reads the history of a client below a path.
func look(t *testing.T, client, path string) *history.History {
	t.Helper()
	h, err := history.Look(t.Context(), client, &history.Search{Path: path, Lookup: os.LookupEnv, Temp: t.TempDir(), Show: io.Discard})
	ok(t, err)
	return h
}

// told returns the contents of a history, one line per element, without ids.
func told(t *testing.T, h *history.History, recorded func(*history.Session) *history.Recorded) (lines []string) {
	t.Helper()
	err := h.Give(t.Context(), io.Discard, recorded, func(step record.Exported) error {
		if s := step.Session; s != nil {
			lines = append(lines, fmt.Sprintf("session %s %q agent=%q child=%t", s.NativeSession, s.Title, s.Agent, s.Parent != ""))
			return nil
		}
		x := step.Exchange
		lines = append(lines, fmt.Sprintf("%s %s %s %s %s in=%d cached=%d out=%d answer=%s", x.Client(), x.Surface, x.ModelAsked, x.Project,
			x.Started.UTC().Format("2006-01-02T15:04:05.000"), x.Usage.InputUncached, x.Usage.CacheRead, x.Usage.Output, x.ResponseID))
		d, err := digest.Exchange(x)
		ok(t, err)
		for _, m := range slices.Concat(d.Messages, d.Answer) {
			for _, p := range m.Parts {
				lines = append(lines, strings.TrimRight(fmt.Sprintf("  %s %s %s%s%s", m.Role, p.Kind, p.Name, p.Arguments, p.Text), " "))
			}
		}
		return nil
	})
	ok(t, err)
	return lines
}

func TestHistoriesAreReadAsTheirClientsWroteThem(t *testing.T) {
	for client, want := range map[string]struct {
		path    string
		unknown map[string]int
		lines   string
	}{
		"claude-code": {"claude-code", map[string]int{"hologram": 1}, `
session 6f1c0c1e-0000-4000-8000-000000000001 "Walrus cache misses" agent="" child=false
claude-code messages claude-sonnet-5 /home/ann/shop 2026-03-02T09:00:00.100 in=100 cached=30 out=60 answer=msg_walrus1
  user text Why does the walrus cache miss?
  assistant reasoning Look at the cache.
  assistant call Bash{"command":"go test ./cache"}
  assistant call Agent{"prompt":"Look at the otter."}
claude-code messages claude-sonnet-5 /home/ann/shop 2026-03-02T09:00:06.000 in=200 cached=0 out=12 answer=msg_walrus2
  tool result Exit code 1
panic: walrus key 17 not found
  tool result The otter is fine.
  assistant text The key is never written: see cache/walrus.go.
session 6f1c0c1e-0000-4000-8000-000000000001 "" agent="a1" child=true
claude-code messages claude-haiku-5 /home/ann/shop 2026-03-02T09:00:05.600 in=10 cached=0 out=4 answer=msg_otter1
  user text Look at the otter.
  assistant text The otter is fine.`},
		"codex": {"codex", map[string]int{}, `
session 0199b000-0000-7000-8000-000000000002 "" agent="" child=false
codex responses gpt-5.5 /home/ann/shop 2026-03-02T10:00:00.040 in=400 cached=100 out=20 answer=resp_penguin1
  user text List the penguins
  assistant reasoning They are in a file.
  assistant call exec_command{"cmd":"cat penguins.txt"}
codex responses gpt-5.5 /home/ann/shop 2026-03-02T10:00:02.000 in=40 cached=500 out=9 answer=resp_penguin2
  tool result Process exited with code 0
Output:
emperor
rockhopper

  assistant text There are two: emperor and rockhopper.`},
		"opencode": {"opencode", map[string]int{"hologram": 1}, `
session ses_made1 "The lynx in lock.go" agent="" child=false
opencode chat gpt-5.5 /home/ann/shop 2026-03-02T10:00:00.000 in=70 cached=30 out=10 answer=
  user text What does the lynx do?
  assistant reasoning It is in lock.go.
  assistant call read{"filePath": "/home/ann/shop/lock.go"}
opencode chat gpt-5.5 /home/ann/shop 2026-03-02T10:00:04.000 in=80 cached=90 out=6 answer=
  tool result package lock // the lynx waits
  assistant text It waits for the lock.`},
		"chatgpt": {"chatgpt", map[string]int{"image_asset_pointer": 1, "messages of branches that were not shown last": 1}, `
session conv-ibex "Ibex recipes" agent="" child=false
chatgpt chat gpt-5  2026-03-02T10:00:01.000 in=0 cached=0 out=0 answer=
  user text Which herb goes with ibex?
  assistant call web{"input":"search('ibex herb')"}
chatgpt chat gpt-5  2026-03-02T10:00:03.000 in=0 cached=0 out=0 answer=
  tool result juniper, says a page
  assistant reasoning Juniper it is.
  assistant text Juniper goes with ibex.`},
	} {
		t.Run(client, func(t *testing.T) {
			h := look(t, client, filepath.Join("testdata", want.path))
			if len(h.Problems) > 0 {
				t.Error(h.Problems)
			}
			if !maps.Equal(h.Unknown, want.unknown) {
				t.Errorf("not known are %v, not %v", h.Unknown, want.unknown)
			}
			lines := strings.Join(told(t, h, nil), "\n")
			if d := cmp.Diff(strings.TrimSpace(want.lines), lines); d != "" {
				t.Error(d)
			}
			if again := strings.Join(told(t, look(t, client, filepath.Join("testdata", want.path)), nil), "\n"); again != lines {
				t.Error("the second reading gives something else")
			}
		})
	}
}

// Ids depend on the history alone, so that a second import finds the first one's exchanges.
func TestIdsAreTheSameEachTime(t *testing.T) {
	ids := func(dir string) (ids []string) {
		ok(t, look(t, "claude-code", dir).Give(t.Context(), io.Discard, nil, func(step record.Exported) error {
			if step.Exchange != nil {
				ids = append(ids, step.Exchange.ID+" "+step.Exchange.Session)
			}
			return nil
		}))
		return ids
	}
	elsewhere := t.TempDir()
	ok(t, os.CopyFS(elsewhere, os.DirFS("testdata/claude-code")))
	first, second := ids("testdata/claude-code"), ids(elsewhere)
	if len(first) != 3 || !slices.Equal(first, second) {
		t.Errorf("ids are %q, then %q", first, second)
	}
}

// An exchange that passed through the server is already on record, in more detail than the client's history has.
func TestWhatPassedThroughTheServerIsLeftOut(t *testing.T) {
	h := look(t, "claude-code", "testdata/claude-code")
	lines := told(t, h, func(s *history.Session) *history.Recorded {
		if s.Agent != "" {
			return nil
		}
		return &history.Recorded{Session: "sess_1", Since: s.First, Answers: map[string]bool{"msg_walrus2": true}}
	})
	all := strings.Join(lines, "\n")
	if strings.Contains(all, "answer=msg_walrus2") || !strings.Contains(all, "answer=msg_walrus1") || !strings.Contains(all, "answer=msg_otter1") {
		t.Error(all)
	}
	if strings.Contains(all, "Walrus cache misses") {
		t.Error("the session on record is imported again")
	}
}

func TestAnArchiveOfChatGPTIsReadAsItIs(t *testing.T) {
	text, err := os.ReadFile("testdata/chatgpt/conversations.json")
	ok(t, err)
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, name := range []string{"user.json", "conversations-000.json"} {
		w, err := z.Create(name)
		ok(t, err)
		_, err = w.Write(text)
		ok(t, err)
	}
	ok(t, z.Close())
	file := filepath.Join(t.TempDir(), "export.zip")
	ok(t, os.WriteFile(file, b.Bytes(), 0o600))
	if h := look(t, "chatgpt", file); len(h.Sessions()) != 1 || len(h.Problems) > 0 || h.Sessions()[0].Exchanges != 2 {
		t.Errorf("%+v %v", h.Sessions(), h.Problems)
	}
}

// A file that cannot be read to its end yields nothing, and its error says where; the other files are read.
func TestNothingIsImportedFromAFileWithAnError(t *testing.T) {
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join("testdata", name))
		ok(t, err)
		return string(text)
	}
	claude := read("claude-code/-home-ann-shop/6f1c0c1e-0000-4000-8000-000000000001.jsonl")
	chatGPT, opencode := read("chatgpt/conversations.json"), read("opencode/ses_made1.json")
	for name, c := range map[string]struct{ client, text, want string }{
		"half.jsonl":     {"claude-code", claude[:len(claude)-20] + "\n" + claude, "half.jsonl: line 13: this is not JSON"},
		"sooner.jsonl":   {"claude-code", strings.ReplaceAll(claude, `"2026-03-02T`, `"0001-03-02T`), "the time 0001-03-02T09:00:00Z cannot be"},
		"broken.jsonl":   {"claude-code", strings.Replace(claude, `"uuid":"u3"`, `"uuid":u3`, 1), "broken.jsonl: line 6: this is not JSON"},
		"foreign.jsonl":  {"claude-code", `{"type":"session_meta","payload":{"id":"x"}}` + "\n", "this is not a history of claude-code"},
		"text.jsonl":     {"codex", "Dear diary,\ntoday", "text.jsonl: line 1: this is not JSON"},
		"other.jsonl":    {"codex", claude, "this is not a history of codex"},
		"conv.json":      {"chatgpt", chatGPT[:len(chatGPT)/2], "the file is truncated"},
		"object.json":    {"chatgpt", `{"a":1}`, "conversations-object.json: line 1: this is not a list of conversations"},
		"ses_cut.json":   {"opencode", opencode[:len(opencode)-40], "the session is truncated"},
		"ses_other.json": {"opencode", `{"a":1}`, "this is not a history of opencode"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if c.client == "chatgpt" {
				name = "conversations-" + name
			}
			ok(t, os.WriteFile(filepath.Join(dir, name), []byte(c.text), 0o600))
			if c.client == "claude-code" {
				ok(t, os.WriteFile(filepath.Join(dir, "good.jsonl"), []byte(claude), 0o600))
			}
			h := look(t, c.client, dir)
			if len(h.Problems) != 1 || !strings.Contains(h.Problems[0].Error(), c.want) {
				t.Fatalf("problems are %v, not %q", h.Problems, c.want)
			}
			if want := map[bool]int{true: 1}[c.client == "claude-code"]; len(h.Sessions()) != want {
				t.Errorf("%d sessions, not %d", len(h.Sessions()), want)
			}
			if given := len(told(t, h, nil)); c.client != "claude-code" && given > 0 {
				t.Errorf("%d lines of a file with an error", given)
			}
		})
	}
}

// A line that is too long for memory is refused before all of it is read.
func TestAnEndlessLineIsRefused(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "long.jsonl")
	file, err := os.Create(name)
	ok(t, err)
	_, err = file.WriteString(`{"type":"summary"}` + "\n" + `{"type":"user","sessionId":"`)
	ok(t, err)
	ok(t, file.Truncate(10<<30)) // sparse: takes no space on the disk
	ok(t, file.Close())
	h := look(t, "claude-code", dir)
	if len(h.Problems) != 1 || !strings.Contains(h.Problems[0].Error(), "line 2 is longer than the maximum of 64 MiB") {
		t.Error(h.Problems)
	}
}

// Formats change: a member of another type does not stop a file from being read.
func TestAMemberOfAnotherTypeIsCountedAndLeftOut(t *testing.T) {
	dir := t.TempDir()
	text := `{"type":"user","message":{"role":"user","content":"Hello"},"uuid":"u","timestamp":"2026-03-02T09:00:00Z","sessionId":"s","version":7}
{"type":"assistant","message":{"id":"m","role":"assistant","model":"x","content":[{"type":"text","text":"Good day"}]},"uuid":"v","timestamp":"2026-03-02T09:00:01Z","sessionId":"s"}
`
	ok(t, os.WriteFile(filepath.Join(dir, "a.jsonl"), []byte(text), 0o600))
	h := look(t, "claude-code", dir)
	if len(h.Problems) > 0 || h.Unknown["a number as version"] != 1 || len(h.Sessions()) != 1 {
		t.Errorf("%v %v %v", h.Problems, h.Unknown, h.Sessions())
	}
}

// A program that was killed, or that still runs, leaves a last line that is not whole. Everything before it is read.
func TestALastLineThatIsCutOffIsLeftOut(t *testing.T) {
	for client, name := range map[string]string{"claude-code": "-home-ann-shop/6f1c0c1e-0000-4000-8000-000000000001.jsonl", "codex": ""} {
		t.Run(client, func(t *testing.T) {
			if name == "" {
				ok(t, filepath.WalkDir("testdata/codex", func(path string, entry os.DirEntry, err error) error {
					if !entry.IsDir() {
						name, _ = filepath.Rel("testdata/codex", path)
					}
					return err
				}))
			}
			text, err := os.ReadFile(filepath.Join("testdata", client, name))
			ok(t, err)
			whole := strings.TrimRight(string(text), "\n")
			last := strings.LastIndexByte(whole, '\n') + 1
			for _, end := range []string{"", "\n"} {
				dir := t.TempDir()
				ok(t, os.WriteFile(filepath.Join(dir, "rollout-cut.jsonl"), []byte(whole[:last+(len(whole)-last)/2]+end), 0o600))
				ok(t, os.WriteFile(filepath.Join(dir, "rollout-only.jsonl"), []byte(`{"type":"us`), 0o600))
				h := look(t, client, dir)
				lines := strings.Count(whole, "\n") + 1
				want := fmt.Sprintf("rollout-cut.jsonl: line %d, the last one, is cut off", lines)
				if len(h.Problems) > 0 || len(h.Cut) != 2 || !strings.HasSuffix(h.Cut[0], want) {
					t.Errorf("problems %v, cut off %q, and not %q", h.Problems, h.Cut, want)
				}
				if len(h.Sessions()) != 1 || len(told(t, h, nil)) == 0 {
					t.Errorf("%+v", h.Sessions())
				}
			}
		})
	}
}

// forked is a session of Claude Code, and one that was forked from it: its first lines are copies under other ids, and
// at another time.
func forked(t *testing.T) (original, fork string) {
	t.Helper()
	line := func(session, kind, id, at string, output int, text string) string {
		message := fmt.Sprintf(`{"role":"user","content":%q}`, text)
		if kind == "assistant" {
			message = fmt.Sprintf(`{"id":%q,"role":"assistant","model":"claude-sonnet-5","content":[{"type":"text","text":%q}],"usage":{"input_tokens":10,"output_tokens":%d}}`, id, text, output)
		}
		return fmt.Sprintf(`{"type":%q,"uuid":%q,"requestId":%q,"sessionId":%q,"timestamp":%q,"message":%s}`, kind, session+id+text, "req_"+id, session, at, message) + "\n"
	}
	turns := func(session, day string, first, last int) (text string) {
		for i := first; i <= last; i++ {
			text += line(session, "user", fmt.Sprintf("q%d", i), fmt.Sprintf("%sT09:0%d:00Z", day, i), 0, fmt.Sprintf("question %d", i))
			text += line(session, "assistant", fmt.Sprintf("msg_%d", i), fmt.Sprintf("%sT09:0%d:01Z", day, i), 100+i, fmt.Sprintf("answer %d", i))
		}
		return text
	}
	return turns("aaaaaaaa-1", "2026-03-02", 1, 3), turns("bbbbbbbb-2", "2026-03-03", 1, 2) + turns("bbbbbbbb-2", "2026-03-03", 4, 4)
}

// An answer that a resumed or forked session repeats is no new exchange, in whichever order the files come.
func TestAnAnswerThatAForkRepeatsCountsOnce(t *testing.T) {
	original, fork := forked(t)
	for name, files := range map[string][2]string{"original first": {"a.jsonl", "b.jsonl"}, "fork first": {"b.jsonl", "a.jsonl"}} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			ok(t, os.WriteFile(filepath.Join(dir, files[0]), []byte(original), 0o600))
			ok(t, os.WriteFile(filepath.Join(dir, files[1]), []byte(fork), 0o600))
			h := look(t, "claude-code", dir)
			exchanges := 0
			for _, s := range h.Sessions() {
				exchanges += s.Exchanges
			}
			answers := make(map[string]int)
			var output int64
			ok(t, h.Give(t.Context(), io.Discard, nil, func(step record.Exported) error {
				if x := step.Exchange; x != nil {
					answers[x.ResponseID]++
					output += x.Usage.Output
				}
				return nil
			}))
			if exchanges != 4 || len(answers) != 4 || output != 101+102+103+104 {
				t.Errorf("%d exchanges are found, and given are %v with %d tokens", exchanges, answers, output)
			}
		})
	}
}

// Answers that passed through the server are not imported from a session that repeats them either.
func TestAnAnswerOnRecordIsLeftOutOfAFork(t *testing.T) {
	original, fork := forked(t)
	dir := t.TempDir()
	ok(t, os.WriteFile(filepath.Join(dir, "b.jsonl"), []byte(original), 0o600))
	ok(t, os.WriteFile(filepath.Join(dir, "a.jsonl"), []byte(fork), 0o600))
	h := look(t, "claude-code", dir)
	recorded, err := h.RecordedIn(passed{"aaaaaaaa-1", []string{"msg_1", "msg_2", "msg_3"}})
	ok(t, err)
	all := strings.Join(told(t, h, recorded), "\n")
	if strings.Count(all, "answer=") != 1 || !strings.Contains(all, "answer=msg_4") || strings.Contains(all, "session aaaaaaaa-1") {
		t.Error(all)
	}
}

// passed is a store with one session that passed through it.
type passed struct {
	native  string
	answers []string
}

func (p passed) EachSession(visit func(*record.Session) error) error {
	return visit(&record.Session{ID: "sess_1", NativeSession: p.native})
}

func (p passed) EachExchange(_ string, visit func(*record.ExchangeInfo)) error {
	for _, id := range p.answers {
		visit(&record.ExchangeInfo{ResponseID: id, Started: time.Now()})
	}
	return nil
}

// Counts that no answer can have are unknown.
func TestCountsBeyondReasonAreUnknown(t *testing.T) {
	original, _ := forked(t)
	dir := t.TempDir()
	ok(t, os.WriteFile(filepath.Join(dir, "a.jsonl"), []byte(strings.NewReplacer(`"output_tokens":101`, `"output_tokens":-101`, `"output_tokens":102`, `"output_tokens":9223372036854775807`).Replace(original)), 0o600))
	ok(t, look(t, "claude-code", dir).Give(t.Context(), io.Discard, nil, func(step record.Exported) error {
		if x := step.Exchange; x != nil && x.ResponseID != "msg_3" && x.Usage != (record.UsageInfo{InputUncached: 10}) {
			t.Errorf("%+v", x.Usage)
		}
		return nil
	}))
}
