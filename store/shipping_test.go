package store

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mnemeproxy/mneme/store/internal/blob"
	"github.com/mnemeproxy/mneme/store/internal/commit"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/ship"
	"github.com/mnemeproxy/mneme/store/shipped"
)

// beginShipping has a store keep its log.
func beginShipping(t *testing.T, s *Store) *Shipping {
	t.Helper()
	if err := s.Shipping().Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s.Shipping()
}

func nextFrame(t *testing.T, p *Shipping, after uint64) *ship.Frame {
	t.Helper()
	f, err := p.Next(t.Context(), after)
	if err != nil {
		t.Fatal(err)
	}
	return &f
}

// confirm ships all that is waiting to a centre that confirms it.
func confirm(t *testing.T, from *Store) (entries []ship.Entry, bytes int) {
	t.Helper()
	p := from.Shipping()
	for {
		f := nextFrame(t, p, p.Confirmed())
		if f.Last == 0 {
			return entries, bytes
		}
		for i := range f.Entries {
			bytes += f.Entries[i].Size()
		}
		entries = append(entries, f.Entries...)
		if err := p.Confirm(t.Context(), f.Last); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAHistoryIsShippedOnce(t *testing.T) {
	edge := newConversation(t)
	beginShipping(t, edge.s)
	agent := newAgent(1)
	captureBody(t, edge.s, "acme", agent.request(), []byte("answer"))
	_, first := confirm(t, edge.s)
	agent.turn()
	captureBody(t, edge.s, "acme", agent.request(), []byte("answer"))
	if _, second := confirm(t, edge.s); second > first/4 {
		t.Errorf("the second turn takes %d bytes, the first took %d", second, first)
	}
}

// The edge may have been restored from a backup, or the centre.
func TestARepeatedLogHasAllExchangesAgain(t *testing.T) {
	edge := newConversation(t)
	p := beginShipping(t, edge.s)
	for n := range 3 {
		capture(t, edge.s, "acme", fmt.Sprintf(`{"q":%d}`, n), "a")
	}
	before, _ := confirm(t, edge.s)
	log := p.Log()
	if err := p.Repeat(t.Context()); err != nil {
		t.Fatal(err)
	}
	if p.Log() == log || p.Waiting() != 3 {
		t.Errorf("the log is %s, as before: %t; %d wait", p.Log(), p.Log() == log, p.Waiting())
	}
	again, _ := confirm(t, edge.s)
	if diff := cmp.Diff(before, again); diff != "" {
		t.Errorf("other entries are shipped again:\n%s", diff)
	}
}

// A caller that waits for an empty queue would return too early.
func TestExchangesAreWaitingWhileALogIsRestarted(t *testing.T) {
	s := newConversation(t).s
	p := beginShipping(t, s)
	capture(t, s, "acme", `{"q":1}`, "a")
	stop, none := make(chan struct{}), make(chan bool)
	go func() {
		empty := false
		for {
			select {
			case <-stop:
				none <- empty
				return
			default:
				empty = empty || p.Waiting() == 0
			}
		}
	}()
	for range 20 {
		if err := p.Repeat(t.Context()); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	if <-none {
		t.Error("nothing waits in between")
	}
}

func TestTheLogSurvivesTheProcess(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	mustAccount(t, s, "acme")
	p := beginShipping(t, s)
	capture(t, s, "acme", `{"q":1}`, "a")
	capture(t, s, "acme", `{"q":2}`, "b")
	if err := p.Confirm(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	open, err := s.Begin(t.Context(), say("interrupted"))
	if err != nil {
		t.Fatal(err)
	}
	if err := open.Recorded(t.Context()); err != nil {
		t.Fatal(err)
	}
	log := p.Log()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openStore(t, Options{Dir: dir})
	p = beginShipping(t, s)
	f := nextFrame(t, p, p.Confirmed())
	if p.Log() != log || p.Confirmed() != 1 || len(f.Entries) != 2 || f.Entries[1].Exchange != open.ID() || f.Last != 3 {
		t.Errorf("log kept: %t, confirmed %d, frame up to %d with %d entries", p.Log() == log, p.Confirmed(), f.Last, len(f.Entries))
	}
}

func TestRetentionKeepsWhatTheCentreHasNotConfirmed(t *testing.T) {
	edge := newConversation(t)
	s := edge.s
	p := beginShipping(t, s)
	old := func() string {
		id, _ := edge.exchange(with(say("old"), func(o *record.Opening) { o.Started = time.Now().Add(-time.Hour) }), record.OutcomeComplete, "a")
		return id
	}
	confirmed := old()
	if err := p.Confirm(t.Context(), p.Last()); err != nil {
		t.Fatal(err)
	}
	waiting := old()
	for name, rule := range map[string]Retention{"age": {MaxAge: time.Minute}, "size": {MaxBytes: 1}} {
		if err := s.Accounts().SetRetention(t.Context(), "acme", &rule); err != nil {
			t.Fatal(err)
		}
		if err := s.keeper.Retention.Enforce(t.Context(), time.Now()); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Archive().Exchange("acme", waiting); err != nil {
			t.Fatalf("%s: what waits was erased: %v", name, err)
		}
	}
	if _, err := s.Archive().Exchange("acme", confirmed); err == nil {
		t.Error("what was confirmed is still there")
	}
	if err := p.Confirm(t.Context(), p.Last()); err != nil {
		t.Fatal(err)
	}
	if err := s.keeper.Retention.Enforce(t.Context(), time.Now()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Archive().Exchange("acme", waiting); err == nil {
		t.Error("it is still there after it was confirmed")
	}
}

// An edge leaves out what it has shipped before, and the centre may have erased and swept it since.
func TestAnEdgeThatForgetsShipsEverythingAFrameNeeds(t *testing.T) {
	edge := newConversation(t)
	p := beginShipping(t, edge.s)
	agent := newAgent(1)
	captureBody(t, edge.s, "acme", agent.request(), []byte("answer"))
	after := nextFrame(t, p, 0).Last // and is lost
	agent.turn()
	captureBody(t, edge.s, "acme", agent.request(), []byte("answer"))
	account, _ := edge.s.accounts.Find("acme")
	missing := func() (n int) {
		e := &nextFrame(t, p, after).Entries[0]
		objects := shipped.ObjectsOf(account, e)
		named, err := shipped.Named(nil, shipped.Skeleton(account), e.Skeleton)
		if err != nil {
			t.Fatal(err)
		}
		for _, ref := range named {
			if objects[ref] == nil {
				n++
			}
		}
		return n
	}
	if missing() == 0 {
		t.Error("what was shipped before is shipped again")
	}
	p.Forget()
	if n := missing(); n > 0 {
		t.Errorf("%d objects are missing", n)
	}
}

func TestUnsoundEntriesAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		spoil  func(*ship.Entry)
		reason error
	}{
		"another account of the record": {func(e *ship.Entry) { e.Account = "other" }, shipped.ErrForeign},
		"another exchange":              {func(e *ship.Entry) { e.Exchange = strings.Replace(e.Exchange, "exch_0", "exch_1", 1) }, shipped.ErrUnusable},
		"no exchange":                   {func(e *ship.Entry) { e.Exchange = "../../etc" }, shipped.ErrUnusable},
		"no record":                     {func(e *ship.Entry) { e.Record = nil }, shipped.ErrUnusable},
		"a record of another version":   {func(e *ship.Entry) { e.Record[0] = 99 }, shipped.ErrUnusable},
		"no skeleton":                   {func(e *ship.Entry) { e.Skeleton = nil }, shipped.ErrUnusable},
		"a skeleton that is cut":        {func(e *ship.Entry) { e.Skeleton = e.Skeleton[:len(e.Skeleton)-1] }, shipped.ErrUnusable},
		"half an answer":                {func(e *ship.Entry) { e.Parts = nil }, shipped.ErrUnusable},
		"an answer that is not plain":   {func(e *ship.Entry) { e.Parts[0] = blob.EncodeAnswer(e.Parts[0][1:], nil) }, shipped.ErrUnusable},
		"bytes of another hash":         {func(e *ship.Entry) { e.Objects[0].Hash[0]++ }, shipped.ErrUnusable},
		"an empty object":               {func(e *ship.Entry) { e.Objects[0].Value = nil }, shipped.ErrUnusable},
		"no session record":             {func(e *ship.Entry) { e.Session = []byte{1, '{'} }, shipped.ErrUnusable},
	} {
		t.Run(name, func(t *testing.T) {
			edge := newConversation(t)
			p := beginShipping(t, edge.s)
			captureBody(t, edge.s, "acme", newAgent(1).request(), []byte(numbered("bad", 400)))
			account, _ := edge.s.accounts.Find("acme")
			e := &nextFrame(t, p, 0).Entries[0]
			if _, err := shipped.Read(account, e, make(shipped.Objects), nil); err != nil {
				t.Fatalf("it is refused as it was recorded: %v", err)
			}
			c.spoil(e)
			if _, err := shipped.Read(account, e, make(shipped.Objects), nil); !errors.Is(err, c.reason) {
				t.Errorf("the error is %v, want %v", err, c.reason)
			}
		})
	}
}

// Only a node that ships pays for it.
func TestNothingIsKeptForACentreWithoutOne(t *testing.T) {
	c := newConversation(t)
	for range 3 {
		c.exchange(say("1"), record.OutcomeComplete, "2")
	}
	c.idle()
	if n := entries(t, c.s)[string(rune(kv.SpaceShip))]; n != 0 {
		t.Errorf("%d entries were written for a centre", n)
	}
	g, w := c.s.writer.Group, new(commit.Op)
	if n := testing.AllocsPerRun(100, func() {
		c.s.shipping.Add(g.Group, w, kv.ExchangeRef{Account: 1})
		c.s.shipping.Announce()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	beginShipping(t, c.s)
	c.exchange(say("1"), record.OutcomeComplete, "2")
	if n := entries(t, c.s)[string(rune(kv.SpaceShip))]; n != 4 {
		t.Errorf("%d entries for 4 exchanges", n)
	}
}

func TestADamagedExchangeDoesNotBlockOthers(t *testing.T) {
	edge := newConversation(t)
	p := beginShipping(t, edge.s)
	bad := capture(t, edge.s, "acme", `{"q":1}`, "a")
	good := capture(t, edge.s, "acme", `{"q":2}`, "b")
	damageExchange(t, edge.s, "acme", bad)
	if shipped, _ := confirm(t, edge.s); len(shipped) != 1 || shipped[0].Exchange != good || p.Waiting() != 0 {
		t.Errorf("%+v are shipped, %d wait", shipped, p.Waiting())
	}
}

// What an edge pays for an exchange beside its capture, but for the message.
func BenchmarkShippingAnExchange(b *testing.B) {
	edge := openStore(b, Options{})
	mustAccount(b, edge, "acme")
	p := edge.Shipping()
	if err := p.Begin(b.Context()); err != nil {
		b.Fatal(err)
	}
	key, err := ship.NewKey(make([]byte, ship.KeySize))
	if err != nil {
		b.Fatal(err)
	}
	text := strings.Repeat("word ", 300)
	for n := range b.N {
		capture(b, edge, "acme", fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":"question %d %s"}]}`, n, text), text)
	}
	b.ResetTimer()
	for shipped := uint64(0); shipped < uint64(b.N); {
		f, err := p.Next(b.Context(), shipped)
		if err != nil {
			b.Fatal(err)
		}
		f.Packets(key, ship.KindPacket, 512<<10)
		if err := p.Confirm(b.Context(), f.Last); err != nil {
			b.Fatal(err)
		}
		shipped = f.Last
	}
}
