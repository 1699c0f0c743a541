package store

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/internal/recording"
	"github.com/mnemeproxy/mneme/store/internal/turns"
	"github.com/mnemeproxy/mneme/store/record"
)

// The text of an exchange is in its request and its answer. Its turn only refers to it.
func TestATurnDoesNotRepeatTheTextOfItsExchange(t *testing.T) {
	const question = "Which lease was lost?\nThe log says: \"shard 7, holder paused\"\tand nothing else.\n"
	const answer = "That of shard 7: its holder was paused by the collector for eleven seconds, while a lease lasts ten."
	c := newConversation(t)
	key := func(o *record.Opening) *record.Opening { o.ChatKey = "k"; return o }
	first, session := c.exchange(key(say(question)), record.OutcomeComplete, answer)
	second, _ := c.exchange(key(say(question, answer, "And who has it now, after that one came back and asked?")), record.OutcomeComplete, answer+" Now shard 9 has it.")
	c.exchange(key(say(question, answer, "A branch: who else had asked for it in these eleven seconds?")), record.OutcomeComplete, "Nobody else, "+answer)
	want := c.timeline(session)
	for _, id := range []string{first, second} {
		_, value := turnValue(t, c.s, id)
		if text := strings.Fields("lease shard holder collector paused nobody"); containsAny(value, text) {
			t.Errorf("the turn of %s repeats words: %q", id, value)
		}
	}
	for _, text := range []string{question, answer, "who has it now", "shard 9", "A branch"} {
		if !strings.Contains(want, text) {
			t.Errorf("the timeline does not say %q: %s", text, want)
		}
	}
	c.reopen(Options{Dir: c.s.opts.Dir, Digest: digestTest})
	if got := c.timeline(session); got != want {
		t.Errorf("after another start the timeline is\n%s\nnot\n%s", got, want)
	}
	mustBeSound(t, c.s)
}

func containsAny(value []byte, words []string) bool {
	for _, word := range words {
		if strings.Contains(string(value), word) {
			return true
		}
	}
	return false
}

// A request that is too large to be read with each turn, and an answer in several parts, leave the text in the turn.
func TestTheTextOfALargeExchangeIsComplete(t *testing.T) {
	c := newConversation(t)
	for _, size := range []int{record.MaxSource / 2, record.MaxSource, 2 * record.MaxSource, 2 * recording.PartSize} {
		question, answer := numbered("question", size), numbered("answer", size)
		_, session := c.exchange(with(say(question), func(o *record.Opening) { o.ChatKey = fmt.Sprint(size) }), record.OutcomeComplete, answer)
		if got, want := c.timeline(session), "0 u:"+question+" a:"+answer; got != want {
			t.Errorf("of %d bytes the timeline has %d, want %d", size, len(got), len(want))
		}
	}
	mustBeSound(t, c.s)
}

// An agent sends its whole history with every request. The turn refers to what is new in it, whether the request was in
// memory or is read back.
func TestATurnOfALargeRequestDoesNotRepeatWhatIsNewInIt(t *testing.T) {
	var read atomic.Int64
	c := &talk{t, openStore(t, Options{Digest: digestUnread(&read)})}
	mustAccount(t, c.s, "acme")
	c.idle()
	text := func(n int) string {
		words := make([]byte, 0, 2<<10)
		for i := range 64 {
			sum := sha256.Sum256(fmt.Append(nil, n, i)) // else compression alone would make it small
			words = fmt.Appendf(words, " said %x", sum[:12])
		}
		return string(words)
	}
	said := []string{numbered("instructions", 2*record.MaxSource)}
	session, want := "", ""
	for i := range 4 {
		if i == 2 {
			c.s.digester.Held.Add(turns.KeptTotal / 2) // no room for a large request
		}
		before := read.Load()
		id, joined := c.exchange(longOpening("k", said...), record.OutcomeComplete, text(2*i))
		if messages := read.Load() - before; i == 3 && messages > 4 {
			t.Errorf("of a request that goes on from one that was read back %d messages were read", messages)
		}
		if _, value := turnValue(t, c.s, id); i > 0 && len(value) > 300 {
			t.Errorf("turn %d takes %d bytes: %q", i, len(value), value)
		}
		if session = joined; i > 0 {
			want += fmt.Sprintf("\n%d after %d u:%s a:%s", i, i-1, said[len(said)-1], text(2*i))
		}
		said = append(said, text(2*i), text(2*i+1))
	}
	if got := c.timeline(session); !strings.HasSuffix(got, want) {
		t.Errorf("the timeline says %s, want %s", got, want)
	}
	mustBeSound(t, c.s)
	c.reopen(Options{Dir: c.s.opts.Dir, Digest: digestTest})
	if again := c.timeline(session); !strings.HasSuffix(again, want) {
		t.Errorf("after another start it says %s, want %s", again, want)
	}
}

func numbered(word string, size int) string {
	var b strings.Builder
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, "%s %d\n", word, i)
	}
	return b.String()
}

