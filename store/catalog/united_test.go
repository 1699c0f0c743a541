package catalog_test

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/catalog/postgrestest"
	"github.com/mnemeproxy/mneme/store/engine"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/search"
	"github.com/mnemeproxy/mneme/store/ship"
	"github.com/mnemeproxy/mneme/store/storetest"
)

// gathering is a centre that edges ship a conversation to.
type gathering interface {
	arriving
	storetest.Reader
	storetest.Searcher
	storetest.Describer
	Export(ctx context.Context, account string, sel record.Selection) iter.Seq2[record.Exported, error]
}

// onEveryCentre runs a test with a centre of each kind.
func onEveryCentre(t *testing.T, test func(*testing.T, gathering)) {
	test(t, openCatalog(t, openEngine(t, 0), postgrestest.Shared(t).Memory(t)))
}

// conversation is one that has no id but those of its answers, which are the provider's own. Its turns are spread over edges.
type conversation struct {
	t      *testing.T
	edges  []*engine.Engine
	frames [][]ship.Frame // of each edge, of one turn each
	sent   []uint64       // of each edge, the last entry in a frame
	ids    []string       // of all turns
}

func converse(t *testing.T, edges int) *conversation {
	t.Helper()
	c := &conversation{t: t, frames: make([][]ship.Frame, edges), sent: make([]uint64, edges)}
	for n := range edges {
		c.edges = append(c.edges, openEngine(t, uint16(n+1)))
		check(t, c.edges[n].Shipping().Begin(t.Context()))
	}
	return c
}

// turn has an edge record a turn that continues an answer; "": none.
func (c *conversation) turn(edge int, continues, answer string, o record.Opening) *ship.Frame {
	c.t.Helper()
	o.Account, o.Surface, o.Format, o.ModelAsked, o.ContentType = "acme", codec.Responses, codec.Responses, "m", "application/json"
	o.PreviousResponse, o.Body = continues, fmt.Appendf(nil, `{"model":"m","input":"question for %s"}`, answer)
	r, err := c.edges[edge].Begin(c.t.Context(), &o)
	check(c.t, err)
	_, err = fmt.Fprintf(r, `{"id":%q,"object":"response","status":"completed","output":[{"type":"message","role":"assistant","content":[{"type":"output_text","text":"said in %s"}]}]}`, answer, answer)
	check(c.t, err)
	check(c.t, r.Finish(&record.Closing{Outcome: record.OutcomeComplete, Status: 200, ResponseID: answer, LastByte: time.Now()}))
	f, err := c.edges[edge].Shipping().Next(c.t.Context(), c.sent[edge])
	check(c.t, err)
	c.sent[edge] = f.Last
	c.frames[edge], c.ids = append(c.frames[edge], f), append(c.ids, r.ID())
	return &c.frames[edge][len(c.frames[edge])-1]
}

func sessionsOf(t *testing.T, centre gathering) []record.Session {
	t.Helper()
	page, err := centre.Sessions("acme", record.SessionQuery{Limit: 100})
	check(t, err)
	return slices.DeleteFunc(page.Data, func(s record.Session) bool { return s.Merged != "" })
}

func take(t *testing.T, centre gathering, f *ship.Frame) {
	t.Helper()
	taken, err := centre.Take(t.Context(), f, noneAside)
	if err != nil || !taken {
		t.Fatalf("a frame is taken: %v (%v)", taken, err)
	}
}

