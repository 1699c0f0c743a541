package store

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/internal/turns"
	"github.com/mnemeproxy/mneme/store/record"
)

// longOpening makes an opening whose history is read from where it is new: its first message is long enough.
func longOpening(key string, texts ...string) *record.Opening {
	texts = slices.Clone(texts)
	texts[0] += strings.Repeat(" ", turns.PrefixesFrom)
	o := say(texts...)
	o.ChatKey = key
	from := strings.IndexByte(string(o.Body), '[') + 1
	for i := range texts {
		end := from + strings.IndexByte(string(o.Body[from:]), '}') + 1
		o.Items = append(o.Items, codec.Span{Start: from, End: end})
		if from = end + 1; i == len(texts)-1 {
			break
		}
	}
	o.Spans = o.Items
	return o
}

// digestUnread reads as digestTest does, but only what need be read, and counts the messages.
func digestUnread(read *atomic.Int64) func(x *record.Exchange) (record.Digest, error) {
	return func(x *record.Exchange) (record.Digest, error) {
		whole, from := *x, 0
		if x.Items != nil && x.Items.From > 0 {
			from, whole.RawRequest = x.Items.From, fmt.Appendf(nil, `{"Messages":[%s]}`, x.RawRequest)
		}
		d, err := digestTest(&whole)
		if x.Items == nil || err != nil {
			return d, err
		}
		if from > 0 {
			d.Reply = x.Derived.Reply
		}
		read.Add(int64(len(d.Messages)))
		for i := range d.Messages {
			d.Starts = append(d.Starts, from+i)
		}
		return d, nil
	}
}

func TestOnlyTheNewPartOfARequestIsRead(t *testing.T) {
	var read atomic.Int64
	c := &talk{t, openStore(t, Options{Digest: digestUnread(&read)})}
	mustAccount(t, c.s, "acme")
	mustAccount(t, c.s, "other")
	c.idle() // what the digester finds when it starts it reads whole
	texts := []string{"0"}
	next := func(o *record.Opening) (messages int64) {
		before := read.Load()
		c.session(o, "answer")
		return read.Load() - before
	}
	for i := range 10 {
		if got, want := next(longOpening("k", texts...)), min(int64(len(texts)), 3); got != want {
			t.Errorf("turn %d: %d messages were read, want %d", i, got, want)
		}
		texts = append(texts, "answer", fmt.Sprint(i+1))
	}
	if got := next(longOpening("k", append(texts[:len(texts)-1:len(texts)-1], "last one changed")...)); got > 4 {
		t.Errorf("after another last message %d messages were read", got)
	}
	held := &c.s.digester.Held
	held.Add(turns.KeptTotal / 2) // no room for a large request
	large := append([]string{strings.Repeat("large ", turns.KeptLarge/5)}, texts...)
	if got, want := next(longOpening("large", large[:len(large)-2]...)), int64(len(large)-2); got != want {
		t.Errorf("of a request that is read back %d messages were read, want %d", got, want)
	}
	if got := next(longOpening("large", large...)); got > 3 {
		t.Errorf("of one that goes on from a request that was read back %d messages were read", got)
	}
	held.Add(-turns.KeptTotal / 2)
	if left := held.Load(); left != 0 {
		t.Errorf("%d bytes stay behind", left)
	}
	elsewhere := longOpening("k", texts...)
	elsewhere.Account = "other"
	if got := next(elsewhere); got != int64(len(texts)) {
		t.Errorf("of a request that another account has sent %d messages were read", got)
	}
}

