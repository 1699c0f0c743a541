package search

import (
	"slices"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/search/lexical"
)

// ran is an exchange in which a tool ran.
func ran(user, command, output, assistant string) script {
	s := talk(user, assistant)
	s.Messages = append(s.Messages,
		record.Message{Role: "assistant", Parts: []record.Part{{Kind: "call", Name: "Bash", Arguments: `{"command":"` + command + `"}`}}},
		record.Message{Role: "tool", Parts: []record.Part{{Kind: "result", Text: output}}})
	return s
}

func TestWordsOfToolOutputFindTheirTurn(t *testing.T) {
	m := openMemory(t, t.TempDir())
	deploy := m.capture("acme", ran("Run the deploy script.", "./deploy.sh staging", "helm upgrade failed: connection refused", "I will look into it."))
	said := m.capture("acme", talk("Why is a connection refused at times?", "Nobody listens on the port, or a firewall refuses the connection."))
	m.wantFound("acme", "helm upgrade failed", deploy)
	m.wantFound("acme", "deploy staging", deploy)
	m.wantFound("acme", "connection refused", said, deploy)
	m.wantFound("acme", "output:refused", deploy)
	m.wantFound("acme", `+"connection refused" +helm`, deploy)
	killed := m.capture("acme", ran("Build it.", "make", "process exited with status 137 after 20 s", "It ran out of memory."))
	m.capture("acme", ran("Once more.", "make", "process exited with status 1 after 137 s", "That is something else."))
	m.wantFound("acme", `"exited with status 137"`, killed)
	m.wantFound("acme", `output:"status 137"`, killed)
	if hit := m.search("acme", Request{Query: "helm"}).Data[0]; hit.Role != "tool" || hit.Snippet == "" || len(hit.Highlights) == 0 {
		t.Errorf("the hit shows %q of %s", hit.Snippet, hit.Role)
	}
}

func TestToolsAndClientsAreFoundByAnyOfTheirNames(t *testing.T) {
	m := openMemory(t, t.TempDir())
	id := m.capture("acme", ran("Run it.", "ls", "a.go", "Done."), func(o *record.Opening) {
		o.Header = []record.HeaderField{{Name: "User-Agent", Value: "claude-cli/2.1.328 (external, cli)"}}
	})
	for _, query := range []string{"tool:Bash", "tool:bash", "tool:BASH", "client:claude-code", "client:claude-cli", "client:Claude", "client:claude*"} {
		m.wantFound("acme", query, id)
	}
	for _, f := range []Filter{
		{Field: "tool", Op: "eq", Value: "bash"},
		{Field: "client", Op: "eq", Value: "claude-cli"},
		{And: []Filter{{Field: "client", Op: "eq", Value: "Claude"}, {Field: "time", Op: "lt", Value: time.Now().Add(time.Hour).Format(time.RFC3339)}}},
	} {
		if got := exchangesOf(m.search("acme", Request{Query: "done", Filter: f})); !slices.Equal(got, []string{id}) {
			t.Errorf("%+v finds %v, want %s", f, got, id)
		}
	}
	facets := m.search("acme", Request{Query: "done", Facets: true}).Facets
	if !slices.Equal(facets["tool"], []lexical.FacetValue{{Value: "bash", Count: 1}}) || !slices.Equal(facets["client"], []lexical.FacetValue{{Value: "claude-code", Count: 1}}) {
		t.Errorf("the facets are %v", facets)
	}
}

// A caller can tell an answer from the best of what is there.
func TestHitsSayHowGoodTheyAre(t *testing.T) {
	m := openMemory(t, t.TempDir())
	m.capture("acme", talk("Why does the nightly run fail with E4711?", "The lock in pkg/lock/wait.go times out."))
	for _, other := range []string{"the weather is fine", "a run in the park", "the door is open"} {
		m.capture("acme", talk(other, "so it is"))
	}
	good := m.search("acme", Request{Query: "which lock makes the nightly run fail with E4711"}).Data[0]
	poor := m.search("acme", Request{Query: "how do I run the migration of the billing database"}).Data[0]
	if good.Score != 1 || poor.Score != 1 {
		t.Errorf("the scores of first hits are %v and %v, want 1", good.Score, poor.Score)
	}
	if good.Coverage < 0.6 || poor.Coverage > 0.3 || good.Relevance < 3*poor.Relevance {
		t.Errorf("the right hit has coverage %.2f and relevance %.2f, the wrong one %.2f and %.2f", good.Coverage, good.Relevance, poor.Coverage, poor.Relevance)
	}
}

