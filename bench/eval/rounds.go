package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// roundsName is the set of agents' rounds, which is judged by what recall delivers.
const roundsName = "rounds"

// roundsSet is a set of rounds as developers have them with agents: a question, steps with tools, and an answer of some
// length. The question and the answer are several exchanges apart, and what is asked for later stands somewhere in the
// answer. Each seed gives another set of the same kind, with other services.
func roundsSet(seed uint64) *set {
	g := &roundsGenerator{
		set: &set{name: roundsName, grades: make(map[string]map[string]float64)}, random: rand.New(rand.NewPCG(seed, 23)),
		first: int(seed % roundsSeeds * (roundsServices + roundsUnheard)),
	}
	for n := range roundsServices {
		g.service(n)
	}
	for n := range roundsUnheard {
		g.set.unheard = append(g.set.unheard, question{Account: roundsAccount, Kind: "absent", Text: fmt.Sprintf(absences[n%len(absences)], g.name(roundsServices+n))})
	}
	return g.set
}

const (
	roundsServices = 25  // with a round of each matter
	roundsUnheard  = 200 // services that are asked about and were never talked of
	roundsSeeds    = 20  // after that many the services come again
	roundsAccount  = "team"
)

type roundsGenerator struct {
	set    *set
	random *rand.Rand
	first  int // the service with which names begin
}

// matter is what a round is about: how it was asked, what the answer says in the end, how it is asked for later; %[1]s is a
// service, %[2]s the value that is asked for.
type matter struct{ asked, answered, later, value string }

var matters = []matter{
	{"The deploy of %[1]s fails since yesterday, find out why.", "The cause was the readiness probe: %[2]s is what it needs now.", "why did the deploy of %[1]s fail?", "initialDelaySeconds=%d"},
	{"Renew the certificate of %[1]s, it ends soon.", "I renewed it with certbot and the DNS challenge; the new one is stored as %[2]s.", "how was the certificate of %[1]s renewed?", "secret/tls-%d"},
	{"TestCheckout of %[1]s is flaky, please fix it.", "It waited for the wall clock. I gave the test a fake one in %[2]s, and ran it 500 times.", "what was the fix of the flaky test of %[1]s?", "clock_%d_test.go"},
	{"Which queue do we take for %[1]s?", "We take %[2]s and not Kafka, because nobody here wants to operate a cluster for a few hundred messages.", "which queue did we choose for %[1]s and why?", "nats-%d"},
	{"Look at the migration of the database of %[1]s.", "It stopped at step %[2]s: the index is built, the foreign keys are still missing.", "where did the migration of %[1]s stop?", "0%d_orders"},
	{"Where is the retry limit of %[1]s defined?", "It is defined as %[2]s, and read once at the start.", "where is the retry limit of %[1]s defined?", "maxRetries%d"},
	{"Users of %[1]s say that uploads are slow.", "Every chunk opened a connection of its own. With the pool of %[2]s connections it takes a tenth of the time.", "why were uploads of %[1]s slow?", "pool-%d"},
	{"Rotate the token that %[1]s uses for the registry.", "The new token is in the vault under %[2]s; the old one is revoked.", "where is the token of %[1]s for the registry?", "kv/registry/%d"},
}

var absences = []string{"how was the certificate of %s renewed?", "why did the deploy of %s fail?", "which queue did we choose for %s and why?", "where did the migration of %s stop?"}

// name returns the name of a service; no two are alike.
func (g *roundsGenerator) name(n int) string {
	n += g.first
	return fmt.Sprintf("%s-%s-%s", packages[n%len(packages)], verbs[n/len(packages)%len(verbs)], syllables[n%len(syllables)]+syllables[(n/7)%len(syllables)]+syllables[(n/49)%len(syllables)])
}

var syllables = []string{"ka", "ro", "mi", "tel", "san", "du", "wex"}

// remarks are sentences between what matters.
var remarks = []string{
	"I looked at the logs of the last two days first.", "The configuration in the repository agrees with what runs.", "Nothing else in the tree refers to it.",
	"The change is small and has a test of its own.", "I left the other environments as they are.", "The dashboard shows the effect since noon.",
	"There was a similar report last spring, with another cause.", "The documentation is updated as well.", "I ran the linter and all tests of the package.",
}

func (g *roundsGenerator) remarks(most int) string {
	return someRemarks(g.random, g.random.IntN(most+1))
}

// someRemarks returns that many remarks, each with a blank behind it.
func someRemarks(r *rand.Rand, many int) string {
	var b strings.Builder
	for range many {
		b.WriteString(pick(r, remarks) + " ")
	}
	return b.String()
}

// pick returns one of the words.
func pick(r *rand.Rand, words []string) string { return words[r.IntN(len(words))] }

func (g *roundsGenerator) service(n int) {
	name := g.name(n)
	var values []string
	whole := question{ID: name, Account: roundsAccount, Kind: "everything", Text: "what do we know about " + name + "?"}
	for i, m := range matters {
		value := fmt.Sprintf(m.value, 100+10*n+i)
		values = append(values, value)
		d := doc{
			ID: fmt.Sprintf("%s/%d", name, i), Account: roundsAccount, Session: fmt.Sprintf("%s/%d", name, i/2),
			User: fmt.Sprintf(m.asked, name), Assistant: g.remarks(12) + fmt.Sprintf(m.answered, name, value) + " " + g.remarks(12),
		}
		for range 2 + g.random.IntN(5) {
			d.Steps = append(d.Steps, step{"Let me look.", fmt.Sprintf("grep -rn %s %s/", m.value[:3], packages[g.random.IntN(len(packages))]), noise(g.random, 20)})
		}
		g.set.documents = append(g.set.documents, d)
		q := question{ID: d.ID, Account: roundsAccount, Kind: "answer", Text: fmt.Sprintf(m.later, name), Values: []string{value}}
		g.set.questions = append(g.set.questions, q)
		g.set.judge(judgement{q.ID, d.ID, 1})
	}
	whole.Values = values
	g.set.repeated = append(g.set.repeated, whole)
}