// Of a request with a known prefix, only the rest waits to be digested, so that many large ones fit; and if that is
// little, it is digested in the commit of its end.
func TestOnlyTheNewPartOfARequestIsHeld(t *testing.T) {
	var read atomic.Int64
	c := &talk{t, openStore(t, Options{Digest: digestUnread(&read)})}
	mustAccount(t, c.s, "acme")
	c.idle()
	long := strings.Repeat("x", turns.KeptLarge)
	texts := []string{long, "answer", long, "answer", "more"}
	c.session(longOpening("k", texts...), "answer")
	var begun []*Capture
	for i := range turns.KeptTotal / turns.KeptLarge { // would be twice what may be held of requests as large
		capture, err := c.s.Begin(t.Context(), longOpening("k", append(texts, "answer", fmt.Sprint(i))...))
		if err != nil {
			t.Fatal(err)
		}
		begun = append(begun, capture)
	}
	if held, most := c.s.digester.Held.Load(), int64(len(begun)*2<<10); held == 0 || held > most {
		t.Errorf("%d bytes are held of %d requests, want at most %d", held, len(begun), most)
	}
	for i, capture := range begun {
		if err := capture.Recorded(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := capture.Finish(&record.Closing{Outcome: record.OutcomeComplete}); err != nil {
			t.Fatal(err)
		}
		if waiting := c.s.Stats().Undigested; waiting > 0 {
			t.Fatalf("%d exchanges wait after request %d", waiting, i)
		}
	}
	turn, err := c.s.Feed().TurnAt(1, begun[7].ID())
	if err != nil || turn.Turn == nil || turn.Turn.Known != 6 || len(turn.Turn.Messages) != 1 || turn.Turn.Messages[0].Parts[0].Text != "7" {
		t.Errorf("the turn is %+v (%v)", turn.Turn, err)
	}
	if held := c.s.digester.Held.Load(); held != 0 {
		t.Errorf("%d bytes stay behind", held)
	}
	mustBeSound(t, c.s)
}

// Requests that arrive together share a history that none of them has made known yet. Only the first that is digested is
// read whole.
func TestAHistoryOfSeveralRequestsAtOnceIsReadOnce(t *testing.T) {
	var read atomic.Int64
	c := &talk{t, openStore(t, Options{Digest: digestUnread(&read)})}
	mustAccount(t, c.s, "acme")
	c.idle()
	texts := []string{strings.Repeat("x", turns.KeptLarge), "answer", "more", "answer"}
	var begun []*Capture
	for i := range 4 {
		capture, err := c.s.Begin(t.Context(), longOpening("k", append(texts, "and more", fmt.Sprint(i))...))
		if err == nil {
			err = capture.Recorded(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		begun = append(begun, capture)
	}
	for i, capture := range begun {
		before := read.Load()
		if err := capture.Finish(&record.Closing{Outcome: record.OutcomeComplete}); err != nil {
			t.Fatal(err)
		}
		c.settle()
		if got := read.Load() - before; i > 0 && got > 2 {
			t.Errorf("of request %d, %d messages were read", i, got)
		}
		turn, err := c.s.Feed().TurnAt(1, capture.ID())
		if err != nil || turn.Turn == nil || turn.Turn.Known+len(turn.Turn.Messages) != len(texts)+2 {
			t.Errorf("the turn of request %d is %+v (%v)", i, turn.Turn, err)
		}
	}
	if held := c.s.digester.Held.Load(); held != 0 {
		t.Errorf("%d bytes stay behind", held)
	}
	mustBeSound(t, c.s)
}

// Conversations that continue, go back, are rewritten, are in other sessions or were erased there have the same turns
// whether their requests are read completely or only from their new part on.
func TestReadingOnlyTheNewPartGivesTheSameTurns(t *testing.T) {
	var read atomic.Int64
	stores := [2]*talk{
		{t, openStore(t, Options{Digest: digestTest})},
		{t, openStore(t, Options{Digest: digestUnread(&read)})},
	}
	run := 0
	fewerChecks(t, 30)
	rapid.Check(t, func(rt *rapid.T) {
		run++
		account := fmt.Sprintf("account-%d", run)
		var (
			histories = [][]string{{"0"}}
			ids       [2][]string
			sessions  [2][]string
		)
		for _, c := range stores {
			mustAccount(t, c.s, account)
		}
		for step := range rapid.IntRange(1, 12).Draw(rt, "steps") {
			if len(ids[0]) > 0 && rapid.IntRange(0, 5).Draw(rt, "erase") == 0 {
				which := rapid.IntRange(0, len(ids[0])-1).Draw(rt, "exchange")
				for i, c := range stores {
					number, err := c.s.accounts.Number(account)
					if err == nil {
						err = c.s.keeper.Erasures.Expire(context.Background(), number, record.Selection{Exchanges: []string{ids[i][which]}})
					}
					if err != nil {
						rt.Fatal(err)
					}
				}
				continue
			}
			history := rapid.SampledFrom(histories).Draw(rt, "history")
			history = slices.Clone(history[:rapid.IntRange(1, len(history)).Draw(rt, "kept")])
			for range rapid.IntRange(0, 3).Draw(rt, "more") {
				history = append(history, rapid.SampledFrom([]string{"a", "b", "answer 0", "answer 1"}).Draw(rt, "text"))
			}
			key := rapid.SampledFrom([]string{"k1", "k2"}).Draw(rt, "key")
			answer := rapid.SampledFrom([]string{"answer 0", "answer 1"}).Draw(rt, "answer")
			for i, c := range stores {
				o := longOpening(key, history...)
				o.Account = account
				id, session := c.exchange(o, record.OutcomeComplete, answer)
				ids[i] = append(ids[i], id)
				if !slices.Contains(sessions[i], session) {
					sessions[i] = append(sessions[i], session)
				}
			}
			histories = append(histories, append(history, answer))
			if got, want := turnsOf(rt, stores[1].s, account, sessions[1], ids[1]), turnsOf(rt, stores[0].s, account, sessions[0], ids[0]); got != want {
				rt.Fatalf("step %d: turns are\n%s\nread whole they are\n%s", step, got, want)
			}
		}
	})
	for _, c := range stores {
		mustBeSound(t, c.s)
	}
}

// turnsOf describes the turns of sessions with numbers in place of the ids of exchanges.
func turnsOf(t *rapid.T, s *Store, account string, sessions, ids []string) string {
	var told strings.Builder
	for _, session := range sessions {
		page, err := s.Archive().Timeline(account, session, record.TimelineQuery{Limit: kv.MaxPage})
		if codec.AsError(err, "").Kind == codec.KindNotFound {
			continue // all of it was erased
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range page.Data {
			turn := *e.Turn
			turn.Exchange, turn.Parent, turn.Continued = number(ids, turn.Exchange), number(ids, turn.Parent), number(ids, turn.Continued)
			turn.Started = time.Time{}
			text, err := json.Marshal(turn)
			if err != nil {
				t.Fatal(err)
			}
			told.Write(append(text, '\n'))
		}
	}
	return told.String()
}

func number(ids []string, id string) string {
	if id == "" {
		return ""
	}
	return fmt.Sprint("exchange ", slices.Index(ids, id))
}
