package main

import (
	"fmt"
	"math/rand/v2"
)

// agentSet is a set of turns as coding agents have them, the same with every run: names of things that differ by a
// letter, questions in other words than the answers, values that change later, other accounts that say nearly the same,
// and Chinese and Japanese. It measures what sets of prose do not.
func agentSet() *set {
	s := &set{name: "agent-turns", grades: make(map[string]map[string]float64)}
	for i, account := range []string{"acme", "globex", "initech"} {
		g := &agentGenerator{set: s, account: account, random: rand.New(rand.NewPCG(7, 11)), shift: i}
		g.run()
	}
	return s
}

// agentGenerator writes the turns of one account. All accounts draw the same numbers, and differ by shift: so each has
// the lookalikes of the others.
type agentGenerator struct {
	set     *set
	account string
	random  *rand.Rand
	shift   int
	turns   int
}

var (
	packages = []string{"lock", "retry", "billing", "index", "router", "cache", "auth", "export", "queue", "parser"}
	verbs    = []string{"acquire", "release", "refresh", "flush", "resolve", "encode", "verify", "merge", "rotate", "drain"}
	nouns    = []string{"Lease", "Token", "Ledger", "Segment", "Cursor", "Session", "Batch", "Digest", "Shard", "Quota"}
)

func (g *agentGenerator) pick(words []string) string { return pick(g.random, words) }

// say adds a turn and gives its id.
func (g *agentGenerator) say(user, assistant string) string {
	g.turns++
	id := fmt.Sprintf("%s/%d", g.account, g.turns)
	g.set.documents = append(g.set.documents, doc{
		ID: id, Account: g.account, Session: fmt.Sprintf("%s/s%d", g.account, g.turns/8), User: user, Assistant: assistant,
	})
	return id
}

// ask adds a question that the documents answer, the first one best.
func (g *agentGenerator) ask(kind, text string, answers ...string) {
	id := fmt.Sprintf("%s/q%d", g.account, len(g.set.questions))
	g.set.questions = append(g.set.questions, question{ID: id, Account: g.account, Text: text, Kind: kind})
	for i, answer := range answers {
		grade := 1.0
		if i == 0 {
			grade = 2
		}
		g.set.judge(judgement{id, answer, grade})
	}
}

func (g *agentGenerator) run() {
	for n := range 60 {
		g.failure(n)
		g.symbol(n)
	}
	for n := range 100 { // of names that differ from known ones by a digit or two
		for _, text := range []string{"where does E%d come from?", "what did we change in pkg/lock/acquire_%d.go", "releaseLeaseByToken%d", "default of --max-cache-%d"} {
			g.set.unheard = append(g.set.unheard, question{Account: g.account, Text: fmt.Sprintf(text, 9001+n), Kind: "absent"})
		}
	}
	for n := range 20 {
		g.reworded(n)
		g.updated(n)
		g.ideographic(n)
	}
}

// failure is an error code and the file it comes from.
func (g *agentGenerator) failure(n int) {
	code, file := fmt.Sprintf("E%d", 4000+7*n+g.shift), fmt.Sprintf("pkg/%s/%s_%d.go", g.pick(packages), g.pick(verbs), n+g.shift)
	id := g.say(
		fmt.Sprintf("The nightly run failed with %s again, please look into it.", code),
		fmt.Sprintf("%s is raised in %s:%d when the deadline passes before the retry. I moved the check in front of the loop and the run is green.", code, file, 10+n))
	g.ask("identifier", "where does "+code+" come from?", id)
	g.ask("identifier", "what did we change in "+file, id)
}

// symbol is a function that is renamed and the flag it is tested with.
func (g *agentGenerator) symbol(n int) {
	name := fmt.Sprintf("%s%sBy%s%d", g.pick(verbs), g.pick(nouns), g.pick(nouns), n+g.shift)
	flag := fmt.Sprintf("--max-%s-%d", g.pick(packages), n+g.shift)
	id := g.say(
		fmt.Sprintf("Rename the helper to %s and make the limit configurable.", name),
		fmt.Sprintf("Done: %s takes the limit from %s, which defaults to %d. The callers are updated and the tests pass.", name, flag, 16+n))
	g.ask("identifier", name, id)
	g.ask("identifier", "default of "+flag, id)
}

// rewordings are problems, how they were told, and how they are asked for later.
var rewordings = [][3]string{
	{"The pages load slowly after the deploy to %s.", "Loading was slow because every request opened a connection of its own; %s pools them now.", "slow page loads deploying %s"},
	{"Customers of %s are charged twice when they press the button again.", "The duplicate charges came from a missing idempotency key; %s sends one now.", "double charge customer button %s"},
	{"Uploads to %s stop at two gigabytes.", "The size was kept in 32 bits; uploading larger files to %s works.", "large file upload limit gigabyte %s"},
	{"Users of %s are logged out every hour.", "The session cookie expired with the access token; %s refreshes it.", "user logging out hourly cookie %s"},
}

func (g *agentGenerator) reworded(n int) {
	service := fmt.Sprintf("%s%d", g.pick(packages), 300+n+g.shift)
	words := rewordings[n%len(rewordings)]
	id := g.say(fmt.Sprintf(words[0], service), fmt.Sprintf(words[1], service))
	g.ask("reworded", fmt.Sprintf(words[2], service), id)
}

// updated is a value that is set and later changed.
func (g *agentGenerator) updated(n int) {
	service := fmt.Sprintf("%s-service-%d", g.pick(packages), n+g.shift)
	before := g.say("Which port does "+service+" listen on?", fmt.Sprintf("%s listens on port %d.", service, 8000+n))
	after := g.say("Move "+service+" to another port.", fmt.Sprintf("%s listens on port %d from now on; it was %d.", service, 9000+n, 8000+n))
	g.ask("updated", "port of "+service, after, before)
}

var ideographicTurns = [][3]string{
	{"请检查%s的登录超时问题", "%s的登录超时是因为缓存没有刷新，已经修复。", "%s 登录超时 缓存"},
	{"%sの検索が遅い原因を調べて", "%sの検索システムは索引が古いため遅くなっていました。再構築しました。", "%s 検索システム 遅い"},
}

func (g *agentGenerator) ideographic(n int) {
	service := fmt.Sprintf("svc%d", 700+n+g.shift)
	words := ideographicTurns[n%len(ideographicTurns)]
	id := g.say(fmt.Sprintf(words[0], service), fmt.Sprintf(words[1], service))
	g.ask("cjk", fmt.Sprintf(words[2], service), id)
}
