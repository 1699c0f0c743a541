package server_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/bench/provider"
)

// prefixKills is how often the program is killed in the test of prefixes; the long run has 200: make prefixes
var prefixKills = flag.Int("prefix-kills", 2, "kills in the test of prefixes")

// What was recalled is put back by the next program, too, however the one before ended: also where the provider had been
// sent a request and the client had no answer. The text of a recall is never the same twice.
func TestEachRequestBeginsWithTheOneBeforeAcrossKills(t *testing.T) {
	if testing.Short() {
		t.Skip("rounds of a killed process, one after the other")
	}
	up, err := provider.Start(provider.Options{Keep: 1 << 17, FreshIDs: true})
	ok(t, err)
	defer func() { ok(t, up.Close()) }()
	dir := t.TempDir()
	begin := func() *program { return startProgram(t, dir, up, "recall: {requests: on, deadline: 1m}") }
	p := begin()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	random := rand.New(rand.NewPCG(1, 2))
	const cases = 40
	for n := range cases { // what can be recalled
		seed := &conversation{surface: chat, model: chat.model, random: random, items: []string{fmt.Sprintf("ask:seed: Why does ErrCase%d come up?", n)}}
		if a := p.ask(client, chat, seed.body()); !a.complete {
			t.Fatal("the program does not answer")
		}
	}
	remembers := func() { // the newest exchange can be recalled
		eventually(t, func() error {
			a := p.ask(client, surface{path: "/v1/memory/recall"}, askedIn(fmt.Sprintf("What about ErrCase%d again?", cases-1), shop))
			if !strings.Contains(a.received, fmt.Sprintf("seed: Why does ErrCase%d", cases-1)) {
				return fmt.Errorf("recalled is %s", a.received)
			}
			return nil
		})
	}
	remembers()
	var talks []*conversation
	for _, s := range generating {
		for range 2 {
			name := fmt.Sprintf("talk %c.", 'p'+len(talks)) // a word, and no name that would have to be held
			talks = append(talks, &conversation{surface: s, model: s.model, random: random, name: name})
		}
	}
	question := func(c *conversation, script string) {
		c.turns++
		c.items = append(c.items, fmt.Sprintf("ask:%s What about ErrCase%d again? %s", c.name, (c.turns*7+int(c.name[5]))%cases, script))
	}
	for range *prefixKills {
		for _, c := range talks {
			question(c, "")
			for range 1 + random.IntN(3) {
				if a := p.ask(client, c.surface, c.body()); !a.complete {
					t.Fatalf("%s has no answer", c.name)
				}
				c.answer(true)
			}
			c.answer(false)
		}
		cut := talks[random.IntN(len(talks))]
		question(cut, "[[sim: delay 1h first=1h; text \"never\"]]")
		before := len(up.Requests())
		left := make(chan struct{})
		go func() {
			defer close(left)
			p.ask(client, cut.surface, cut.body())
		}()
		eventually(t, func() error {
			if len(up.Requests()) == before {
				return fmt.Errorf("the request of %s has not reached the provider", cut.name)
			}
			return nil
		})
		p.kill()
		<-left
		p = begin()
		remembers()
		cut.items = append(cut.items[:len(cut.items):len(cut.items)], fmt.Sprintf("ask:%s Go on without it. [[sim: text \"on\"]]", cut.name))
		if a := p.ask(client, cut.surface, cut.body()); !a.complete {
			t.Fatalf("%s has no answer after the kill", cut.name)
		}
		cut.answer(false)
	}
	p.kill()
	last := make(map[string]string)
	checked := 0
	for _, r := range up.Requests() {
		sent := sentHistory(t, r.Body)
		_, talk, asked := strings.Cut(sent, "talk ") // what is recalled for it comes later
		if !asked {
			continue
		}
		talk, _, _ = strings.Cut(talk, ".")
		if before := last[talk]; !strings.HasPrefix(sent, before) {
			t.Errorf("%q\ndoes not begin with %q", sent, before)
		}
		last[talk], checked = sent, checked+1
	}
	blocks := 0
	for _, sent := range last {
		blocks += strings.Count(sent, "<mneme-recall ")
	}
	t.Logf("%d requests, %d kills, %d blocks in the last requests", checked, *prefixKills, blocks)
	if blocks < len(talks)/2 || len(last) != len(talks) {
		t.Errorf("%d blocks in the last requests of %d conversations: the test cannot fail", blocks, len(talks))
	}
}
