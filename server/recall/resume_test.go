package recall_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/server/recall"
)

// ruleTexts are ways in which people say what is to hold. Some have none of the words that rules usually have.
var ruleTexts = []string{
	"Please don't rename anything public in %[1]s.", "The %[1]s has to work offline.", "Line length in %[1]s: %[2]d characters.", "Ask me before you change the schema of %[1]s.",
	"%[1]s is frozen until release %[2]d.", "Prefer early returns in %[1]s.", "I want %[1]s to stay below %[2]d lines.", "Tabellen in %[1]s heißen immer im Singular.", "Les erreurs de %[1]s sont en anglais.",
	"Go %[2]d is the minimum for %[1]s.", "Use port 8%[2]d for %[1]s.", "The owner of %[1]s is team %[2]d, loop them in.",
	"Never log the customer's %[1]s.", "Use only the standard library in pkg/%[1]s.", "The API of %[1]s must stay compatible with version %[2]d.",
	"Do not touch the files under gen/%[1]s.", "Keep %[1]s below %[2]d ms.", "No new dependencies for %[1]s, please.", "Timeouts of %[1]s are %[2]d seconds.",
	"All times in %[1]s are in UTC.", "Write the tests of %[1]s table-driven.", "We decided on nats-%[2]d for %[1]s, because operations knows it.",
	"Der Cache von %[1]s darf nicht größer als %[2]d MB werden.", "Leave migration %[2]d of %[1]s as it is.", "%[1]s has a budget of %[2]d requests a second.",
}

var things = []string{"billing", "checkout", "ledger", "router", "importer", "search", "mailer", "catalog", "session", "export", "gateway", "scheduler"}

// work is a generated session, and what has to be known of it after a compaction.
type work struct {
	rules  []string
	states map[string]string // of commands: how they ended last
	files  []string
}

// generate records a long session with two compactions.
func generate(m *memory, session string, seed uint64) (w work) {
	random := rand.New(rand.NewPCG(seed, 29))
	a := &agent{memory: m, session: session}
	w.states = make(map[string]string)
	pick := func(list []string) string { return list[random.IntN(len(list))] }
	rounds := 20 + random.IntN(30)
	for n := range rounds {
		thing := pick(things)
		asked := fmt.Sprintf("Go on with the %s, step %d.", thing, n)
		if n%3 == 0 && len(w.rules) < 14 {
			rule := fmt.Sprintf(ruleTexts[random.IntN(len(ruleTexts))], thing, 10+n)
			w.rules = append(w.rules, rule)
			asked = pick([]string{rule, "Now look at the " + thing + ". " + rule + " Then run the tests.", rule + "\n\nThe log says:\n" + strings.Repeat("12:00 INFO started worker\n", 40)})
		}
		switch file := fmt.Sprintf("%s/pkg/%s/step_%d.go", directory, thing, n%9); random.IntN(3) {
		case 0:
			a.edit(asked, file, fmt.Sprintf("I changed step %d of the %s.", n, thing))
			w.files = append(slices.DeleteFunc(w.files, func(known string) bool { return known == file }), file)
		case 1:
			command := fmt.Sprintf("go test ./pkg/%s/...", thing)
			if failed := random.IntN(2) == 0; failed {
				a.run(asked, "cd "+directory+" && "+command, fmt.Sprintf("Exit code 1\n--- FAIL: TestStep%d\nFAIL", n), true, "It still fails.")
				w.states[command] = fmt.Sprintf("TestStep%d", n)
			} else {
				a.run(asked, command, "ok  \tshop/pkg/"+thing+"\t0.2s", false, "The tests pass now.")
				w.states[command] = "passed"
			}
		default:
			a.run(asked, "grep -rn "+thing+" .", "pkg/a.go:1: "+thing, false, "Let me see. It is in pkg/a.go. "+strings.Repeat("Nothing else refers to it. ", 12))
		}
		if n == rounds/3 || n == 2*rounds/3 {
			m.summarize(session, "The user asked for several changes. "+w.rules[0]+" Some tests were run.")
			a.ask("This session is being continued from a previous conversation that ran out of context. The user asked for several changes.", words("I go on."))
		}
	}
	return w
}

