// Command eval measures search quality: it replays the documents of retrieval datasets through a proxy as exchanges,
// asks the questions through the HTTP API, and compares the results with the judgements.
//
//	go run ./bench/eval [-sets DIR] [-only NAME,NAME] [-postgres URL] [-seed N] [-longmemeval FILE [-first N]]
//
// With the URL of a database server, each set is asked in a memory in Postgres as well, in a database of its own there.
//
// With a file of LongMemEval, which is not part of the project, its questions are a set as well, or the first N of them.
//
// The set of generated work is asked over MCP; with EVAL_SHOW=1 the answers that miss something are printed.
//
// Each folder in DIR is a set (set.go describes its form). Without DIR only the generated sets are run. The exit code
// is 1 if a set falls below its gate.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/mnemeproxy/mneme/store/search"
	"github.com/mnemeproxy/mneme/store/search/localhash"
)

// gate is what a set must reach in a mode.
type gate struct {
	set, mode, kind string // kind: of question; "": all
	measure         string
	least           float64
}

// Gates are what exact BM25 with this analysis reaches on the published sets, less a point for what is within noise.
var gates = []gate{
	{"mtrag-mini", "lexical", "", "ndcg", 0.73},
	{"limit-small", "lexical", "", "recall10", 1},
	{"miracl-yo", "lexical", "", "ndcg", 0.57},
	{"agent-turns", "lexical", "identifier", "recall5", 0.99},

	{"memorybank-en", "hybrid", "", "ndcg", 0.73},
	{"mtrag-mini", "hybrid", "", "ndcg", 0.73},
	{"limit-small", "hybrid", "", "recall10", 1},
	{"miracl-yo", "hybrid", "", "ndcg", 0.57},
	{"agent-turns", "hybrid", "identifier", "recall5", 0.99},

	{"memorybank-en", "sessions", "", "hit1", 0.80},
	{"dialogues", "sessions", "", "hit1", 0.70},
	{"dialogues", "sessions", "", "recall5", 0.87},
	{"tool-output", "auto", "", "recall5", 0.95},
	{"paraphrases", "lexical", "", "recall10", 0.70},
	{"memorybank-en", "lexical", "", "ndcg", 0.745},
	{"dialogues", "lexical", "", "ndcg", 0.46},
	{sessionsName, "lexical", "", "ndcg", 0.74},
	{sessionsName, "lexical", "identifier", "recall5", 0.99},
	{sessionsName, "lexical", "reworded", "recall10", 0.9},
}

// modes are how the questions are asked. Auto is what a client gets that says nothing, with the bounds that hold for it; the
// others rank whatever they can, since it is their order that is measured.
var modes = []search.Mode{search.Lexical, search.Auto, search.Vector, search.Hybrid}

// wholeSessions is the row of searches for sessions.
const wholeSessions = "sessions"

// Rows of searches with an embedder that compares meaning.
const (
	vectorByMeaning = "vector, meaning"
	hybridByMeaning = "hybrid, meaning"
	hybridWeak      = "hybrid, weak"
	hybridClueless  = "hybrid, clueless"
)

// against is how much less than by words alone the nDCG of a row may be: of what a client gets that asks for no mode, without
// an embedder, with one that compares meaning, and with one that knows nothing. The allowance is for sets on which words leave
// nothing to win.
var against = map[string]float64{string(search.Auto): 0.002, hybridByMeaning: 0.002, hybridClueless: 0.002}

// shortTurns is what an embedder that compares meaning may cost on [sessionsName] instead: that of the evaluation compares whole turns,
// and finds short ones that ask more alike to a question than long ones that answer it.
const shortTurns = 0.01

