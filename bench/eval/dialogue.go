package main

import (
	"fmt"
	"math/rand/v2"
)

// dialogueSet is a set of long conversations between people who know each other and an assistant, the same with every run.
// A session keeps to a subject that many sessions share, what belongs together is said over several turns, and questions
// name some of it: so a turn is often found by what its neighbors say, and a session by more than its beginning.
func dialogueSet() *set {
	s := &set{name: "dialogues", grades: make(map[string]map[string]float64)}
	for i, account := range []string{"ann", "bert", "cleo", "dora"} {
		g := &dialogueGenerator{set: s, account: account, random: rand.New(rand.NewPCG(uint64(i), 17))}
		for range dialogueSessions {
			g.session()
		}
	}
	return s
}

const dialogueSessions = 48 // of an account

type dialogueGenerator struct {
	set      *set
	account  string
	random   *rand.Rand
	sessions int
	turns    int
	asked    map[string]bool
}

var (
	activities = []string{"pottery", "climbing", "chess", "sailing", "baking", "painting", "cycling", "gardening", "choir", "archery"}
	people     = []string{"Nadia", "Tobias", "Ruth", "Keiko", "Omar", "Lena", "Samuel", "Ines"}
	places     = []string{"the old harbor", "Lisbon", "the community centre", "a farm near Graz", "the library", "Oslo", "the botanical garden", "the museum", "a cabin by the lake", "the town hall"}
	gifts      = []string{"a blue kettle", "dried figs", "a compass", "two tickets", "an umbrella", "a wooden box", "old photographs", "a silver bell", "maple syrup", "a map", "a lantern", "honey"}
	troubles   = []string{"it rained all afternoon", "the train was late", "somebody lost a key", "the power went out", "the dog ran away", "nobody had slept much", "the car broke down", "it was far too hot"}
	smallTalk  = [][2]string{
		{"I am rather tired today, work was a lot.", "That sounds exhausting. Try to rest a little this evening."},
		{"What should I cook tonight?", "Something light, perhaps a soup with vegetables and bread."},
		{"My sister called, she is doing well.", "How nice to hear from her. Family calls can brighten a day."},
		{"Can you recommend a film?", "A quiet comedy might suit you. Do you prefer something old or new?"},
		{"The weather is changing again.", "Yes, take a jacket along when you go out."},
		{"I slept badly.", "A walk before bed can help, and less light from screens."},
	}
)

func (g *dialogueGenerator) pick(words []string) string { return pick(g.random, words) }

// say adds a turn to the session and gives its id.
func (g *dialogueGenerator) say(user, assistant string) string {
	g.turns++
	id := fmt.Sprintf("%s/%d", g.account, g.turns)
	g.set.documents = append(g.set.documents, doc{
		ID: id, Account: g.account, Session: fmt.Sprintf("%s/s%d", g.account, g.sessions), User: user, Assistant: assistant,
	})
	return id
}

func (g *dialogueGenerator) chat() {
	for range 1 + g.random.IntN(3) {
		t := smallTalk[g.random.IntN(len(smallTalk))]
		g.say(t[0], t[1])
	}
}

// ask adds a question that the first document answers; the others belong to it.
func (g *dialogueGenerator) ask(text, answer string, around ...string) {
	if g.asked == nil {
		g.asked = make(map[string]bool)
	}
	if g.asked[text] {
		return // an earlier session answers it, too
	}
	g.asked[text] = true
	id := fmt.Sprintf("%s/q%d", g.account, len(g.set.questions))
	g.set.questions = append(g.set.questions, question{ID: id, Account: g.account, Text: text})
	g.set.judge(judgement{id, answer, 2})
	for _, other := range around {
		g.set.judge(judgement{id, other, 1})
	}
}

func (g *dialogueGenerator) session() {
	g.sessions++
	activity, person, place, gift, trouble := g.pick(activities), g.pick(people), g.pick(places), g.pick(gifts), g.pick(troubles)
	other := g.pick(activities)
	g.chat()
	opening := g.say(
		fmt.Sprintf("I finally went %s again, this time with %s.", activity, person),
		fmt.Sprintf("How did it go? %s must have enjoyed it.", person))
	where := g.say(
		fmt.Sprintf("We met at %s, and %s.", place, trouble),
		"That does not sound like an easy start. Did you manage to have a good day all the same?")
	g.chat()
	what := g.say(
		fmt.Sprintf("Yes, and in the end I was given %s. I had not expected that at all.", gift),
		"What a thoughtful surprise! It will remind you of that day.")
	g.say(
		fmt.Sprintf("Next time we may try %s, though I have never done it.", other),
		fmt.Sprintf("Beginners often start %s with a short course.", other))
	g.chat()
	g.ask(fmt.Sprintf("Where did I go %s with %s?", activity, person), where, opening)
	g.ask(fmt.Sprintf("What was I given when I went %s with %s?", activity, person), what, opening)
	g.ask(fmt.Sprintf("When I was at %s and %s, who was with me?", place, trouble), opening, where)
}
