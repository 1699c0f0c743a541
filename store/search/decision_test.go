package search

import (
	"strings"
	"testing"
)

func TestOnlyWhatIsDecidedOrRuledIsADecision(t *testing.T) {
	for text, want := range map[string][2]bool{ // of a model, of a person
		"We decided to keep flock in store/lock.go.":                    {true, true},
		"Because of NFS I chose fcntl for store/lock.go.":               {true, true},
		"I used a map instead of a tree.":                               {true, true},
		"The limit stays at 30 s, and not at 60.":                       {true, true},
		"Never touch the generated code.":                               {false, true},
		"Bitte niemals den Cache löschen.":                              {false, true},
		"- never push to main":                                          {false, true},
		"Intro.\nAlways run the linter.":                                {false, true},
		"Should we always run the linter?":                              {false, false},
		"Let me look at the file.":                                      {false, false},
		"The change is small and has a test of its own.":                {false, false},
		"Please add a flag to main.go.":                                 {false, false},
		"":                                                              {false, false},
		strings.Repeat("Nothing here. ", 3000) + "We decided on Kafka.": {false, false}, // beyond what is examined
	} {
		for i, person := range []bool{false, true} {
			if got := len(Decisions(text, person)) > 0; got != want[i] {
				t.Errorf("%.80q by a person (%t): %t, want %t", text, person, got, want[i])
			}
		}
	}
	list := Decisions("I looked at both. I tried gob, but it does not work across versions. The change is in.", false)
	if len(list) != 1 || !list[0].Rejected || list[0].Text != "I tried gob, but it does not work across versions." {
		t.Errorf("%+v", list)
	}
}
