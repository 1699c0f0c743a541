package recall_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/server/recall"
	"github.com/mnemeproxy/mneme/store/record"
)

// decisionTexts are ways in which a decision about a file is made: the file is named by its path or its last part, or is the only
// one that is changed.
var decisionTexts = []struct{ asked, said string }{
	{"%[2]s stays free of global state, please.", "I moved the two variables into the struct."},
	{"Speed up %[1]s.", "It is three times as fast. I rejected unsafe pointers in %[2]s: the race detector does not see through them."},
	{"Split it.", "%[1]s and its test are two files now. We agreed that %[2]s has no exported names."},
	{"Look at %[2]s. I want the parser there to be written by hand, not generated.", "It is written by hand now."},
	{"Does %[2]s need a lock?", "Yes. I went with a read-write lock in %[2]s, as there are few writers."},
	{"Ne touche jamais à l'ordre des champs dans %[2]s.", "Compris."},
	{"Have a look at %[1]s.", "We decided to keep the retries of %[1]s at 3, because the provider counts each."},
	{"In %[2]s never use float64 for money.", "Understood."},
	{"Why is %[2]s so slow?", "It sorted twice. I tried a heap in %[2]s, but it does not work with the stable order."},
	{"%[1]s must not import net/http.", "I moved the client out."},
	{"Mend the race.", "I chose a mutex instead of a channel here, since readers dominate."},
	{"Keep %[2]s free of dependencies. Then mend it.", "Done."},
	{"Go on.", "Nothing else was needed. From now on %[1]s reads its limits once, at the start."},
	{"Wir haben entschieden: %[2]s bleibt synchron.", "Gut."},
}

// idleTexts are rounds that change a file and decide nothing about it.
var idleTexts = []struct{ asked, said string }{
	{"Format %[1]s.", "Formatted. Two lines moved."},
	{"Add a comment to the first function of %[2]s.", "I added one about units."},
	{"Is %[2]s used anywhere?", "Only by the command in cmd/, and by one test."},
	{"Bump the copyright year in %[1]s.", "Done, in four files."},
	{"Übersetze die Kommentare in %[2]s.", "Die Kommentare sind jetzt englisch."},
	{"Fix the typo in %[1]s.", "I corrected it. The change is small and has a test of its own."},
	{"Rename the parameter in %[2]s.", "Renamed. I ran the linter and all tests of the package."},
	{"What does %[2]s do?", "It reads the configuration and starts the workers."},
	{"Go on.", "I added the missing case to %[1]s, and the documentation is updated as well."},
	{"Should %[2]s always retry?", "It retries twice. The dashboard shows the effect since noon."},
}

func before(t *testing.T, m *memory, session, tool string, input map[string]string) recall.Recalled {
	t.Helper()
	return m.Before(t.Context(), &recall.Query{Account: "acme", Project: directory, Session: session},
		&record.Part{Kind: "call", Name: tool, Arguments: asJSON(input)})
}

