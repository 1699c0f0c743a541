package catalog_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/catalog/postgrestest"
	"github.com/mnemeproxy/mneme/store/engine"
	"github.com/mnemeproxy/mneme/store/record"
)

// Three turns of one conversation, each at an edge of its own, arrive in any order.
func TestTurnsThatArriveInAnyOrderShowTheConversation(t *testing.T) {
	server := postgrestest.Shared(t)
	for name, requests := range map[string][][]string{
		"questions and answers":            {{"u:0"}, {"u:0", "a:0", "u:1"}, {"u:0", "a:0", "u:1", "a:1", "u:2"}},
		"system messages that come and go": {{"u:0", "s:environment"}, {"u:0", "s:environment", "a:0", "u:1"}, {"s:a", "s:b", "u:0", "a:0", "u:1", "a:1", "u:2"}},
	} {
		for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
			t.Run(fmt.Sprint(name, order), func(t *testing.T) {
				centre := openCatalog(t, openEngine(t, 0), server.Memory(t))
				edges := converse(t, len(requests)).edges
				for turn, e := range edges {
					askAll(t, e, requests[turn], fmt.Sprint("a:", turn))
				}
				for _, turn := range order {
					f, err := edges[turn].Shipping().Next(t.Context(), 0)
					check(t, err)
					take(t, centre, &f)
					check(t, centre.Wait(t.Context(), "acme"))
				}
				sessions := sessionsOf(t, centre)
				if len(sessions) != 1 {
					t.Fatalf("the sessions are %+v", sessions)
				}
				timeline, err := centre.Timeline("acme", sessions[0].ID, record.TimelineQuery{})
				check(t, err)
				before := ""
				for i, e := range timeline.Data {
					var said []string
					for _, m := range e.Turn.Messages {
						if m.Role == "user" {
							said = append(said, m.Parts[0].Text)
						}
					}
					if !slices.Equal(said, []string{fmt.Sprint("u:", i)}) || e.Turn.Parent != before || e.Turn.Branch {
						t.Errorf("turn %d says %q and goes on from %q, branch %v", i, said, e.Turn.Parent, e.Turn.Branch)
					}
					before = e.Exchange.ID
				}
				if len(timeline.Data) != len(requests) {
					t.Errorf("the timeline is %+v", timeline.Data)
				}
			})
		}
	}
}

// askAll puts a turn on record whose request has messages, each named by the first letter of its role.
func askAll(t *testing.T, e *engine.Engine, messages []string, answer string) {
	t.Helper()
	roles := map[byte]string{'u': "user", 'a': "assistant", 's': "system"}
	var said []string
	for _, m := range messages {
		said = append(said, fmt.Sprintf(`{"role":%q,"content":%q}`, roles[m[0]], m))
	}
	r, err := e.Begin(t.Context(), &record.Opening{
		Account: "acme", Surface: codec.Chat, Format: codec.Chat, ModelAsked: "m", ChatKey: "k", ContentType: "application/json",
		Body: []byte(`{"model":"m","messages":[` + strings.Join(said, ",") + `]}`),
	})
	check(t, err)
	_, err = fmt.Fprintf(r, `{"choices":[{"message":{"role":"assistant","content":%q}}]}`, answer)
	check(t, err)
	check(t, r.Finish(&record.Closing{Outcome: record.OutcomeComplete, Status: 200}))
}
