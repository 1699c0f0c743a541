package server_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/server/recall"
	"github.com/mnemeproxy/mneme/store"
)

// The long forms, 50 sessions and 100,000 decisions in 10 accounts, are run by: make recall-echo
var (
	echoSessions       = flag.Int("echo-sessions", 6, "sessions that recall each other in the test of echoes")
	echoRounds         = flag.Int("echo-rounds", 3, "rounds in the test of echoes")
	isolationAccounts  = flag.Int("isolation-accounts", 3, "accounts in the test of isolation")
	isolationDecisions = flag.Int("isolation-decisions", 150, "decisions in the test of isolation")
)

// Sessions that are given each other's words, again and again, do not spread them: a sentence is found in the session that
// said it, and in no other.
func TestSessionsThatRecallEachOtherSpreadNothing(t *testing.T) {
	h := searching(t)
	planted := func(n int) string { return fmt.Sprintf("the quokka%d papers lie in vault %d", n, 1000+n) }
	name := func(n int) string { return fmt.Sprint("session ", n) }
	for n := range *echoSessions {
		h.inShop(name(n), fmt.Sprintf("Remember that %s.", planted(n)), "I will.")
	}
	h.find(h.key, `{"newest":true}`)
	given := 0
	for round := 1; round <= *echoRounds; round++ {
		for n := range *echoSessions {
			question := fmt.Sprintf("Round %d: where are quokka%d papers?", round, (n+round)%*echoSessions)
			a := h.post(chat.path, chat.said(chat.model, "You are an agent.\nWorking directory: "+shop+"\n", sim(question, "Let me see.")),
				"X-Service-Chat-Key", name(n), "X-Service-Recall", "on")
			if strings.HasPrefix(a.header.Get("X-Service-Recall"), "hits=") {
				given++
			}
		}
		h.find(h.key, `{"newest":true}`)
	}
	asked := *echoRounds * *echoSessions
	if given < asked/2 {
		t.Errorf("of %d questions %d were given anything: the test cannot fail", asked, given)
	}
	echoes := 0
	for n := range *echoSessions {
		query := fmt.Sprintf(`{"query":%s,"limit":100}`, quoted(`"`+planted(n)+`"`))
		if _, found, _ := h.find(h.key, query); len(found.Data) != 1 || len(found.Data[0].Duplicates) > 0 {
			echoes++
			t.Errorf("%q is found %d times", planted(n), len(found.Data))
		}
	}
	t.Logf("%d sessions, %d questions, %d of them given something; %d sentences are found elsewhere", *echoSessions, asked, given, echoes)
}

// All accounts and projects say the same but for a mark of their own. No decision quotes another's mark, and none a mark that
// was erased, nor does a conversation that was given it.
func TestNoDecisionQuotesAnother(t *testing.T) {
	h := searching(t)
	memory := recall.New(recall.Over(h.store), recall.Options{Deadline: timeout})
	const projects = 3
	type corner struct {
		account, key, directory, mark, exchange string
		erased                                  bool
	}
	var corners []corner
	say := func(c *corner, headers []string, turns ...string) *answer {
		body := chat.said(chat.model, "You are an agent.\nWorking directory: "+c.directory+"\n", turns...)
		return h.do(http.MethodPost, chat.path, body, append(headers, "Authorization", "Bearer "+c.key)...)
	}
	for a := range *isolationAccounts {
		account := fmt.Sprint("tenant-", a)
		h.account(account)
		key := h.createKey(account, store.AllScopes)
		for p := range projects {
			c := corner{account: account, key: key, directory: fmt.Sprint("/home/ann/project-", p), mark: fmt.Sprintf("mark%da%dp", a, p)}
			c.exchange = say(&c, nil, sim("Why does ErrLockTimeout come up?", "It comes from "+c.mark+" while the lease is held.")).exchange()
			corners = append(corners, c)
		}
		h.find(key, `{"newest":true}`)
	}
	question := "What about ErrLockTimeout?"
	for i := range corners { // each has a conversation that was given its mark
		say(&corners[i], []string{"X-Service-Recall", "on"}, question)
		if sent := string(h.upstream().Body); !strings.Contains(sent, corners[i].mark) {
			t.Fatalf("%s was not given its mark: %s", corners[i].mark, sent)
		}
	}
	random := rand.New(rand.NewPCG(5, 7))
	decide := func(decisions int) (spoke, foreign, erased int) {
		for range decisions {
			c := &corners[random.IntN(len(corners))]
			r := memory.Recall(context.Background(), &recall.Query{Account: c.account, Project: c.directory, Prompt: "where does ErrLockTimeout come from"})
			if r.Text != "" {
				spoke++
			}
			for i := range corners {
				if other := &corners[i]; strings.Contains(r.Text, other.mark) {
					switch {
					case other != c:
						foreign++
					case c.erased:
						erased++
					}
				}
			}
		}
		return spoke, foreign, erased
	}
	spoke, foreign, _ := decide(*isolationDecisions)
	t.Logf("%d accounts with %d projects each, %d decisions: %d spoke, %d quoted another", *isolationAccounts, projects, *isolationDecisions, spoke, foreign)
	if spoke < *isolationDecisions || foreign > 0 {
		t.Errorf("of %d decisions %d spoke and %d quoted another", *isolationDecisions, spoke, foreign)
	}

	for i := range corners {
		if c := &corners[i]; i%2 == 0 {
			var e struct {
				ID string `json:"id"`
			}
			h.key = c.key
			ok(t, json.Unmarshal([]byte(h.ask(http.StatusAccepted, http.MethodDelete, "/exchanges/"+c.exchange, "").body), &e))
			h.erased(e.ID)
			c.erased = true
		}
	}
	again := max(*isolationDecisions/10, 50)
	_, foreign, erased := decide(again)
	replayed := 0
	for i := range corners {
		say(&corners[i], []string{"X-Service-Recall", "on"}, question, "I see.", "And then?")
		if given := strings.Contains(string(h.upstream().Body), corners[i].mark); given && corners[i].erased {
			replayed++
		} else if !given && !corners[i].erased {
			t.Errorf("%s is not put back", corners[i].mark)
		}
	}
	t.Logf("%d decisions after erasures: %d quoted another, %d what was erased; %d conversations got it back", again, foreign, erased, replayed)
	if foreign+erased+replayed > 0 {
		t.Errorf("after erasures %d quoted another, %d what was erased; %d conversations got it back", foreign, erased, replayed)
	}
}