// The text of a turn is lost with the answer that has it. The check finds both, and the rest is served.
func TestATurnWhoseAnswerIsDamagedIsFound(t *testing.T) {
	c := newConversation(t)
	answer := numbered("it is said in the answer", 500)
	id, session := c.exchange(with(say("hi"), func(o *record.Opening) { o.ChatKey = "k" }), record.OutcomeComplete, answer)
	_, other := c.exchange(with(say("hello"), func(o *record.Opening) { o.ChatKey = "l" }), record.OutcomeComplete, answer)
	_, replace := kept(t, c.s, kv.SpaceResponse, id)
	replace(t, []byte{0, 'x'})
	page, err := c.s.Archive().Timeline("acme", session, record.TimelineQuery{})
	if err != nil || len(page.Data) != 1 || page.Data[0].Turn == nil || page.Data[0].Turn.Error == "" {
		t.Errorf("the timeline is %+v (%v)", page.Data, err)
	}
	if got := c.timeline(other); got != "0 u:hello a:"+answer {
		t.Errorf("the other session says %s", got)
	}
	var problems []string
	if _, err := c.s.Upkeep().Check(t.Context(), false, func(f Finding) {
		if f.Subject == id {
			problems = append(problems, f.Problem)
		}
	}); err != nil {
		t.Fatal(err)
	}
	if found := strings.Join(problems, "; "); !strings.Contains(found, "its turn cannot be read") {
		t.Errorf("the check finds %q of it", found)
	}
}

// A repair does not remove a turn that cannot be digested again: it is readable again when its request is.
func TestATurnSurvivesDamageToItsRequest(t *testing.T) {
	c := newConversation(t)
	id, session := c.exchange(with(say(numbered("question", 1<<10)), func(o *record.Opening) { o.ChatKey = "k" }), record.OutcomeComplete, numbered("answer", 1<<10))
	want := c.timeline(session)
	number, _ := c.s.accounts.Find("acme")
	exchange, _ := kv.ParseExchangeID(id)
	key := kv.ExchangeKey(kv.SpaceRequest, number, exchange)
	var skeleton []byte
	if err := c.s.db.View(func(tx *badger.Txn) (err error) {
		skeleton, err = kv.Get(tx, key)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	damage(t, c.s, key, []byte("damaged"))
	report, err := c.s.Upkeep().Check(t.Context(), true, func(Finding) {})
	if err != nil || report.Findings < 2 {
		t.Errorf("the check finds %+v (%v)", report, err)
	}
	c.settle()
	page, err := c.s.Archive().Timeline("acme", session, record.TimelineQuery{})
	if err != nil || len(page.Data) != 1 || page.Data[0].Turn == nil || !strings.Contains(page.Data[0].Turn.Error, "is damaged") {
		t.Errorf("the timeline is %+v (%v)", page.Data, err)
	}
	damage(t, c.s, key, skeleton)
	if got := c.timeline(session); got != want {
		t.Errorf("with its request the timeline is\n%s\nnot\n%s", got, want)
	}
	mustBeSound(t, c.s)
}

// Wherever an exchange is moved, with or without its neighbors, its turn can be read.
func TestTheTextOfATurnMovesWithItsExchange(t *testing.T) {
	c := newConversation(t)
	key := func(k string) func(o *record.Opening) { return func(o *record.Opening) { o.ChatKey = k } }
	text := func(n int) string { return numbered(fmt.Sprintf("message %d, line", n), 1<<10) }
	first, session := c.exchange(with(say(text(1)), key("k")), record.OutcomeComplete, text(2))
	second, _ := c.exchange(with(say(text(1), text(2), text(3)), key("k")), record.OutcomeComplete, text(4))
	c.exchange(with(say(text(1), text(2), text(3), text(4), text(5)), key("k")), record.OutcomeComplete, text(6))
	_, other := c.exchange(with(say(text(7)), key("l")), record.OutcomeComplete, text(8))

	reads := func(when string, s *Store, messages ...int) {
		t.Helper()
		in := &talk{t, s}
		in.settle()
		page, err := s.Archive().Sessions("acme", record.SessionQuery{})
		if err != nil {
			t.Fatal(err)
		}
		var said strings.Builder
		for _, session := range page.Data {
			said.WriteString(in.timeline(session.ID))
		}
		for _, n := range messages {
			if !strings.Contains(said.String(), text(n)) {
				t.Errorf("%s message %d cannot be read", when, n)
			}
		}
		mustBeSound(t, s)
	}
	reads("at first", c.s, 1, 2, 3, 4, 5, 6, 7, 8)

	elsewhere := newConversation(t)
	for _, e := range exported(t, c.s, "acme", record.Selection{All: true}) {
		if _, err := elsewhere.s.Archive().Import(t.Context(), "acme", e); err != nil {
			t.Fatal(err)
		}
	}
	reads("after an import", elsewhere.s, 1, 2, 3, 4, 5, 6, 7, 8)

	if _, err := c.s.Archive().SplitSession(t.Context(), "acme", session, second); err != nil {
		t.Fatal(err)
	}
	reads("after a split", c.s, 1, 2, 3, 4, 5, 6, 7, 8)
	if _, err := c.s.Archive().MergeSession(t.Context(), "acme", other, session); err != nil {
		t.Fatal(err)
	}
	reads("after a merge", c.s, 1, 2, 3, 4, 5, 6, 7, 8)
	erase(t, c.s, "acme", record.Selection{Exchanges: []string{first}})
	reads("after an erasure", c.s, 3, 4, 5, 6, 7, 8)
	c.reopen(Options{Dir: c.s.opts.Dir, Digest: digestTest})
	reads("after another start", c.s, 3, 4, 5, 6, 7, 8)
}
