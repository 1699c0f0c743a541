package catalog_test

import (
	"slices"
	"testing"

	"github.com/mnemeproxy/mneme/store/catalog"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/search"
)

// find returns the sessions of the account that a search finds.
func (s *summarized) find(in *catalog.Catalog, r *search.Request) (sessions []string) {
	s.t.Helper()
	r.Granularity = search.Sessions
	answer, err := in.Search(s.t.Context(), "acme", r)
	check(s.t, err)
	for i := range answer.Data {
		sessions = append(sessions, answer.Data[i].Session)
	}
	return sessions
}

func (s *summarized) describe(session, title string, tags ...string) {
	s.t.Helper()
	_, err := s.centre.DescribeSession("acme", session, record.Description{Title: &title, Tags: tags})
	check(s.t, err)
}

func byTag(tag string) *search.Request {
	return &search.Request{Filter: search.Filter{Field: "tag", Op: "eq", Value: tag}}
}

// The turns of a search without words are the newest ones. A session with a tag may be older than all of them.
func foundByTag(t *testing.T, s *summarized) {
	_, tagged := s.say("a", "question")
	s.describe(tagged, "", "q3")
	newer, _ := s.say("b", "another question")
	_, err := s.db.Exec(t.Context(), `insert into mneme.turns
		select account, exchange || n, began, terms, record from mneme.turns, generate_series(1, 2000) n where exchange = $1`, newer)
	check(t, err)
	if found := s.find(s.centre, byTag("q3")); !slices.Equal(found, []string{tagged}) {
		t.Errorf("%v are found by the tag of %s", found, tagged)
	}
}

// The words by which a session is found go with it, and with what they were in.
func notFoundByWhatIsGone(t *testing.T, s *summarized) {
	first, session := s.say("a", "question")
	second, other := s.say("b", "another question")
	check(t, catalog.SummariesOf(s.centre).ConfirmSummarized(t.Context(), s.waiting(s.centre)[0]))
	s.summarize(other, "They repaired the kumquat.", second)
	s.describe(session, "The lantern")
	lantern, kumquat := &search.Request{Query: "lantern"}, &search.Request{Query: "kumquat"}
	if found := s.find(s.centre, lantern); !slices.Equal(found, []string{session}) {
		t.Errorf("%v are found by the title of %s", found, session)
	}
	if found := s.find(s.centre, kumquat); !slices.Equal(found, []string{other}) {
		t.Errorf("%v are found by the summary of %s", found, other)
	}
	s.erase(record.Selection{Exchanges: []string{first, second}})
	if found := append(s.find(s.centre, lantern), s.find(s.centre, kumquat)...); len(found) > 0 {
		t.Errorf("%v are found", found)
	}
	var left int
	check(t, s.db.QueryRow(t.Context(), "select (select count(*) from mneme.named) + (select count(*) from mneme.summaries)").Scan(&left))
	if left != 0 {
		t.Errorf("the words of %d erased sessions are left", left)
	}
}

// Sessions whose words are stored again are found by their titles and tags once all are stored.
func foundByTitlesMadeAgain(t *testing.T, s *summarized) {
	_, session := s.say("a", "question")
	s.describe(session, "The lantern", "q3")
	_, err := s.db.Exec(t.Context(), "truncate mneme.named")
	check(t, err)
	check(t, s.centre.Rebuild(t.Context()))
	eventually(t, "it is found by its title and its tag", func() bool {
		return slices.Equal(s.find(s.centre, &search.Request{Query: "lantern"}), []string{session}) && slices.Equal(s.find(s.centre, byTag("q3")), []string{session})
	})
}
