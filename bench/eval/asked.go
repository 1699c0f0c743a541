package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/mnemeproxy/mneme/bench/work"
	"github.com/mnemeproxy/mneme/server/history"
	"github.com/mnemeproxy/mneme/server/recall"
	"github.com/mnemeproxy/mneme/store/search/localhash"
)

// A memory of several hundred imported sessions of Claude Code and Codex is asked over MCP, one call a question, as an agent asks that is
// itself in a conversation about the question. It is judged whether the answer has what was said then, and nothing of that conversation.

const (
	workName        = "work"
	workSessions    = 70   // of each project
	leastAnswered   = 0.97 // of the questions
	leastOfKind     = 0.85 // of a kind's
	workAccount     = "dev"
	workedUntil     = 24 * time.Hour // before now
	askingDirectory = "X-Service-Project"
)

// evaluateWork judges the answers to questions about generated work.
func evaluateWork(ctx context.Context, out io.Writer, seed uint64) (below bool, err error) {
	hasher, err := localhash.New(localhash.DefaultDimensions)
	if err != nil {
		return false, err
	}
	h, err := build(ctx, localhash.Embedder{Hasher: hasher})
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, h.close()) }()
	w := work.Generate(seed, "/home/ann", time.Now().Add(-workedUntil), workSessions)
	if err := h.importWork(ctx, w); err != nil {
		return false, err
	}
	if below, err = h.judgeUnasked(ctx, out, w); err != nil {
		return false, err
	}
	asked, answered, own := map[string]int{}, map[string]int{}, 0
	var took []time.Duration
	for i := range w.Questions {
		q := &w.Questions[i]
		session, err := h.wonder(ctx, q, i)
		if err != nil {
			return false, err
		}
		began := time.Now()
		text, err := h.askOverMCP(ctx, q)
		if err != nil {
			return false, err
		}
		took = append(took, time.Since(began))
		if strings.Contains(text, session) {
			own++
			fmt.Fprintf(out, "OWN CONVERSATION: %q finds %s\n", q.Text, session)
		}
		asked[q.Kind]++
		if held(text, q.Values) == len(q.Values) {
			answered[q.Kind]++
		} else {
			fmt.Fprintf(out, "unanswered: %s, %q in %s: %q\n", q.Kind, q.Text, q.Project, q.Values)
			if os.Getenv("EVAL_SHOW") != "" {
				fmt.Fprintln(out, text)
			}
		}
	}
	slices.Sort(took)
	fmt.Fprintf(out, "\n%s: %d sessions, %d questions over MCP\n", workName, len(w.Sessions), len(w.Questions))
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "kind\tquestions\tanswered\t")
	all := 0
	for _, kind := range slices.Sorted(maps.Keys(asked)) {
		fmt.Fprintf(table, "%s\t%d\t%.3f\t\n", kind, asked[kind], share(answered[kind], asked[kind]))
		all += answered[kind]
		if share(answered[kind], asked[kind]) < leastOfKind {
			below = true
		}
	}
	fmt.Fprintf(table, "all\t%d\t%.3f\t\n", len(w.Questions), share(all, len(w.Questions)))
	if err := table.Flush(); err != nil {
		return false, err
	}
	fmt.Fprintf(out, "an answer takes %s (p50) to %s (p99)\n", quantile(took, 0.5), quantile(took, 0.99))
	if below = below || own > 0 || share(all, len(w.Questions)) < leastAnswered; below {
		fmt.Fprintf(out, "BELOW THE GATE: the answers to %s have to say what is asked in %.2f, in %.2f of each kind, and nothing of the conversation that asks\n", workName, leastAnswered, leastOfKind)
	}
	return below, nil
}