func main() {
	sets := flag.String("sets", os.Getenv("EVAL_DIR"), "directory with a folder for each set ($EVAL_DIR)")
	only := flag.String("only", "", "names of sets, with commas between; others are left out")
	postgres := flag.String("postgres", "", "URL of a Postgres server whose searches are measured beside those of the embedded index, such as postgres://mneme@127.0.0.1/postgres")
	seed := flag.Uint64("seed", 1, "of the sets "+sessionsName+", "+roundsName+" and "+workName+": another one makes other sets of the same kind")
	longMemEval := flag.String("longmemeval", "", "a file of LongMemEval, such as longmemeval_s.json, that is a set as well")
	first := flag.Int("first", 50, "how many questions of that file are asked, each with sessions of its own; 0: all")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	var more []func() (*set, error)
	if *longMemEval != "" {
		more = append(more, func() (*set, error) { return readLongMemEval(*longMemEval, *first) })
	}
	failed, err := run(ctx, os.Stdout, *sets, *only, *postgres, *seed, more...)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "eval:", err)
	}
	if err != nil || failed {
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, dir, only string, postgres string, seed uint64, more ...func() (*set, error)) (failed bool, err error) {
	var load []func() (*set, error)
	for _, generate := range []func() *set{agentSet, dialogueSet, outputSet, paraphraseSet, func() *set { return roundsSet(seed) }, func() *set { return sessionsSet(seed) }} {
		load = append(load, func() (*set, error) { return generate(), nil })
	}
	if dir == "" {
		fmt.Fprintln(out, "no directory of retrieval sets is named (EVAL_DIR); only the generated sets are run")
	} else {
		folders, err := filepath.Glob(filepath.Join(dir, "*", "qrels.jsonl"))
		if err != nil {
			return false, err
		}
		for _, folder := range folders {
			load = append(load, func() (*set, error) { return readSet(filepath.Dir(folder)) })
		}
	}
	for _, read := range append(load, more...) {
		s, err := read()
		if err != nil {
			return false, err
		}
		if only != "" && !slices.Contains(strings.Split(only, ","), s.name) {
			continue
		}
		judge := evaluate
		if s.name == roundsName {
			judge = evaluateDelivery
		}
		below, err := judge(ctx, out, s, postgres)
		if err != nil {
			return false, fmt.Errorf("set %s: %w", s.name, err)
		}
		failed = failed || below
	}
	if only == "" || slices.Contains(strings.Split(only, ","), workName) {
		below, err := evaluateWork(ctx, out, seed)
		if err != nil {
			return false, fmt.Errorf("set %s: %w", workName, err)
		}
		failed = failed || below
	}
	return failed, nil
}

// outcome is what a mode reached.
type outcome struct {
	byKind    map[string]*measures // "": all
	latencies []time.Duration
}

// replay lets a set pass a harness with an embedder. The caller closes the harness.
func replay(ctx context.Context, s *set, e search.Embedder) (h *harness, documents map[string]string, err error) {
	if h, err = build(ctx, e); err != nil {
		return nil, nil, err
	}
	if documents, err = h.remember(ctx, s); err == nil {
		err = h.indexed(ctx)
	}
	if err != nil {
		return nil, nil, errors.Join(err, h.close())
	}
	return h, documents, nil
}