// After a compaction the session-start hook gives the session what it knew: of 40 generated sessions at least 95 of 100 rules, last
// results and edited files stand in the text.
func TestAfterACompactionASessionKnowsItsRulesResultsAndFiles(t *testing.T) {
	if testing.Short() {
		t.Skip("records 40 sessions")
	}
	m := openMemory(t)
	found, wanted, longest := map[string]int{}, map[string]int{}, 0
	for seed := uint64(1000); seed < 1040; seed++ {
		session := fmt.Sprintf("session-%d", seed)
		w := generate(m, session, seed)
		r := m.Resume(t.Context(), &recall.Query{Account: "acme", Project: directory, Session: session})
		longest = max(longest, r.Tokens)
		count := func(kind string, held bool, what string) {
			if wanted[kind]++; held {
				found[kind]++
			} else {
				t.Logf("seed %d lacks %s %q", seed, kind, what)
			}
		}
		lines := strings.Split(r.Text, "\n")
		for _, rule := range w.rules {
			count("rules", strings.Contains(r.Text, rule), rule)
		}
		for command, state := range w.states {
			count("results", slices.ContainsFunc(lines, func(line string) bool { return strings.Contains(line, command) && strings.Contains(line, state) }), command+" "+state)
		}
		for _, file := range w.files {
			inside := strings.TrimPrefix(file, directory+"/")
			count("files", slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, "- edited") && strings.Contains(line, inside) }), file)
		}
	}
	for kind, of := range wanted {
		share := float64(found[kind]) / float64(of)
		t.Logf("%s: %d of %d (%.3f); longest text %d tokens", kind, found[kind], of, share, longest)
		if share < 0.95 {
			t.Errorf("%s: %d of %d are in the texts", kind, found[kind], of)
		}
	}
}

func TestAResumedSessionIsToldWhatTheSummaryLeavesOut(t *testing.T) {
	m := openMemory(t)
	a := &agent{memory: m, session: "s"}
	a.edit("Never touch gen/api.go. Mend the lock.", directory+"/store/lock.go", "I decided to keep flock instead of fcntl.")
	a.ask("Test it.", a.call("Read", asJSON(map[string]string{"file_path": directory + "/Makefile"}), "test:", false))
	called := a.step(a.call("Bash", asJSON(map[string]string{"command": "make test"}), "Exit code 2\nmake: *** [test] Error 2", true))
	a.step(words("It fails in the writer."))
	a.ask("Plan it.", a.call("TodoWrite", `{"todos":[{"content":"Mend the writer","status":"pending"},{"content":"Mend the lock","status":"completed"}]}`, "noted", false))
	a.step(words("I tried a channel, but it does not work."))
	m.summarize("s", "The user wants the lock mended and said: Never touch gen/api.go. Mend the lock.")
	r := m.Resume(t.Context(), &recall.Query{Account: "acme", Project: directory, Session: "s"})
	for _, want := range []string{
		`: "Never touch gen/api.go. Mend the lock."`, "- edited exch_", `(dropped): "store/lock.go"`, "- decided exch_", `(dropped): "I decided to keep flock instead of fcntl."`,
		"- failed with exit code 2 exch_", `"make test → make: *** [test] Error 2"`, `- left (dropped): "Mend the writer"`, "- rejected exch_", "I tried a channel",
		"The client's summary leaves out",
	} {
		if !strings.Contains(r.Text, want) {
			t.Errorf("%q is not in:\n%s", want, r.Text)
		}
	}
	if strings.Contains(r.Text, `(dropped): "Never`) || strings.Contains(r.Text, `"Mend the lock"`) {
		t.Errorf("%s", r.Text)
	}
	if !slices.ContainsFunc(r.Hits, func(h recall.Hit) bool { return h.Exchange == called }) {
		t.Errorf("the exchange %s, which has the command, is not among %+v", called, r.Hits)
	}
	if r := m.Resume(t.Context(), &recall.Query{Account: "acme", Session: "unknown"}); r.Text != "" {
		t.Errorf("of an unknown session: %s", r.Text)
	}
	if r := m.Resume(t.Context(), &recall.Query{Account: "globex", Session: "s"}); r.Text != "" {
		t.Errorf("to another account: %s", r.Text)
	}
}
