package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// sessionsSet is a set of an agent's sessions with a developer. What is asked for later stands somewhere in a long answer, other
// turns mention it in passing, and half of the questions use other words. Each seed gives another set of the same kind.
func sessionsSet(seed uint64) *set {
	g := &sessionsGenerator{
		set:    &set{name: sessionsName, grades: make(map[string]map[string]float64)},
		random: rand.New(rand.NewPCG(seed, 29)),
		asked:  make(map[string]bool),
	}
	for range workedSessions {
		g.session()
	}
	return g.set
}

const (
	sessionsName   = "agent-sessions"
	workedSessions = 60
)

type sessionsGenerator struct {
	set      *set
	random   *rand.Rand
	sessions int
	asked    map[string]bool // problems, with their services
	names    []string        // of what was talked about
}

// problem is how it was told, what was found, and how that is asked for later: in the same words, and in others. %[1]s is a service,
// %[2]s a name.
type problem struct{ told, found, later, reworded string }

var problems = []problem{
	{"The pages of %[1]s load slowly after the deploy.", "Loading was slow because every request opened a connection of its own; the pool in %[2]s keeps them.", "why did the pages of %[1]s load slowly?", "%[1]s sluggish since release, what was the reason?"},
	{"Customers of %[1]s are charged twice when they press the button again.", "The duplicate charges came from a missing idempotency key, which %[2]s sends now.", "why were customers of %[1]s charged twice?", "how did we stop %[1]s billing people two times?"},
	{"Uploads to %[1]s stop at two gigabytes.", "The size was kept in 32 bits; I widened it in %[2]s.", "why did uploads to %[1]s stop at two gigabytes?", "what limited big files in %[1]s?"},
	{"Users of %[1]s are logged out every hour.", "The session cookie expired with the access token; %[2]s refreshes it before that.", "why were users of %[1]s logged out every hour?", "people had to sign in again and again at %[1]s, what fixed it?"},
	{"The nightly backup of %[1]s does not finish.", "It waited for a lock that the migration held; %[2]s takes a snapshot instead.", "why did the nightly backup of %[1]s not finish?", "what was wrong with saving copies of %[1]s at night?"},
	{"Emails of %[1]s arrive with broken umlauts.", "The header named latin1 and the body was utf-8; %[2]s writes both alike.", "why did emails of %[1]s have broken umlauts?", "garbled characters in the mails from %[1]s, where did we repair that?"},
	{"The memory of %[1]s grows until the kernel kills it.", "A map of finished jobs was never cleared; %[2]s removes them after a minute.", "why did the memory of %[1]s grow?", "what leaked in %[1]s?"},
	{"Prices in %[1]s are wrong by a cent.", "They were added as floats; %[2]s counts cents.", "why were prices in %[1]s wrong by a cent?", "rounding trouble with amounts in %[1]s, how was it solved?"},
	{"The search of %[1]s does not find names with accents.", "Queries were folded and documents were not; %[2]s folds both.", "why did the search of %[1]s not find accents?", "looking up people like Zoë failed in %[1]s, what did we alter?"},
	{"The build of %[1]s takes forty minutes.", "The cache was keyed by the commit, so it was never hit; %[2]s keys it by the lock file.", "why did the build of %[1]s take forty minutes?", "how did we make compiling %[1]s faster?"},
	{"Which library do we take for retries in %[1]s?", "I took a small loop of our own in %[2]s, because the libraries pull in a scheduler that nothing else needs.", "which library did we take for retries in %[1]s?", "did we pick a dependency for trying again in %[1]s, or not?"},
	{"Webhooks of %[1]s are delivered out of order.", "Two workers read one queue; %[2]s hands each customer to one worker.", "why were webhooks of %[1]s delivered out of order?", "how did we keep the sequence of notifications in %[1]s?"},
}

// errands are turns between what matters, and what an agent says to them.
var errands = [][2]string{
	{"Run the tests again.", "All of them pass, %[2]s included."},
	{"Commit that, please.", "Committed with a message that names %[1]s."},
	{"Is there anything else to do?", "Only the change log of %[1]s is open."},
	{"Show me the diff.", "It touches %[2]s and a test beside it."},
	{"Explain that in one sentence.", "In short, %[2]s had the wrong assumption."},
	{"Please look at the logs of %[1]s.", "They show nothing unusual for %[1]s since the last restart."},
}

func (g *sessionsGenerator) pick(words []string) string { return pick(g.random, words) }

func (g *sessionsGenerator) remarks(most int) string {
	return someRemarks(g.random, 2+g.random.IntN(most))
}

func (g *sessionsGenerator) say(user, assistant string) string {
	id := fmt.Sprintf("a%d", len(g.set.documents))
	g.set.documents = append(g.set.documents, doc{ID: id, Account: "dev", Session: fmt.Sprintf("s%d", g.sessions), User: user, Assistant: assistant})
	return id
}

func (g *sessionsGenerator) ask(kind, text, answer string, related ...string) {
	q := question{ID: fmt.Sprintf("q%d", len(g.set.questions)), Account: "dev", Kind: kind, Text: text}
	g.set.questions = append(g.set.questions, q)
	g.set.judge(judgement{q.ID, answer, 2})
	for _, id := range related {
		g.set.judge(judgement{q.ID, id, 1})
	}
}

// session is two problems of one service with errands after each.
func (g *sessionsGenerator) session() {
	g.sessions++
	service := g.pick(packages) + "-" + g.pick(syllables) + g.pick(syllables)
	for range 2 {
		p := &problems[g.random.IntN(len(problems))]
		if g.asked[p.told+service] {
			continue
		}
		g.asked[p.told+service] = true
		name := fmt.Sprintf("%s%s%d", g.pick(verbs), g.pick(nouns), g.random.IntN(40))
		if g.random.IntN(2) == 0 {
			name = fmt.Sprintf("pkg/%s/%s_%d.go", g.pick(packages), g.pick(verbs), g.random.IntN(40))
		}
		code := fmt.Sprintf("E%d", 1000+g.random.IntN(9000))
		asked := fmt.Sprintf(p.told, service) + " The log has " + code + "."
		answer := g.remarks(9) + fmt.Sprintf(p.found, service, name) + " " + g.remarks(9) + code + " is not logged any more."
		var told []string
		if g.random.IntN(2) == 0 {
			told = append(told, g.say(asked, g.remarks(4)+"I will look into it, beginning with "+g.pick(packages)+"."))
			asked = "And?"
		}
		found := g.say(asked, answer)
		for range 1 + g.random.IntN(3) {
			e := errands[g.random.IntN(len(errands))]
			mentioned := name
			if len(g.names) > 0 && g.random.IntN(3) == 0 {
				mentioned = g.pick(g.names)
			}
			fill := strings.NewReplacer("%[1]s", service, "%[2]s", mentioned)
			g.say(fill.Replace(e[0]), g.remarks(3)+fill.Replace(e[1])+" "+g.remarks(3))
		}
		if !slices.Contains(g.names, name) {
			g.ask("identifier", "what did we change in "+name+"?", found)
		}
		g.names = append(g.names, name)
		g.ask("identifier", "where does "+code+" come from?", found, told...)
		g.ask("same words", fmt.Sprintf(p.later, service), found, told...)
		g.ask("reworded", fmt.Sprintf(p.reworded, service), found, told...)
	}
}
