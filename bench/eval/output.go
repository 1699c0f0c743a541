package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// outputSet is a set of turns in which tools ran and failed, the same with every run. The questions are words of what the
// tools gave back, or of what was run, which neither side says.
func outputSet() *set {
	s := &set{name: "tool-output", grades: make(map[string]map[string]float64)}
	random := rand.New(rand.NewPCG(3, 5))
	same, failed := make(map[string][]string), make(map[string]string) // documents by what failed, and that by question
	for n := range outputTurns {
		f := failures[n%len(failures)]
		service := fmt.Sprintf("%s-%s", packages[random.IntN(len(packages))], verbs[random.IntN(len(verbs))])
		number := 1000 + random.IntN(9000)
		d := doc{
			ID: fmt.Sprintf("t%d", n), Account: "ops", Session: fmt.Sprintf("s%d", n/4),
			User:      fmt.Sprintf("Please have a look at %s once more.", service),
			Assistant: "I found the cause and changed the configuration; it passes now.",
			Command:   fmt.Sprintf(f.command, service),
			Output:    noise(random, 60) + fmt.Sprintf(f.output, service, number) + "\n" + noise(random, n%80),
		}
		s.documents = append(s.documents, d)
		s.questions = append(s.questions,
			question{ID: d.ID + "/error", Account: "ops", Text: fmt.Sprintf(f.asked, service)},
			question{ID: d.ID + "/command", Account: "ops", Text: fmt.Sprintf(f.command, service)})
		line := question{ID: d.ID + "/line", Account: "ops", Text: fmt.Sprintf(f.output, service, 10000+n), Kind: "error"}
		s.repeated = append(s.repeated, line)
		same[f.command+service] = append(same[f.command+service], d.ID)
		failed[line.ID] = f.command + service
		s.judge(judgement{d.ID + "/error", d.ID, 1})
		s.judge(judgement{d.ID + "/command", d.ID, 1})
	}
	for question, what := range failed {
		for _, id := range same[what] {
			s.judge(judgement{question, id, 1})
		}
	}
	for n := range 10 {
		for _, line := range newFailures {
			s.unheard = append(s.unheard, question{Account: "ops", Text: fmt.Sprintf(line, 4000+n), Kind: "new error"})
		}
	}
	return s
}

const outputTurns = 120

// failures are what is run, what comes of it, and how it is asked for later; each with the name of a service.
var failures = []struct{ command, output, asked string }{
	{"helm upgrade %s ./chart --atomic", "Error: UPGRADE FAILED: another operation (install/upgrade/rollback) is in progress for %s after %d ms", "%s upgrade failed another operation in progress"},
	{"curl -sS http://%s.internal/health", "curl: (7) Failed to connect to %s.internal port %d: Connection refused", "connection refused %s"},
	{"go test ./services/%s", "panic: runtime error: invalid memory address or nil pointer dereference in %s [signal SIGSEGV code=%d]", "nil pointer dereference %s"},
	{"psql -d %s -f migrate.sql", "ERROR: duplicate key value violates unique constraint of %s, detail %d", "%s duplicate key violates unique constraint"},
	{"openssl s_client -connect %s:443", "verify error: certificate of %s has expired %d days ago", "certificate has expired %s"},
	{"docker build -t %s .", "failed to solve: no space left on device while building %s, layer %d", "no space left on device %s"},
}

// newFailures are in no document.
var newFailures = []string{
	"ERROR: deadlock detected while process %d waits for ShareLock",
	"fatal: refusing to merge unrelated histories (try %d)",
	"tls: handshake failure: unsupported protocol version %d",
	"error[E0382]: borrow of moved value on line %d",
	"Traceback: KeyError: missing translation after %d entries",
	"npm ERR! peer dependency conflict, attempt %d",
	"panic: assignment to entry in nil map [recovered] goroutine %d",
	"error: failed to push some refs after %d objects",
}

// noise is the beginning of an output: lines that say nothing.
func noise(random *rand.Rand, lines int) string {
	var b strings.Builder
	for range lines {
		fmt.Fprintf(&b, "%08x step %d: %s %s ok\n", random.Uint32(), random.IntN(100), verbs[random.IntN(len(verbs))], nouns[random.IntN(len(nouns))])
	}
	return b.String()
}
