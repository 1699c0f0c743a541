package store

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/store/record"
)

// drain returns the events that a subscription holds.
func drain(sub *record.Subscription) (told []string, last uint64) {
	for {
		select {
		case e, ok := <-sub.Events:
			if !ok {
				return append(told, "closed"), last
			}
			told = append(told, string(e.Kind))
			last = e.Seq
		default:
			return told, last
		}
	}
}

func TestSubscribersSeeTheEventsOfTheirAccountOnly(t *testing.T) {
	c := newConversation(t)
	mine, err := c.s.Archive().Subscribe("acme", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer mine.Close()
	theirs, err := c.s.Archive().Subscribe("other", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	c.session(say("1"), "2")
	erase(t, c.s, "acme", record.Selection{All: true})
	want := "[exchange.created exchange.completed turn.digested erasure.done]"
	told, last := drain(mine)
	if got := fmt.Sprint(told); got != want {
		t.Errorf("events are %s, want %s", got, want)
	}
	if told, _ := drain(theirs); len(told) != 0 {
		t.Errorf("the other account sees %v", told)
	}

	again, err := c.s.Archive().Subscribe("acme", last-2)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if told, _ := drain(again); fmt.Sprint(told) != "[turn.digested erasure.done]" || again.Missed {
		t.Errorf("coming back gives %v, missed %v", told, again.Missed)
	}
	unknown, err := c.s.Archive().Subscribe("acme", last+1000)
	if err != nil {
		t.Fatal(err)
	}
	defer unknown.Close()
	if !unknown.Missed {
		t.Error("a place that this process does not know is taken for a known one")
	}
}

func TestASubscriberThatDoesNotReadIsDropped(t *testing.T) {
	c := newConversation(t)
	sub, err := c.s.Archive().Subscribe("acme", 0)
	if err != nil {
		t.Fatal(err)
	}
	for range record.EventBacklog {
		capture(t, c.s, "acme", `{"messages":[]}`, "x")
	}
	told, _ := drain(sub)
	if len(told) != record.EventBacklog+1 || told[len(told)-1] != "closed" {
		t.Errorf("%d events, the last is %s", len(told), told[len(told)-1])
	}
	sub.Close()
	open, err := c.s.Archive().Subscribe("acme", 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.s.Close(); err != nil {
		t.Fatal(err)
	}
	if told, _ := drain(open); !strings.HasSuffix(strings.Join(told, " "), "closed") {
		t.Errorf("after the store was closed a subscriber holds %v", told)
	}
	late, err := c.s.Archive().Subscribe("acme", 0)
	if err != nil {
		t.Fatal(err)
	}
	if told, _ := drain(late); fmt.Sprint(told) != "[closed]" {
		t.Errorf("one who comes when the store is closed holds %v", told)
	}
}
