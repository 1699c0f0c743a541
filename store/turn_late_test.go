package store

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// A conversation uses three edges, whose turns arrive in any order: the centre shows it like one on a single server.
func TestTurnsThatArriveOutOfOrderShowEachMessageOnce(t *testing.T) {
	for _, long := range []bool{false, true} {
		t.Run(fmt.Sprintf("long %v", long), func(t *testing.T) { turnsInAnyOrder(t, long) })
	}
}

func turnsInAnyOrder(t *testing.T, long bool) {
	text := func(n int) string {
		if long { // then a turn has it only as steps over its exchange
			return numbered(fmt.Sprintf("message %d, line", n), 1<<10)
		}
		return fmt.Sprint(n)
	}
	byKey := func(messages ...int) *Opening {
		var texts []string
		for _, n := range messages {
			texts = append(texts, text(n))
		}
		return with(say(texts...), func(o *Opening) { o.ChatKey = "k" })
	}
	for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		t.Run(fmt.Sprint(order), func(t *testing.T) {
			centre := newConversation(t)
			var edges []*conversation
			for turn, o := range []*Opening{byKey(1), byKey(1, 2, 3), byKey(1, 2, 3, 4, 5)} {
				edge := newConversation(t)
				beginShipping(t, edge.s)
				edge.session(o, text(2*turn+2))
				edges = append(edges, edge)
			}
			for _, turn := range order {
				carry(t, edges[turn].s, centre.s)
				centre.settle()
			}
			page, err := centre.s.Archive().Sessions("acme", SessionQuery{})
			if err != nil || len(page.Data) != 1 {
				t.Fatalf("the sessions are %+v (%v)", page.Data, err)
			}
			timeline, err := centre.s.Archive().Timeline("acme", page.Data[0].ID, TimelineQuery{})
			if err != nil || len(timeline.Data) != len(edges) {
				t.Fatalf("the timeline is %+v (%v)", timeline.Data, err)
			}
			for i, e := range timeline.Data {
				asked, answered, before, behind := text(2*i+1), text(2*i+2), "", ""
				if i > 0 {
					before = timeline.Data[i-1].Exchange.ID
				}
				if i+1 < len(timeline.Data) {
					behind = timeline.Data[i+1].Exchange.ID
				}
				if len(e.Turn.Messages) != 1 || e.Turn.Messages[0].Parts[0].Text != asked || e.Turn.Known != 2*i {
					t.Errorf("turn %d shows %+v, and knows %d", i, e.Turn.Messages, e.Turn.Known)
				}
				if len(e.Turn.Answer) != 1 || e.Turn.Answer[0].Parts[0].Text != answered {
					t.Errorf("turn %d is answered %+v", i, e.Turn.Answer)
				}
				if e.Turn.Parent != before || e.Turn.Continued != behind || e.Turn.Branch {
					t.Errorf("turn %d goes on from %q and is continued by %q, branch %v", i, e.Turn.Parent, e.Turn.Continued, e.Turn.Branch)
				}
			}
			mustBeSound(t, centre.s)

			// An erasure removes nothing that other turns need.
			erase(t, centre.s, "acme", Selection{Exchanges: []string{timeline.Data[2].Exchange.ID}})
			again := newConversation(t)
			beginShipping(t, again.s)
			again.session(byKey(1, 2, 3, 4, 6), text(7))
			carry(t, again.s, centre.s)
			centre.settle()
			timeline, err = centre.s.Archive().Timeline("acme", page.Data[0].ID, TimelineQuery{Descending: true})
			if err != nil || len(timeline.Data) != 3 || timeline.Data[0].Turn.Known != 4 {
				t.Errorf("another turn in the place of the last is %+v (%v)", timeline.Data, err)
			}
			mustBeSound(t, centre.s)
		})
	}
}

// Two turns end at once, the later one first. The base of their text is in the same commit.
func TestTurnsThatEndTogetherShowEachMessageOnce(t *testing.T) {
	question, answer, next := numbered("question", 1<<10), numbered("answer", 1<<10), numbered("next question", 1<<10)
	c := newConversation(t)
	var ended []*Capture
	for _, o := range []*Opening{say(question), say(question, answer, next)} {
		o.ChatKey = "k"
		capture, err := c.s.Begin(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if err := capture.Recorded(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := capture.Write([]byte(answer)); err != nil {
			t.Fatal(err)
		}
		ended = append(ended, capture)
	}

	began, goOn, results := make(chan struct{}), make(chan struct{}), make(chan error, 3)
	go func() {
		results <- c.s.update(t.Context(), func(*commitGroup, *operation) error { close(began); <-goOn; return nil })
	}()
	<-began
	for i, capture := range []*Capture{ended[1], ended[0]} {
		go func() { results <- capture.Finish(&Closing{Outcome: OutcomeComplete}) }()
		for deadline := time.Now().Add(timeout); c.s.Stats().Queued <= int64(i); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("the end of an exchange does not come to the writer")
			}
		}
	}
	close(goOn)
	for range cap(results) {
		if err := <-results; err != nil {
			t.Fatal(err)
		}
	}
	c.settle()
	want := strings.Join([]string{"0 u:" + question + " a:" + answer, "1 after 0 u:" + next + " a:" + answer}, "\n")
	if got := c.timeline(ended[0].SessionID()); got != want {
		t.Errorf("the timeline is\n%s\nnot\n%s", got, want)
	}
	mustBeSound(t, c.s)
}

// If the turn that a branch continues arrives late, there is still a branch: the late turn.
func TestALateTurnOfABranchIsABranch(t *testing.T) {
	centre := newConversation(t)
	var edges []*conversation
	for _, o := range []*Opening{say("1"), say("1", "2", "a"), say("1", "2", "b"), say("1", "2", "b", "4", "5")} {
		edge := newConversation(t)
		beginShipping(t, edge.s)
		o.ChatKey = "k"
		edge.session(o, map[bool]string{true: "2", false: "4"}[len(edges) == 0])
		edges = append(edges, edge)
	}
	for _, turn := range []int{0, 1, 3, 2} {
		carry(t, edges[turn].s, centre.s)
		centre.settle()
	}
	page, err := centre.s.Archive().Sessions("acme", SessionQuery{})
	if err != nil || len(page.Data) != 1 {
		t.Fatalf("the sessions are %+v (%v)", page.Data, err)
	}
	want := "0 u:1 a:2\n1 after 0 u:a a:4\n2 after 0 branch u:b a:4\n3 after 2 u:5 a:4"
	if got := centre.timeline(page.Data[0].ID); got != want {
		t.Errorf("the timeline is\n%s\nnot\n%s", got, want)
	}
	timeline, err := centre.s.Archive().Timeline("acme", page.Data[0].ID, TimelineQuery{})
	if err != nil || len(timeline.Data) != 4 || timeline.Data[0].Turn.Continued != timeline.Data[1].Exchange.ID {
		t.Errorf("another one goes on from the first: %+v (%v)", timeline.Data, err)
	}
	mustBeSound(t, centre.s)
}
