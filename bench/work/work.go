// Package work generates what a developer does with agents over half a year: sessions in several projects, and questions about
// them of which it is known what an answer has to say. It writes the sessions as Claude Code and Codex keep them, for an import.
package work

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Session is a conversation with an agent in a project's directory.
type Session struct {
	Project string
	Began   time.Time
	Rounds  []Round

	name string // that its matter is about
}

// Round is what was asked, the steps to the answer, and the answer.
type Round struct {
	Asked    string
	Steps    []Step
	Answered string
}

// Step is a command that the agent runs, what it says before, and what comes of it.
type Step struct {
	Saying, Command, Output string
	Failed                  bool
}

// Question is asked in a project's directory. An answer has to say the values, or if there are none, nothing is on record.
type Question struct {
	Kind, Project, Text string
	Values              []string
}

// Work is what was done, and what is asked about it.
type Work struct {
	Sessions  []Session
	Questions []Question
	Absent    []Question // that nothing on record in their projects answers
}

// projects are directories below the developer's home.
var projects = []string{"shop", "ledger", "fleet", "atlas", "courier", "harbor"}

// Generate makes the work that a seed stands for, which ends before a time. Each of the projects has so many sessions, and one more has
// half as many, in which nothing happens.
func Generate(seed uint64, home string, end time.Time, sessions int) *Work {
	g := &generator{random: rand.New(rand.NewPCG(seed, 31)), home: home, end: end}
	for n := range projects {
		g.project(home+"/"+projects[n], sessions)
	}
	for n := range projects {
		g.absent(home + "/" + projects[n])
	}
	g.quietProject(home+"/"+quiet, sessions/2)
	return &g.Work
}

type generator struct {
	Work
	random *rand.Rand
	home   string
	end    time.Time
}

func (g *generator) pick(list []string) string { return list[g.random.IntN(len(list))] }

// word makes a name that nothing else has.
func (g *generator) word() string {
	var b strings.Builder
	for range 3 {
		b.WriteString(g.pick(onsets) + g.pick(vowels))
	}
	return b.String()
}

var (
	onsets = []string{"b", "d", "f", "g", "k", "l", "m", "n", "p", "r", "s", "t", "v", "z", "br", "kr", "st", "tr"}
	vowels = []string{"a", "e", "i", "o", "u"}
)

// span is how far back the work goes.
const span = 170 * 24 * time.Hour

// project is the work in one directory: each matter of the project in a session of its own, the others chores.
func (g *generator) project(directory string, sessions int) {
	list := make([][]Round, sessions)
	names := make([]string, sessions)
	places := g.random.Perm(sessions)
	matters := slices.Clone(allMatters)
	g.random.Shuffle(len(matters), func(i, j int) { matters[i], matters[j] = matters[j], matters[i] })
	for i, m := range matters[:min(len(matters), sessions)] {
		names[places[i]], list[places[i]] = g.matter(&m, directory, g.day(places[i], sessions))
	}
	for i := range list {
		began := g.day(i, sessions)
		s := Session{Project: directory, Began: began, name: names[i]}
		for range g.random.IntN(3) {
			s.Rounds = append(s.Rounds, g.chore())
		}
		s.Rounds = append(s.Rounds, list[i]...)
		for range g.random.IntN(3) + 1 - min(len(list[i]), 1) {
			s.Rounds = append(s.Rounds, g.chore())
		}
		g.Sessions = append(g.Sessions, s)
	}
}

// day is when the session of a number begins, of so many.
func (g *generator) day(n, of int) time.Time {
	return g.end.Add(-span + time.Duration(n)*(span-48*time.Hour)/time.Duration(of)).Truncate(time.Minute)
}

// matter is something that is asked about later. In its texts {name} is a made-up name, the same in all of them, {a} and {b} are one of the
// alternatives and another one, {n} is a number, and {day} the day of the session.
type matter struct {
	kind         string
	alternatives []string
	asked        string
	steps        []Step
	answered     string
	bare         bool     // the answer stands alone, without remarks
	later        []string // ways in which it is asked about
	values       []string
	now          string // an answer in a later round that replaces the one before; the values stand in it
}

func (g *generator) matter(m *matter, directory string, day time.Time) (name string, rounds []Round) {
	a, b := "", ""
	if len(m.alternatives) > 0 {
		at := g.random.Perm(len(m.alternatives))
		a, b = m.alternatives[at[0]], m.alternatives[at[1]]
	}
	number := 12 + g.random.IntN(900)
	name = g.word()
	fill := strings.NewReplacer("{name}", name, "{other}", g.word(), "{a}", a, "{b}", b, "{n}", fmt.Sprint(number), "{m}", fmt.Sprint(number+1+g.random.IntN(90)),
		"{day}", day.Format(time.DateOnly), "{month}", day.Format("January"))
	r := Round{Asked: fill.Replace(m.asked), Answered: fill.Replace(m.answered)}
	if !m.bare {
		r.Answered = g.remarks(8) + r.Answered + " " + g.remarks(8)
	}
	for range g.random.IntN(3) {
		r.Steps = append(r.Steps, g.look())
	}
	for _, s := range m.steps {
		r.Steps = append(r.Steps, Step{fill.Replace(s.Saying), fill.Replace(s.Command), fill.Replace(s.Output), s.Failed})
	}
	rounds = []Round{r}
	if m.now != "" {
		rounds = append(rounds, g.chore(), Round{Asked: fill.Replace("About {name} again: that was not good enough, change it."), Steps: []Step{g.look()}, Answered: g.remarks(5) + fill.Replace(m.now) + " " + g.remarks(5)})
	}
	q := Question{Kind: m.kind, Project: directory, Text: fill.Replace(g.pick(m.later))}
	for _, value := range m.values {
		q.Values = append(q.Values, fill.Replace(value))
	}
	g.Questions = append(g.Questions, q)
	return name, rounds
}

func (g *generator) remarks(most int) string {
	var b strings.Builder
	for range g.random.IntN(most + 1) {
		b.WriteString(g.pick(remarks) + " ")
	}
	return b.String()
}

func (g *generator) look() Step {
	return Step{g.pick([]string{"Let me look.", "I will check that first.", ""}), "grep -rn " + g.word() + " .", g.noise(), false}
}

func (g *generator) noise() string {
	var b strings.Builder
	for n := range 3 + g.random.IntN(12) {
		fmt.Fprintf(&b, "pkg/%s/%s.go:%d: %s(%s)\n", g.word(), g.word(), 10+n, g.word(), g.word())
	}
	return b.String()
}

// chore is a round that nothing is asked about.
func (g *generator) chore() Round {
	c := chores[g.random.IntN(len(chores))]
	fill := strings.NewReplacer("{x}", g.pick(topics), "{y}", g.pick(topics), "{name}", g.word())
	return Round{Asked: fill.Replace(c[0]), Steps: []Step{g.look()}, Answered: g.remarks(4) + fill.Replace(c[1]) + " " + g.remarks(4)}
}