func evaluate(ctx context.Context, out io.Writer, s *set, postgres string) (below bool, err error) {
	hasher, err := localhash.New(localhash.DefaultDimensions)
	if err != nil {
		return false, err
	}
	began := time.Now()
	h, documents, err := replay(ctx, s, localhash.Embedder{Hasher: hasher})
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, h.close()) }()
	slices.Sort(h.fresh)
	fmt.Fprintf(out, "\n%s: %d documents passed and were indexed in %s, and could be found %s (p50) to %s (p99) after their answers; %d questions\n",
		s.name, len(documents), time.Since(began).Round(time.Millisecond), quantile(h.fresh, 0.5), quantile(h.fresh, 0.99), len(s.questions))
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "mode\tkind\tquestions\tnDCG@10\teven\todd\tMRR@10\thit@1\tR@1\tR@5\tR@10\tR@100\tp50\tp99\t")
	reached := make(map[string]*outcome)
	take := func(mode string, o *outcome, err error) error {
		if err != nil {
			return err
		}
		reached[mode] = o
		o.write(table, mode)
		below = o.check(out, s.name, mode) || below
		return nil
	}
	for _, mode := range modes {
		o, err := askAll(ctx, h, s, mode, documents)
		if err := take(string(mode), o, err); err != nil {
			return false, err
		}
	}
	if s.hasSessions() {
		o, err := askForSessions(ctx, h, s)
		if err := take(wholeSessions, o, err); err != nil {
			return false, err
		}
	}
	if postgres != "" {
		if err := askInPostgres(ctx, h, s, documents, postgres, take); err != nil {
			return false, err
		}
	}
	if err := askByMeaning(ctx, s, postgres, take); err != nil {
		return false, err
	}
	if len(s.documents) < mostReplayed {
		if err := askWithNoise(ctx, s, take); err != nil {
			return false, err
		}
	}
	if err := table.Flush(); err != nil {
		return false, err
	}
	for mode, loss := range against {
		if reached[mode] == nil {
			continue
		}
		if s.name == sessionsName && mode == hybridByMeaning {
			loss = shortTurns
		}
		if words, ranked := reached[string(search.Lexical)].byKind[""].ndcg, reached[mode].byKind[""].ndcg; ranked < words-loss {
			below = true
			fmt.Fprintf(out, "BELOW THE GATE: %s %s ndcg is %.4f, by words alone it is %.4f\n", s.name, mode, ranked, words)
		}
	}
	for mode, embedded := range beside {
		if reached[mode] == nil {
			continue
		}
		if ranked, wanted := reached[mode].byKind[""].ndcg, reached[embedded].byKind[""].ndcg; ranked < wanted-besideLoss {
			below = true
			fmt.Fprintf(out, "BELOW THE GATE: %s %s ndcg is %.4f, in the embedded index it is %.4f\n", s.name, mode, ranked, wanted)
		}
	}
	loud, err := judgeSilence(ctx, out, h, s, documents, foreignTo(s))
	return below || loud, err
}

// askByMeaning asks in a harness whose embedder compares meaning, with the bounds that hold for a client that names none.
func askByMeaning(ctx context.Context, s *set, postgres string, take func(mode string, o *outcome, err error) error) (err error) {
	embedder, err := newThesaurus(s)
	if err != nil {
		return err
	}
	h, documents, err := replay(ctx, s, embedder)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.close()) }()
	o, err := askAll(ctx, h, s, search.Vector, documents)
	if err := take(vectorByMeaning, o, err); err != nil {
		return err
	}
	o, err = askAll(ctx, h, s, search.Auto, documents)
	if err := take(hybridByMeaning, o, err); err != nil || postgres == "" {
		return err
	}
	return askByMeaningInPostgres(ctx, h, s, embedder, documents, postgres, take)
}

// mostReplayed bounds the sets that are replayed for each embedder with noise, in documents: larger ones take too long.
const mostReplayed = 10_000

// askWithNoise asks in harnesses whose embedders know little, and nothing.
func askWithNoise(ctx context.Context, s *set, take func(mode string, o *outcome, err error) error) error {
	meaning, err := newThesaurus(s)
	if err != nil {
		return err
	}
	for _, of := range []struct {
		mode  string
		noise float32
	}{{hybridWeak, 0.7}, {hybridClueless, 1}} {
		h, documents, err := replay(ctx, s, &noisy{thesaurus: meaning, name: of.mode, noise: of.noise})
		if err != nil {
			return err
		}
		o, err := askAll(ctx, h, s, search.Auto, documents)
		if err := errors.Join(take(of.mode, o, err), h.close()); err != nil {
			return err
		}
	}
	return nil
}

// foreignTo returns questions that are unrelated to a set.
func foreignTo(s *set) (questions []question) {
	for _, other := range []*set{agentSet(), outputSet(), dialogueSet()} {
		if other.name == s.name {
			continue
		}
		if s.name != "memorybank-en" && other.name == "tool-output" {
			continue // the generated sets share the names of services
		}
		questions = append(questions, other.questions...)
	}
	return questions
}