// Before an edit the decision about the file is quoted, in 95 of 100 cases at least; of files without one nothing is said, in 99 of
// 100. How long the decisions take is logged.
func TestBeforeAnEditTheDecisionAboutTheFileIsQuoted(t *testing.T) {
	m := openMemory(t)
	type decided struct{ file, words string }
	var with []decided
	var without []string
	for n := range 120 {
		a := &agent{memory: m, session: fmt.Sprintf("earlier-%d", n)}
		file := fmt.Sprintf("pkg/%s/%s_%d.go", things[n%len(things)], things[n/len(things)], n)
		base := file[strings.LastIndex(file, "/")+1:]
		text := decisionTexts[n%len(decisionTexts)]
		names := strings.NewReplacer("%[1]s", file, "%[2]s", base)
		asked, said := names.Replace(text.asked), names.Replace(text.said)
		a.edit(asked, directory+"/"+file, said)
		words := said
		if strings.Contains(asked, "never") || strings.Contains(asked, "must not") || strings.Contains(asked, "Keep") || strings.Contains(asked, "entschieden") ||
			strings.Contains(asked, "stays") || strings.Contains(asked, "by hand") || strings.Contains(asked, "jamais") {
			words = asked
		}
		for _, sentence := range strings.SplitAfter(words, ". ") {
			if strings.Contains(sentence, base) || strings.Contains(sentence, "instead of") || strings.Contains(sentence, "by hand") {
				words = strings.TrimSpace(sentence)
			}
		}
		with = append(with, decided{directory + "/" + file, words})

		file = fmt.Sprintf("internal/%s/%s_%d.go", things[n%len(things)], things[n/len(things)], 500+n)
		base = file[strings.LastIndex(file, "/")+1:]
		idle := idleTexts[n%len(idleTexts)]
		names = strings.NewReplacer("%[1]s", file, "%[2]s", base)
		a.edit(names.Replace(idle.asked), directory+"/"+file, names.Replace(idle.said))
		without = append(without, directory+"/"+file, fmt.Sprintf("%s/cmd/%s/main_%d.go", directory, things[n%len(things)], n))
	}
	m.wait()
	quoted, silent := 0, 0
	var took []time.Duration
	for n, d := range with {
		began := time.Now()
		r := before(t, m, "asks", "Edit", map[string]string{"file_path": d.file})
		took = append(took, time.Since(began))
		if strings.Contains(r.Text, d.words) {
			quoted++
		} else {
			t.Logf("%d: of %s %q is not in %q", n, d.file, d.words, r.Text)
		}
	}
	for _, file := range without {
		began := time.Now()
		r := before(t, m, "asks", "Write", map[string]string{"file_path": file, "content": "package x"})
		took = append(took, time.Since(began))
		if r.Text == "" {
			silent++
		} else {
			t.Logf("of %s is said %q", file, r.Text)
		}
	}
	slices.Sort(took)
	t.Logf("quoted %d of %d, silent about %d of %d; p50 %v, p99 %v", quoted, len(with), silent, len(without), took[len(took)/2], took[len(took)*99/100])
	if float64(quoted) < 0.95*float64(len(with)) || float64(silent) < 0.99*float64(len(without)) {
		t.Errorf("quoted %d of %d, silent about %d of %d", quoted, len(with), silent, len(without))
	}
	m.say("wednesday", nil, nil) // ends after what was given is noted
	if r := before(t, m, "asks", "Edit", map[string]string{"file_path": with[len(with)-1].file}); r.Text != "" {
		t.Errorf("given twice: %s", r.Text)
	}
	if r := before(t, m, "asks", "Read", map[string]string{"file_path": with[len(with)-1].file}); r.Text != "" {
		t.Errorf("before reading: %s", r.Text)
	}
}

func TestBeforeACommandItsLastFailureIsQuoted(t *testing.T) {
	m := openMemory(t)
	monday := &agent{memory: m, session: "monday"}
	monday.run("Deploy it.", "cd "+directory+" && make deploy 2>&1 | tail -5", "Exit code 2\nerror: no credentials for registry kv-77", true, "The token of the registry is missing. Ask Ann.")
	monday.run("Test it.", "go test ./...", "Exit code 1\n--- FAIL: TestLock", true, "It fails.")
	monday.run("Test it again.", "go test ./...", "ok  \tshop\t0.1s", false, "It passes.")
	monday.run("Search it.", "grep -rn nothing .", "Exit code 1", true, "There is nothing.")
	m.wait()
	r := before(t, m, "tuesday", "Bash", map[string]string{"command": "make deploy"})
	for _, want := range []string{"failed last, on ", `"error: no credentials for registry kv-77"`, `"The token of the registry is missing."`} {
		if !strings.Contains(r.Text, want) {
			t.Errorf("%q is not in %q", want, r.Text)
		}
	}
	m.say("wednesday", nil, nil) // ends after what was given is noted
	for name, call := range map[string][2]string{
		"what has passed since":   {"tuesday", "go test ./..."},
		"another command":         {"tuesday", "make deploy-docs"},
		"a session's own failure": {"monday", "make deploy"},
		"what was given already":  {"tuesday", "make deploy"},
	} {
		if r := before(t, m, call[0], "Bash", map[string]string{"command": call[1]}); r.Text != "" {
			t.Errorf("%s: %q", name, r.Text)
		}
	}
	// After a compaction it is given again.
	(&agent{memory: m, session: "tuesday"}).ask("Go on.", words("Yes."))
	m.Resume(t.Context(), &recall.Query{Account: "acme", Project: directory, Session: "tuesday"})
	m.say("wednesday", nil, nil)
	if r := before(t, m, "tuesday", "Bash", map[string]string{"command": "make deploy"}); r.Text == "" {
		t.Error("silent after a compaction")
	}
	foreign := recall.Query{Account: "acme", Project: "/home/ann/other", Session: "tuesday"}
	if r := m.Before(t.Context(), &foreign, &record.Part{Name: "Bash", Arguments: `{"command":"make deploy"}`}); r.Text != "" {
		t.Errorf("in another project: %q", r.Text)
	}
}