// speller is an embedder that says of itself that it compares spelling.
type speller struct{ *speaker }

func (speller) Spells() {}

// Turns that are only spelled like the query come after all hits by words, and only where these are few.
func TestSpellingJoinsOnlyWhereWordsFindTooLittle(t *testing.T) {
	m := openMemoryWith(t, t.TempDir(), Options{Embedder: speller{newSpeaker("speaker/1", 1024)}})
	m.chatter("acme", 20)
	alike := m.capture("acme", talk("my car is broken", "bring the car to the garage"))
	held := m.capture("acme", talk("what does automobile mean", "it is a word of Greek and Latin"))
	answer := m.search("acme", Request{Query: "automobile"})
	if got := exchangesOf(answer); len(got) < 2 || got[0] != held || got[1] != alike {
		t.Fatalf("found %v, want %s and then %s", got, held, alike)
	}
	if first, second := answer.Data[0], answer.Data[1]; first.Match != "" || second.Match != matchLikeness || second.Score >= first.Score || answer.ModeUsed != Hybrid {
		t.Errorf("the hits are %+v and %+v, by %s", first, second, answer.ModeUsed)
	}
	if got := m.search("acme", Request{Query: "automobile", Limit: 1}); len(got.Data) != 1 || got.Data[0].Match != "" {
		t.Errorf("where words find enough there is %+v", got.Data)
	}
	if got := m.search("acme", Request{Query: "zygote"}); len(got.Data) != 0 {
		t.Errorf("what nothing is like finds %+v", got.Data)
	}
}

func TestWithoutAQueryTheNewestTurnsAreListed(t *testing.T) {
	m := openMemory(t, t.TempDir())
	var want []string
	for i := range 5 {
		id := m.capture("acme", talk("the lock", "so it is"), func(o *record.Opening) { o.Started = time.Now().Add(time.Duration(i-10) * time.Hour) })
		want = append([]string{id}, want...)
	}
	m.capture("globex", talk("the lock", "so it is"))
	list := func(r Request) (ids []string) {
		for _, h := range m.search("acme", r).Data {
			ids = append(append(ids, h.Exchange), h.Duplicates...)
		}
		return ids
	}
	if got := list(Request{Newest: true}); !slices.Equal(got, want) {
		t.Errorf("listed %v, want %v", got, want)
	}
	if got := list(Request{Since: "8h"}); !slices.Equal(got, want[:2]) {
		t.Errorf("of the last eight hours there are %v, want %v", got, want[:2])
	}
	if _, err := m.ask("acme", Request{Query: "lock", Until: "soon"}); err == nil {
		t.Error("a bound that is no time is taken")
	}
}

func TestATimeThatAQuestionNamesCounts(t *testing.T) {
	m := openMemory(t, t.TempDir())
	old := m.capture("acme", talk("the deploy failed", "look at the certificate"), func(o *record.Opening) { o.Started = time.Now().AddDate(0, -2, 0) })
	fresh := m.capture("acme", talk("the deploy failed today", "look at the certificate"))
	m.wantFound("acme", "deploy certificate", old, fresh)
	m.wantFound("acme", "deploy certificate of "+time.Now().UTC().AddDate(0, -2, 0).Format("2006-01"), old, fresh)
	m.wantFound("acme", "deploy certificate of "+time.Now().UTC().Format("2006-01"), fresh, old)
}

// The session in which most was said about it comes first, also where its first words are about something else.
func TestSessionsAreRankedByTheirTurns(t *testing.T) {
	m := openMemory(t, t.TempDir())
	long := "Let me begin with something else that has nothing to do with it and goes on for a while, so that no summary of the first sentence could hold what comes much later in the very same turn of this talk, namely this: "
	deep, _ := m.said("acme", "one", talk("hello there", "hello"), talk(long+"the certificate of the gateway expired.", "I renewed the certificate of the gateway."))
	shallow, _ := m.said("acme", "two", talk("is there a certificate for swimming?", "there is"), talk("thanks", "you are welcome"))
	m.wantSessions("acme", "expired certificate gateway", deep, shallow)
	hit := m.search("acme", Request{Query: "expired certificate gateway", Granularity: Sessions, Explain: true}).Data[0]
	if hit.Coverage != 1 || len(hit.Highlights) == 0 {
		t.Errorf("the hit has coverage %v and shows %q", hit.Coverage, hit.Snippet)
	}
	if hit.Scores.Lexical != 1 || hit.Scores.BM25 <= 0 {
		t.Errorf("the parts of its score are %+v, want the best by words", hit.Scores)
	}
}