func TestAnAnswerThatArrivesAfterItsContinuationJoinsTheTwo(t *testing.T) {
	onEveryCentre(t, func(t *testing.T, centre gathering) {
		c := converse(t, 2)
		take(t, centre, c.turn(0, "", "resp_one", record.Opening{}))
		late := c.turn(0, "resp_one", "resp_two", record.Opening{})
		take(t, centre, c.turn(1, "resp_two", "resp_three", record.Opening{}))
		take(t, centre, c.turn(1, "resp_three", "resp_four", record.Opening{}))
		apart := sessionsOf(t, centre)
		if len(apart) != 2 {
			t.Fatalf("before the answer arrives there are %d sessions, want 2", len(apart))
		}
		first, err := centre.ExchangeInfo("acme", c.ids[0])
		check(t, err)
		rest, err := centre.ExchangeInfo("acme", c.ids[2])
		check(t, err)
		title, note, further := "the title", "a note", "another note"
		_, err = centre.DescribeSession("acme", first.Session, record.Description{Tags: []string{"a"}, Note: &note})
		check(t, err)
		_, err = centre.DescribeSession("acme", rest.Session, record.Description{Title: &title, Tags: []string{"a", "b"}, Note: &further})
		check(t, err)

		take(t, centre, late)
		if taken, err := centre.Take(t.Context(), late, noneAside); taken || err != nil {
			t.Errorf("the answer is taken twice: %v (%v)", taken, err)
		}
		check(t, centre.Retry(t.Context(), &late.Entries[0]))
		take(t, centre, c.turn(1, "resp_four", "resp_five", record.Opening{}))

		check(t, centre.Wait(t.Context(), "acme"))
		joined := sessionsOf(t, centre)
		if len(joined) != 1 {
			t.Fatalf("one conversation is %d sessions", len(joined))
		}
		s := &joined[0]
		if s.ID != first.Session || s.Exchanges != 5 || s.Completed != 5 {
			t.Errorf("it is session %s of %d exchanges, %d of them complete; want %s with 5", s.ID, s.Exchanges, s.Completed, first.Session)
		}
		if s.Title != title || !slices.Equal(s.Tags, []string{"a", "b"}) || s.Note != note+"\n"+further {
			t.Errorf("of what people wrote about it %q, %q, %q is left", s.Title, s.Tags, s.Note)
		}
		if s, err := centre.Session("acme", rest.Session); err != nil || s.Merged != first.Session || s.Exchanges != 0 {
			t.Errorf("the other session is %+v (%v)", s, err)
		}
		timeline, err := centre.Timeline("acme", s.ID, record.TimelineQuery{Limit: 100})
		check(t, err)
		var turns []string
		for i := range timeline.Data {
			if turns = append(turns, timeline.Data[i].Exchange.ID); timeline.Data[i].Turn == nil {
				t.Errorf("%s is not digested", turns[i])
			}
		}
		if !slices.Equal(turns, c.ids) {
			t.Errorf("its turns are %q, want %q", turns, c.ids)
		}
		answer, err := centre.Search(t.Context(), "acme", &search.Request{Query: "resp_three", Mode: search.Lexical})
		check(t, err)
		if len(answer.Data) == 0 || slices.ContainsFunc(answer.Data, func(h search.Hit) bool { return h.Session != s.ID }) {
			t.Errorf("a search finds %+v", answer.Data)
		}

		of := record.Selection{Sessions: []string{rest.Session}}
		if page, err := centre.Timeline("acme", rest.Session, record.TimelineQuery{Limit: 100}); err != nil || len(page.Data) != 5 {
			t.Errorf("the id of the other session leads to %d exchanges (%v)", len(page.Data), err)
		}
		var exported []string
		for e, err := range centre.Export(t.Context(), "acme", of) {
			check(t, err)
			if e.Session != nil {
				exported = append(exported, e.Session.ID)
			} else {
				exported = append(exported, e.Exchange.ID)
			}
		}
		if !slices.Equal(exported, append([]string{s.ID}, c.ids...)) {
			t.Errorf("by that id %q are exported", exported)
		}
		if dry, err := centre.Erase(t.Context(), "acme", of, true); err != nil || dry.Exchanges != 5 || dry.Sessions != 1 {
			t.Errorf("by that id %+v would be erased (%v)", dry, err)
		}
		receipt := erased(t, centre, rest.Session, 5)
		if !slices.Equal(receipt.Selection.Sessions, []string{rest.Session, s.ID}) {
			t.Errorf("the receipt names the sessions %q", receipt.Selection.Sessions)
		}
		for _, log := range c.frames {
			for i := range log {
				check(t, centre.Retry(t.Context(), &log[i].Entries[0]))
			}
		}
		if page, err := centre.Exchanges("acme", record.ExchangeQuery{}); err != nil || len(page.Data) > 0 {
			t.Errorf("of what was erased %d exchanges are there (%v)", len(page.Data), err)
		}
	})
}

// erased erases a session with that many exchanges.
func erased(t *testing.T, centre gathering, session string, exchanges int64) *record.Erasure {
	t.Helper()
	receipt, err := centre.Erase(t.Context(), "acme", record.Selection{Sessions: []string{session}}, false)
	check(t, err)
	eventually(t, "the erasure is done", func() bool {
		receipt, err = centre.Erasure("acme", receipt.ID)
		return err != nil || receipt.State == record.ErasureDone
	})
	if err != nil || receipt.Exchanges != exchanges {
		t.Errorf("the receipt is %+v, want %d exchanges (%v)", receipt, exchanges, err)
	}
	return receipt
}

