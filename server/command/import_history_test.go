package command

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/server/history"
	"github.com/mnemeproxy/mneme/store/record"
)

// agentsKept are sessions as agents keep them, with what they say in all.
type agentsKept struct {
	home, exports     string
	sessions, answers int64
	usage             record.UsageInfo
}

// lines writes a file of a history.
func (k *agentsKept) lines(t *testing.T, path string, lines ...any) {
	t.Helper()
	text := ""
	for _, line := range lines {
		one, err := json.Marshal(line)
		check(t, err)
		text += string(one) + "\n"
	}
	check(t, os.MkdirAll(filepath.Dir(path), 0o700))
	check(t, os.WriteFile(path, []byte(text), 0o600))
}

// count counts an answer, and returns its tokens: uncached, from a cache, and answered.
func (k *agentsKept) count(n int) (fresh, read, output int) {
	fresh, read, output = 100+n%90, 7*n%300, 10+n%50
	k.answers++
	k.usage.InputUncached += int64(fresh)
	k.usage.CacheRead += int64(read)
	k.usage.Output += int64(output)
	return fresh, read, output
}

type members map[string]any

// claudeCode keeps a session, and another one that resumes it: it repeats everything under its own ids.
func (k *agentsKept) claudeCode(t *testing.T, n int, at time.Time) {
	t.Helper()
	answers := make(map[int]members)
	of := func(session string, i int) members {
		line := members{"sessionId": session, "uuid": fmt.Sprintf("%s-%d", session, i), "timestamp": at.Add(time.Duration(i) * time.Minute), "cwd": "/home/ann/shop", "version": "2.1.197", "type": "user", "message": members{"role": "user", "content": fmt.Sprintf("Question %d of %d?", i, n)}}
		if i%2 == 1 {
			line["type"] = "assistant"
			if answers[i] == nil {
				fresh, read, output := k.count(n + i)
				answers[i] = members{"id": fmt.Sprintf("msg_%d_%d", n, i), "role": "assistant", "model": "gpt-4.1", "content": "So.", "usage": members{"input_tokens": fresh, "cache_read_input_tokens": read, "output_tokens": output}}
			}
			line["message"] = answers[i]
		}
		return line
	}
	for name, length := range map[string]int{"first": 4, "resumed": 6} {
		session := fmt.Sprintf("%s-%d", name, n)
		var lines []any
		for i := range length {
			lines = append(lines, of(session, i))
		}
		k.sessions++
		k.lines(t, filepath.Join(k.home, ".claude", "projects", "-home-ann-shop", session+".jsonl"), lines...)
	}
}

func (k *agentsKept) codex(t *testing.T, n int, at time.Time) {
	t.Helper()
	id := fmt.Sprintf("codex-%d", n)
	line := func(kind string, payload members) members {
		at = at.Add(time.Second)
		return members{"timestamp": at, "type": kind, "payload": payload}
	}
	lines := []any{line("session_meta", members{"id": id, "cwd": "/home/ann/shop", "originator": "codex_exec", "cli_version": "0.171.0"}), line("turn_context", members{"model": "gpt-4.1", "cwd": "/home/ann/shop"})}
	for i := range 3 {
		fresh, read, output := k.count(n + i)
		lines = append(lines, line("response_item", members{"type": "message", "role": "user", "content": []members{{"type": "input_text", "text": fmt.Sprintf("Question %d of %d?", i, n)}}}),
			line("response_item", members{"type": "message", "role": "assistant", "content": []members{{"type": "output_text", "text": "So."}}}),
			line("event_msg", members{"type": "token_count", "info": members{"last_token_usage": members{"input_tokens": fresh + read, "cached_input_tokens": read, "output_tokens": output}}}))
	}
	k.sessions++
	k.lines(t, filepath.Join(k.home, ".codex", "sessions", "2026", "11", "20", "rollout-"+id+".jsonl"), lines...)
}

