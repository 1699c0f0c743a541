package store

import (
	"fmt"
	"testing"
)

// A conversation goes over three edges, whose turns arrive in any order: the centre shows it as one that was never interrupted.
func TestTurnsThatArriveOutOfTheirOrderShowEachMessageOnce(t *testing.T) {
	byKey := func(messages ...string) *Opening { return with(say(messages...), func(o *Opening) { o.ChatKey = "k" }) }
	for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		t.Run(fmt.Sprint(order), func(t *testing.T) {
			centre := newConversation(t)
			var edges []*conversation
			for turn, o := range []*Opening{byKey("1"), byKey("1", "2", "3"), byKey("1", "2", "3", "4", "5")} {
				edge := newConversation(t)
				beginShipping(t, edge.s)
				edge.session(o, fmt.Sprint(2*turn+2))
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
				asked, before, behind := fmt.Sprint(2*i+1), "", ""
				if i > 0 {
					before = timeline.Data[i-1].Exchange.ID
				}
				if i+1 < len(timeline.Data) {
					behind = timeline.Data[i+1].Exchange.ID
				}
				if len(e.Turn.Messages) != 1 || e.Turn.Messages[0].Parts[0].Text != asked || e.Turn.Known != 2*i {
					t.Errorf("turn %d shows %+v, and knows %d", i, e.Turn.Messages, e.Turn.Known)
				}
				if e.Turn.Parent != before || e.Turn.Continued != behind || e.Turn.Branch {
					t.Errorf("turn %d goes on from %q and is continued by %q, branch %v", i, e.Turn.Parent, e.Turn.Continued, e.Turn.Branch)
				}
			}
			mustBeSound(t, centre.s)

			// What is erased takes nothing with it that others need.
			erase(t, centre.s, "acme", Selection{Exchanges: []string{timeline.Data[2].Exchange.ID}})
			again := newConversation(t)
			beginShipping(t, again.s)
			again.session(byKey("1", "2", "3", "4", "6"), "7")
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