// Each edge ships in order; between edges there is none.
func TestAConversationOverManyEdgesIsOneSessionInWhateverOrderItArrives(t *testing.T) {
	const edges, turns, orders = 3, 9, 20
	onEveryCentre(t, func(t *testing.T, centre gathering) {
		random := rand.New(rand.NewPCG(1, 2))
		c := converse(t, edges)
		for order := range orders {
			edge, before := 0, ""
			for n := range turns {
				answer := fmt.Sprintf("resp_%d_%d", order, n)
				c.turn(edge, before, answer, record.Opening{})
				edge, before = random.IntN(edges), answer
			}
			for range turns {
				n := random.IntN(edges)
				for len(c.frames[n]) == 0 {
					n = (n + 1) % edges
				}
				take(t, centre, &c.frames[n][0])
				c.frames[n] = c.frames[n][1:]
			}
		}
		found := sessionsOf(t, centre)
		for i := range found {
			if found[i].Exchanges != turns || found[i].Completed != turns {
				t.Errorf("a session has %d turns, %d of them complete, want %d", found[i].Exchanges, found[i].Completed, turns)
			}
		}
		if len(found) != orders {
			t.Errorf("%d conversations are %d sessions", orders, len(found))
		}
	})
}

func TestConversationsThatAreNotOneStayApart(t *testing.T) {
	for name, test := range map[string]func(*testing.T, gathering, *conversation){
		"each has a chat key of its own": func(t *testing.T, centre gathering, c *conversation) {
			take(t, centre, c.turn(0, "", "resp_one", record.Opening{ChatKey: "a"}))
			late := c.turn(0, "resp_one", "resp_two", record.Opening{ChatKey: "a"})
			take(t, centre, c.turn(1, "resp_two", "resp_three", record.Opening{}))
			take(t, centre, c.turn(1, "resp_three", "resp_four", record.Opening{ChatKey: "b"}))
			take(t, centre, late)
		},
		"a provider gives all answers one id": func(t *testing.T, centre gathering, c *conversation) {
			take(t, centre, c.turn(0, "same", "same", record.Opening{}))
			take(t, centre, c.turn(1, "", "same", record.Opening{}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			onEveryCentre(t, func(t *testing.T, centre gathering) {
				test(t, centre, converse(t, 2))
				if found := sessionsOf(t, centre); len(found) != 2 {
					t.Errorf("they are %d sessions: %+v", len(found), found)
				}
			})
		})
	}
}

// A worker completes no receipts, so that the erasure lasts.
func TestASessionThatIsBeingErasedGetsNothingOfAnother(t *testing.T) {
	url := postgrestest.Shared(t).Memory(t)
	openCatalog(t, openEngine(t, 0), url).Close()
	worker := openWorker(t, url)
	c := converse(t, 2)
	take(t, worker, c.turn(0, "", "resp_one", record.Opening{}))
	take(t, worker, c.turn(1, "resp_two", "resp_three", record.Opening{}))
	first, err := worker.ExchangeInfo("acme", c.ids[0])
	check(t, err)
	receipt, err := worker.Erase(t.Context(), "acme", record.Selection{Sessions: []string{first.Session}}, false)
	check(t, err)
	announced(t, url)
	eventually(t, "the session is gone", func() bool { return len(sessionsOf(t, worker)) == 1 })

	// What begins after the erasure is kept.
	take(t, worker, c.turn(0, "resp_one", "resp_again", record.Opening{}))
	take(t, worker, c.turn(0, "resp_again", "resp_two", record.Opening{}))
	if found := sessionsOf(t, worker); len(found) != 2 {
		t.Errorf("they are %d sessions: %+v", len(found), found)
	}

	rest, err := worker.ExchangeInfo("acme", c.ids[1])
	check(t, err)
	for _, move := range []func() (*record.Session, error){
		func() (*record.Session, error) {
			return worker.MergeSession(t.Context(), "acme", first.Session, rest.Session)
		},
		func() (*record.Session, error) {
			return worker.MergeSession(t.Context(), "acme", rest.Session, first.Session)
		},
		func() (*record.Session, error) {
			return worker.SplitSession(t.Context(), "acme", first.Session, c.ids[3])
		},
	} {
		if s, err := move(); codec.AsError(err, "").Kind != codec.KindConflict || !strings.Contains(err.Error(), first.Session+" is being erased") {
			t.Errorf("by hand, it becomes %+v (%v)", s, err)
		}
	}
	if receipt, err = worker.Erasure("acme", receipt.ID); err != nil || receipt.State == record.ErasureDone {
		t.Errorf("the erasure was over: %+v (%v)", receipt, err)
	}
}