// askForSessions asks for the sessions that answer each question.
func askForSessions(ctx context.Context, h *harness, s *set) (*outcome, error) {
	o := &outcome{byKind: make(map[string]*measures)}
	grades := s.ofSessions()
	for i := range s.questions {
		q := &s.questions[i]
		found, took, err := h.ask(ctx, accountOf(q.Account), &search.Request{Query: q.Text, Syntax: search.Plain, Limit: 100, Granularity: search.Sessions})
		if err != nil {
			return nil, fmt.Errorf("question %s: %w", q.ID, err)
		}
		o.add("", i, grades[q.ID], found)
		o.latencies = append(o.latencies, took)
	}
	o.finish()
	return o, nil
}

func askAll(ctx context.Context, h *harness, s *set, mode search.Mode, documents map[string]string) (*outcome, error) {
	o := &outcome{byKind: make(map[string]*measures)}
	owner := make(map[string]string, len(s.documents))
	for i := range s.documents {
		owner[s.documents[i].ID] = s.documents[i].Account
	}
	for i := range s.questions {
		q := &s.questions[i]
		r := &search.Request{Query: q.Text, Syntax: search.Plain, Mode: mode, Limit: 100}
		if mode != search.Auto {
			everything := -1.0 // it is the order that is measured, not where a ranking ends
			r.Ranking.LeastLikeness = &everything
		}
		exchanges, took, err := h.ask(ctx, accountOf(q.Account), r)
		if err != nil {
			return nil, fmt.Errorf("question %s: %w", q.ID, err)
		}
		ranking := make([]string, len(exchanges))
		for j, exchange := range exchanges {
			ranking[j] = documents[exchange]
			if owner[ranking[j]] != q.Account {
				return nil, fmt.Errorf("question %s of account %q found %q of account %q", q.ID, q.Account, ranking[j], owner[ranking[j]])
			}
		}
		o.latencies = append(o.latencies, took)
		kinds := []string{""}
		if s.name == "agent-turns" || s.name == sessionsName {
			kinds = append(kinds, q.Kind)
		}
		for _, kind := range kinds {
			o.add(kind, i, s.grades[q.ID], ranking)
		}
	}
	o.finish()
	return o, nil
}

// add takes in the ranking that a question got, by its number in the set.
func (o *outcome) add(kind string, number int, grades map[string]float64, ranking []string) {
	if o.byKind[kind] == nil {
		o.byKind[kind] = new(measures)
	}
	o.byKind[kind].add(number, grades, ranking)
}

// finish turns sums into means.
func (o *outcome) finish() {
	for _, m := range o.byKind {
		m.mean()
	}
	slices.Sort(o.latencies)
}

// quantile of sorted times.
func quantile(times []time.Duration, q float64) time.Duration {
	if len(times) == 0 {
		return 0
	}
	return times[min(int(q*float64(len(times))), len(times)-1)].Round(10 * time.Microsecond)
}

func (o *outcome) write(w io.Writer, mode string) {
	kinds := make([]string, 0, len(o.byKind))
	for kind := range o.byKind {
		kinds = append(kinds, kind)
	}
	slices.Sort(kinds)
	for _, kind := range kinds {
		m := o.byKind[kind]
		fmt.Fprintf(w, "%s\t%s\t%d\t%.3f\t%.3f\t%.3f\t%.3f\t%.3f\t%.3f\t%.3f\t%.3f\t%.3f\t%s\t%s\t\n", mode, kind, m.questions, m.ndcg, m.halves[0], m.halves[1], m.mrr, m.first,
			m.recall[1], m.recall[5], m.recall[10], m.recall[100], quantile(o.latencies, 0.5), quantile(o.latencies, 0.99))
	}
}

// check reports whether the set is below a gate, and says which.
func (o *outcome) check(out io.Writer, name, mode string) (below bool) {
	for _, g := range gates {
		m := o.byKind[g.kind]
		if g.set != name || g.mode != mode || m == nil {
			continue
		}
		reached := map[string]float64{"ndcg": m.ndcg, "hit1": m.first, "recall1": m.recall[1], "recall5": m.recall[5], "recall10": m.recall[10]}[g.measure]
		if reached < g.least {
			below = true
			fmt.Fprintf(out, "BELOW THE GATE: %s %s %s %s is %.4f, at least %.4f is wanted\n", g.set, g.mode, g.kind, g.measure, reached, g.least)
		}
	}
	return below
}