// judgeUnasked judges what an agent is told that has not asked: of questions that are answered in its project, of those that are not, and of
// those of other memories.
func (h *harness) judgeUnasked(ctx context.Context, out io.Writer, w *work.Work) (below bool, err error) {
	m := recall.New(recall.Over(h.store), recall.Options{Deadline: time.Minute, Age: 10 * workedUntil * 365})
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "unasked\tquestions\tspeaks\tsays the value\tof those it speaks to\t")
	judge := func(name string, questions []work.Question) (spoken float64) {
		spoke, said := 0, 0
		for i := range questions {
			q := &questions[i]
			text := m.Recall(ctx, &recall.Query{Account: workAccount, Prompt: q.Text, Project: q.Project, Wide: q.Project == ""}).Text
			if text == "" {
				continue
			}
			spoke++
			if len(q.Values) > 0 && held(text, q.Values) == len(q.Values) {
				said++
			} else if len(q.Values) > 0 && os.Getenv("EVAL_SHOW") != "" {
				fmt.Fprintf(out, "without the value: %s %q %q\n%s\n", q.Kind, q.Text, q.Values, text)
			}
			if os.Getenv("EVAL_SHOW") != "" && len(q.Values) == 0 {
				fmt.Fprintf(out, "spoke: %s %q\n%s\n", q.Kind, q.Text, text)
			}
		}
		fmt.Fprintf(table, "%s\t%d\t%.3f\t%.3f\t%.3f\t\n", name, len(questions), share(spoke, len(questions)), share(said, len(questions)), share(said, spoke))
		return share(spoke, len(questions))
	}
	byKind := make(map[string][]work.Question)
	for _, q := range w.Absent {
		byKind[q.Kind] = append(byKind[q.Kind], q)
	}
	for _, q := range foreignTo(&set{name: workName}) {
		byKind["foreign"] = append(byKind["foreign"], work.Question{Kind: "foreign", Text: q.Text})
	}
	judge("on record", w.Questions)
	for _, kind := range slices.Sorted(maps.Keys(byKind)) {
		below = judge(kind, byKind[kind]) > mostUnasked || below
	}
	if below {
		fmt.Fprintf(out, "BELOW THE GATE: unasked, recall on %s has to be silent but for %.2f of the questions that nothing answers\n", workName, mostUnasked)
	}
	return below, table.Flush()
}

// importWork imports the sessions as Claude Code and Codex have written them.
func (h *harness) importWork(ctx context.Context, w *work.Work) error {
	if err := h.admit(workAccount); err != nil {
		return err
	}
	claudeCode, codex := filepath.Join(h.dir, "claude-code"), filepath.Join(h.dir, "codex")
	if err := w.Write(claudeCode, codex); err != nil {
		return err
	}
	for client, folder := range map[string]string{"claude-code": claudeCode, "codex": codex} {
		found, err := history.Look(ctx, client, &history.Search{Path: folder, Lookup: os.LookupEnv})
		if err != nil {
			return err
		}
		if _, err := found.Import(ctx, h.store.Archive(), workAccount, nil); err != nil {
			return err
		}
	}
	return h.indexed(ctx)
}

// wonder begins a conversation that asks a question and waits for the tool.
func (h *harness) wonder(ctx context.Context, q *work.Question, number int) (session string, err error) {
	id := fmt.Sprintf("asks-%d", number)
	h.answers.Store(id, step{"I look into the memory.", q.Text, ""})
	defer h.answers.Delete(id)
	body, err := json.Marshal(map[string]any{"model": "gpt-eval", "user": id, "messages": []any{map[string]any{"role": "user", "content": q.Text}}})
	if err != nil {
		return "", err
	}
	response, err := h.post(ctx, "/v1/chat/completions", workAccount, body, map[string]string{"X-Service-Chat-Key": id, askingDirectory: q.Project})
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return "", err
	}
	return response.Header.Get("X-Service-Session-ID"), h.store.Index().Wait(ctx, workAccount)
}

// askOverMCP asks a question with one call of the tool memory_recall, and returns what it says.
func (h *harness) askOverMCP(ctx context.Context, q *work.Question) (text string, err error) {
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": map[string]any{
		"name": "memory_recall", "arguments": map[string]any{"prompt": q.Text, "directory": q.Project},
	}})
	if err != nil {
		return "", err
	}
	response, err := h.post(ctx, "/mcp", workAccount, body, map[string]string{"Accept": "application/json, text/event-stream"})
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	var answer struct {
		Result struct {
			Content []struct{ Text string }
			IsError bool
		}
		Error *struct{ Message string }
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return "", err
	}
	if answer.Error != nil || answer.Result.IsError || len(answer.Result.Content) == 0 {
		return "", fmt.Errorf("memory_recall: %+v", answer)
	}
	return answer.Result.Content[0].Text, nil
}
