package main

import (
	"fmt"
	"math/rand/v2"
)

// paraphraseSet is a set of turns that are asked for in other words than theirs, the same with every run. Few of a question's
// words stand in the turn that answers it, and those stand in many others: a search needs to know which words mean the same.
func paraphraseSet() *set {
	s := &set{name: "paraphrases", grades: make(map[string]map[string]float64)}
	random := rand.New(rand.NewPCG(19, 23))
	said := make(map[string]bool)
	for len(s.documents) < paraphraseTurns {
		verb, quality, thing := paraphrasedVerbs[random.IntN(len(paraphrasedVerbs))], paraphrasedQualities[random.IntN(len(paraphrasedQualities))], paraphrasedThings[random.IntN(len(paraphrasedThings))]
		key := verb[0] + quality[0] + thing[0]
		if said[key] {
			continue
		}
		said[key] = true
		sides := [3]int{random.IntN(2), random.IntN(2), random.IntN(2)}
		kept := random.IntN(4) // the word that the question shares with the turn; 3: none
		asked := sides
		for i := range asked {
			if i != kept {
				asked[i] = 1 - asked[i]
			}
		}
		n := len(s.documents)
		d := doc{
			ID: fmt.Sprintf("p%d", n), Account: "mo", Session: fmt.Sprintf("s%d", n/5),
			User:      fmt.Sprintf("Somebody I know wants to %s a %s %s before winter.", verb[sides[0]], quality[sides[1]], thing[sides[2]]),
			Assistant: "That should be possible. Let me know when there is a date, and I will put together a plan.",
		}
		s.documents = append(s.documents, d)
		s.questions = append(s.questions, question{
			ID: d.ID, Account: d.Account,
			Text: fmt.Sprintf("who asked me how to %s a %s %s", verb[asked[0]], quality[asked[1]], thing[asked[2]]),
		})
		s.judge(judgement{d.ID, d.ID, 1})
	}
	return s
}

const paraphraseTurns = 300

// Each has two spellings that mean the same; all of them are in the thesaurus.
var (
	paraphrasedVerbs     = [][2]string{{"buy", "purchase"}, {"repair", "mend"}, {"clean", "wash"}, {"find", "locate"}, {"hide", "conceal"}, {"build", "construct"}, {"choose", "select"}}
	paraphrasedQualities = [][2]string{{"fast", "rapid"}, {"large", "huge"}, {"cheap", "inexpensive"}, {"old", "ancient"}, {"beautiful", "lovely"}, {"tiny", "small"}, {"strange", "weird"}, {"sturdy", "robust"}}
	paraphrasedThings    = [][2]string{{"car", "automobile"}, {"bicycle", "bike"}, {"sofa", "couch"}, {"lamp", "lantern"}, {"carpet", "rug"}, {"boat", "vessel"}, {"coat", "jacket"}, {"garden", "yard"}}
)