func (k *agentsKept) opencode(t *testing.T, n int, at time.Time) {
	t.Helper()
	id := fmt.Sprintf("ses_%d", n)
	messages := []members{}
	for i := range 2 {
		began := at.Add(time.Duration(i) * time.Minute).UnixMilli()
		fresh, read, output := k.count(n + i)
		info := members{"id": fmt.Sprintf("msg_%d_%d", n, i), "role": "assistant", "modelID": "gpt-4.1", "providerID": "openai", "time": members{"created": began + 1000, "completed": began + 2000}, "path": members{"cwd": "/home/ann/shop"}, "tokens": members{"input": fresh, "output": output, "reasoning": 0, "cache": members{"read": read, "write": 0}}}
		messages = append(messages,
			members{"info": members{"id": "u" + id, "role": "user", "time": members{"created": began}}, "parts": []members{{"type": "text", "text": fmt.Sprintf("Question %d of %d?", i, n)}}},
			members{"info": info, "parts": []members{{"type": "text", "text": "So."}}})
	}
	k.sessions++
	k.lines(t, filepath.Join(k.exports, id+".json"), members{"info": members{"id": id, "title": "Session " + id, "directory": "/home/ann/shop", "time": members{"created": at.UnixMilli(), "updated": at.UnixMilli()}}, "messages": messages})
}

// Every answer of a history is on record once, with its list price and marked as imported, and nothing of it is measured.
func TestAHistoryOfManySessionsIsCountedAndPricedOnce(t *testing.T) {
	k := agentsKept{home: t.TempDir(), exports: t.TempDir()}
	for n := range 20 {
		at := time.Date(2026, 10, 1, 8, 0, 0, 0, time.UTC).AddDate(0, 0, 2*n)
		k.claudeCode(t, n, at)
		k.codex(t, n, at.Add(time.Hour))
		k.opencode(t, n, at.Add(2*time.Hour))
	}
	m := engineForAccounts(t)
	_, err := m.Accounts().Create("acme")
	check(t, err)
	archive := pricingArchive{m.Archive(), &importPrices{load: func() (router.Prices, error) { return router.LoadPrices("") }}}
	for round := range 2 {
		var sessions, exchanges int64
		for client, path := range map[string]string{"claude-code": "", "codex": "", "opencode": k.exports} {
			found, err := history.Look(t.Context(), client, &history.Search{Path: path, Home: k.home, Lookup: func(string) (string, bool) { return "", false }})
			check(t, err)
			if len(found.Problems) > 0 || len(found.Unknown) > 0 {
				t.Fatalf("%s: %v %v", client, found.Problems, found.Unknown)
			}
			taken, err := found.Import(t.Context(), archive, "acme", nil)
			check(t, err)
			sessions, exchanges = sessions+taken.Sessions, exchanges+taken.Exchanges
		}
		if round == 0 && (sessions != k.sessions || exchanges != k.answers) || round == 1 && sessions+exchanges > 0 {
			t.Errorf("import %d takes %d sessions and %d exchanges of %d and %d", round+1, sessions, exchanges, k.sessions, k.answers)
		}
	}
	for q := (record.ExchangeQuery{Limit: 100}); ; {
		page, err := m.Archive().Exchanges("acme", q)
		check(t, err)
		for i := range page.Data {
			x := &page.Data[i]
			if x.Imported.IsZero() || x.Cost == nil || !x.Cost.Notional || x.Cost.USD != listPrice(&x.Usage) {
				t.Errorf("%s: imported %s, cost %+v for %+v", x.ID, x.Imported, x.Cost, x.Usage)
			}
		}
		if !page.HasMore {
			break
		}
		q.After = page.Data[len(page.Data)-1].ID
	}
	var sum record.Rollup
	check(t, m.Accounts().Rollups(t.Context(), record.RollupQuery{Account: "acme"}, func(_ record.RollupOf, r *record.Rollup) {
		sum.Add(r)
	}))
	if sum.Requests != k.answers || sum.Usage != k.usage || sum.Cost.Notional != listPrice(&k.usage) || sum.Cost.USD != 0 || sum.Cost.Unpriced != 0 {
		t.Errorf("%+v, not %d answers with %+v for %d", sum, k.answers, k.usage, listPrice(&k.usage))
	}
	if sum.FirstByte != (record.Rollup{}).FirstByte {
		t.Errorf("times are measured: %v", sum.FirstByte)
	}
}

// listPrice is what gpt-4.1 costs.
func listPrice(u *record.UsageInfo) record.USD {
	return record.USD(u.InputUncached*2000 + u.CacheRead*500 + u.Output*8000)
}
