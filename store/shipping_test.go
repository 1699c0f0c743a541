package store

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mnemeproxy/mneme/store/internal/blob"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/ship"
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

// carry ships all that is waiting, as packets of a few bytes, and confirms it.
func carry(t *testing.T, from, to *Store) (bytes int) {
	t.Helper()
	key, err := ship.NewKey(make([]byte, ship.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	p := from.Shipping()
	for after := p.Confirmed(); ; {
		f := nextFrame(t, p, after)
		if f.Last == 0 {
			return bytes
		}
		var (
			joiner ship.Joiner
			whole  *ship.Frame
		)
		for _, message := range f.Packets(key, ship.KindPacket, 1000) {
			bytes += len(message)
			packet, err := ship.OpenPacket(key, ship.KindPacket, message)
			if err != nil {
				t.Fatal(err)
			}
			if whole, err = joiner.Add(&packet); err != nil {
				t.Fatal(err)
			}
		}
		if taken, err := to.Arrivals().Take(t.Context(), whole, refuseNone(t)); err != nil || !taken {
			t.Fatalf("taken is %v (%v)", taken, err)
		}
		if err := p.Confirm(t.Context(), f.Last); err != nil {
			t.Fatal(err)
		}
		after = f.Last
	}
}

func refuseNone(t *testing.T) func([]Refused) error {
	return func(refused []Refused) error {
		t.Helper()
		for _, r := range refused {
			t.Errorf("%s is refused: %v", r.Entry.Exchange, r.Reason)
		}
		return nil
	}
}

func TestShippedExchangesArriveAsCaptured(t *testing.T) {
	edge, centre := newConversation(t), newConversation(t)
	// Numbers of accounts differ from store to store.
	mustAccount(t, centre.s, "first")
	mustAccount(t, edge.s, "late")
	mustAccount(t, centre.s, "late")
	captureBody(t, edge.s, "late", newAgent(1).request(), []byte("before shipping began"))
	beginShipping(t, edge.s)

	agent := newAgent(2)
	for range 5 {
		captureBody(t, edge.s, "late", agent.request(), []byte{0, 0xff})
		agent.turn()
	}
	edge.session(with(say("1"), func(o *Opening) { o.ChatKey = "k" }), "2")
	edge.session(with(say("1", "2", "3"), func(o *Opening) { o.ChatKey = "k" }), strings.Repeat("long ", 60_000))
	edge.session(derived(say("plain"), "plain"), "answer")
	edge.exchange(with(say("x"), func(o *Opening) { o.NativeSession, o.NativeAgent = "n", "agent" }), OutcomeClientClosed, "partial")
	carry(t, edge.s, centre.s)
	centre.settle()

	for _, account := range []string{"acme", "other", "late"} {
		want, got := exported(t, edge.s, account, Selection{All: true}), exported(t, centre.s, account, Selection{All: true})
		if diff := cmp.Diff(want, got, cmp.Comparer(bytes.Equal)); diff != "" { // byte for byte it takes seconds
			t.Errorf("%s differs at the centre (-edge +centre):\n%s", account, diff)
		}
	}
	if waiting := edge.s.Shipping().Waiting(); waiting != 0 {
		t.Errorf("%d wait after everything was confirmed", waiting)
	}
	mustBeSound(t, edge.s)
	mustBeSound(t, centre.s)
}

func TestAHistoryIsShippedOnce(t *testing.T) {
	edge, centre := newConversation(t), newConversation(t)
	beginShipping(t, edge.s)
	agent := newAgent(1)
	captureBody(t, edge.s, "acme", agent.request(), []byte("answer"))
	first := carry(t, edge.s, centre.s)
	agent.turn()
	captureBody(t, edge.s, "acme", agent.request(), []byte("answer"))
	if second := carry(t, edge.s, centre.s); second > first/4 {
		t.Errorf("the second turn takes %d bytes, the first took %d", second, first)
	}
}

func TestFramesAreAppliedOnceAndInOrder(t *testing.T) {
	edge, centre := newConversation(t), newConversation(t)
	p := beginShipping(t, edge.s)
	capture(t, edge.s, "acme", `{"q":1}`, "a")
	first := nextFrame(t, p, 0)
	capture(t, edge.s, "acme", `{"q":2}`, "b")
	second := nextFrame(t, p, first.Last)
	for step, c := range []struct {
		frame *ship.Frame
		taken bool
		count int
	}{{second, false, 0}, {first, true, 1}, {first, false, 1}, {second, true, 2}, {second, false, 2}, {first, false, 2}} {
		taken, err := centre.s.Arrivals().Take(t.Context(), c.frame, refuseNone(t))
		if err != nil || taken != c.taken {
			t.Errorf("step %d: taken is %v (%v)", step, taken, err)
		}
		page, err := centre.s.Archive().Exchanges("acme", ExchangeQuery{})
		if err != nil || len(page.Data) != c.count {
			t.Errorf("step %d: there are %d exchanges (%v)", step, len(page.Data), err)
		}
	}
	if mark, tail, err := centre.s.Arrivals().Mark(p.Log()); err != nil || mark != second.Last || tail != second.Tail {
		t.Errorf("the mark is %d %x (%v), want %d %x", mark, tail, err, second.Last, second.Tail)
	}
}

// A frame may be taken and its confirmation be lost, or the edge be restored from a backup.
func TestRepeatedFramesArriveOnce(t *testing.T) {
	edge, centre := newConversation(t), newConversation(t)
	p := beginShipping(t, edge.s)
	for n := range 3 {
		capture(t, edge.s, "acme", fmt.Sprintf(`{"q":%d}`, n), "a")
	}
	carry(t, edge.s, centre.s)
	before, log := exported(t, centre.s, "acme", Selection{All: true}), p.Log()
	if err := p.Repeat(t.Context()); err != nil {
		t.Fatal(err)
	}
	if p.Log() == log || p.Waiting() != 3 {
		t.Errorf("the log is %s, as before: %t; %d wait", p.Log(), p.Log() == log, p.Waiting())
	}
	carry(t, edge.s, centre.s)
	if diff := cmp.Diff(before, exported(t, centre.s, "acme", Selection{All: true})); diff != "" {
		t.Errorf("it changed the centre:\n%s", diff)
	}
	mustBeSound(t, centre.s)
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
		id, _ := edge.exchange(with(say("old"), func(o *Opening) { o.Started = time.Now().Add(-time.Hour) }), OutcomeComplete, "a")
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
		if err := s.retain(t.Context(), time.Now()); err != nil {
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
	if err := s.retain(t.Context(), time.Now()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Archive().Exchange("acme", waiting); err == nil {
		t.Error("it is still there after it was confirmed")
	}
}

func TestExchangesErasedAtTheCentreDoNotReturn(t *testing.T) {
	edge, centre := newConversation(t), newConversation(t)
	p := beginShipping(t, edge.s)
	id := capture(t, edge.s, "acme", `{"q":1}`, "a")
	carry(t, edge.s, centre.s)
	if _, err := centre.s.Archive().Erase(t.Context(), "acme", Selection{Exchanges: []string{id}}, false); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(timeout); ; time.Sleep(time.Millisecond) {
		if _, err := centre.s.Archive().Exchange("acme", id); err != nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("it is not erased")
		}
	}
	if err := p.Repeat(t.Context()); err != nil {
		t.Fatal(err)
	}
	carry(t, edge.s, centre.s)
	if _, err := centre.s.Archive().Exchange("acme", id); err == nil {
		t.Error("it is back")
	}
}

// An edge leaves out what it has shipped before, and the centre may have erased and swept it since.
func TestAFrameWithoutItsObjectsIsResentWhole(t *testing.T) {
	edge, centre := newConversation(t), newConversation(t)
	p := beginShipping(t, edge.s)
	agent := newAgent(1)
	captureBody(t, edge.s, "acme", agent.request(), []byte("answer"))
	after := nextFrame(t, p, 0).Last // and is lost
	agent.turn()
	id := captureBody(t, edge.s, "acme", agent.request(), []byte("answer"))
	second := nextFrame(t, p, after)
	second.After = 0
	if _, err := centre.s.Arrivals().Take(t.Context(), second, refuseNone(t)); !errors.Is(err, ErrIncomplete) {
		t.Fatalf("the error is %v", err)
	}
	p.Forget()
	second = nextFrame(t, p, after)
	second.After = 0
	if taken, err := centre.s.Arrivals().Take(t.Context(), second, refuseNone(t)); err != nil || !taken {
		t.Fatal(taken, err)
	}
	if x, err := centre.s.Archive().Exchange("acme", id); err != nil || len(x.RawRequest) == 0 {
		t.Error(err)
	}
}

func TestRefusedEntriesAreKeptAsideAndBlockNothing(t *testing.T) {
	for name, c := range map[string]struct {
		spoil  func(*ship.Entry)
		reason error
	}{
		"an account that is not here":   {func(e *ship.Entry) { e.Account = "stranger" }, ErrForeign},
		"another account of the record": {func(e *ship.Entry) { e.Account = "other" }, ErrForeign},
		"another exchange":              {func(e *ship.Entry) { e.Exchange = strings.Replace(e.Exchange, "exch_0", "exch_1", 1) }, ErrUnusable},
		"no exchange":                   {func(e *ship.Entry) { e.Exchange = "../../etc" }, ErrUnusable},
		"no record":                     {func(e *ship.Entry) { e.Record = nil }, ErrUnusable},
		"a record of another version":   {func(e *ship.Entry) { e.Record[0] = 99 }, ErrUnusable},
		"no skeleton":                   {func(e *ship.Entry) { e.Skeleton = nil }, ErrUnusable},
		"a skeleton that is cut":        {func(e *ship.Entry) { e.Skeleton = e.Skeleton[:len(e.Skeleton)-1] }, ErrUnusable},
		"half an answer":                {func(e *ship.Entry) { e.Parts = nil }, ErrUnusable},
		"an answer that is not plain":   {func(e *ship.Entry) { e.Parts[0] = blob.ShortPart(e.Parts[0]) }, ErrUnusable},
		"bytes of another hash":         {func(e *ship.Entry) { e.Objects[0].Hash[0]++ }, ErrUnusable},
		"an object that is missing":     {func(e *ship.Entry) { e.Objects = e.Objects[1:] }, ErrIncomplete},
		"an empty object":               {func(e *ship.Entry) { e.Objects[0].Value = nil }, ErrUnusable},
		"no session record":             {func(e *ship.Entry) { e.Session = []byte{1, '{'} }, ErrUnusable},
	} {
		t.Run(name, func(t *testing.T) {
			edge, centre := newConversation(t), newConversation(t)
			p := beginShipping(t, edge.s)
			captureBody(t, edge.s, "acme", newAgent(1).request(), []byte(numbered("bad", 400)))
			good := captureBody(t, edge.s, "acme", newAgent(2).request(), []byte("good"))
			f := nextFrame(t, p, 0)
			c.spoil(&f.Entries[0])
			var refused []Refused
			taken, err := centre.s.Arrivals().Take(t.Context(), f, func(r []Refused) error { refused = append(refused, r...); return nil })
			if err != nil || !taken {
				t.Fatal(taken, err)
			}
			if len(refused) != 1 || !errors.Is(refused[0].Reason, c.reason) || refused[0].Entry.Exchange != f.Entries[0].Exchange {
				t.Errorf("refused are %+v", refused)
			}
			if _, err := centre.s.Archive().Exchange("acme", good); err != nil {
				t.Errorf("what came with it is not there: %v", err)
			}
			mustBeSound(t, centre.s)
		})
	}
}

// What was refused is taken as soon as what was in its way is gone.
func TestEntriesKeptAsideCanBeRetried(t *testing.T) {
	edge, centre := newConversation(t), newConversation(t)
	mustAccount(t, edge.s, "new")
	p := beginShipping(t, edge.s)
	id := captureBody(t, edge.s, "new", newAgent(1).request(), []byte("answer"))
	f := nextFrame(t, p, 0)
	e := &f.Entries[0]
	if err := centre.s.Arrivals().Retry(t.Context(), e); !errors.Is(err, ErrForeign) {
		t.Fatal(err)
	}
	mustAccount(t, centre.s, "new")
	for range 2 {
		if err := centre.s.Arrivals().Retry(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := centre.s.Archive().Exchange("new", id); err != nil {
		t.Error(err)
	}
}

func TestOneConversationOverTwoEdgesIsOneSession(t *testing.T) {
	for name, ways := range map[string][2]*Opening{
		"by a key":       {with(say("1"), func(o *Opening) { o.ChatKey = "k" }), with(say("1", "2", "3"), func(o *Opening) { o.ChatKey = "k" })},
		"by the client":  {with(say("1"), func(o *Opening) { o.NativeSession = "n" }), with(say("1", "2", "3"), func(o *Opening) { o.NativeSession = "n" })},
		"by its opening": {derived(say("1"), "1"), derived(say("1", "2", "3"), "1", "2")},
	} {
		t.Run(name, func(t *testing.T) {
			centre := newConversation(t)
			for n, o := range ways {
				edge := newConversation(t)
				beginShipping(t, edge.s)
				edge.session(o, "2")
				carry(t, edge.s, centre.s)
				centre.settle()
				page, err := centre.s.Archive().Sessions("acme", SessionQuery{})
				if err != nil || len(page.Data) != 1 || page.Data[0].Exchanges != int64(n+1) {
					t.Fatalf("after edge %d the sessions are %+v (%v)", n, page.Data, err)
				}
				// Under the id that the edge gave it, too.
				own, err := edge.s.Archive().Sessions("acme", SessionQuery{})
				if err != nil {
					t.Fatal(err)
				}
				if s, err := centre.s.Archive().Session("acme", own.Data[0].ID); err != nil || s.ID != page.Data[0].ID && s.Merged != page.Data[0].ID {
					t.Errorf("under the id of edge %d there is %+v (%v)", n, s, err)
				}
			}
			mustBeSound(t, centre.s)
		})
	}
}

// Only a node that ships pays for it.
func TestNothingIsKeptForACentreWithoutOne(t *testing.T) {
	c := newConversation(t)
	for range 3 {
		c.exchange(say("1"), OutcomeComplete, "2")
	}
	c.idle()
	if n := entries(t, c.s)[string(rune(kv.SpaceShip))]; n != 0 {
		t.Errorf("%d entries were written for a centre", n)
	}
	g, w := newCommitGroup(c.s.core), new(operation)
	if n := testing.AllocsPerRun(100, func() {
		g.ship(w, 1, kv.ExchangeID{})
		c.s.shipping.announce()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	beginShipping(t, c.s)
	c.exchange(say("1"), OutcomeComplete, "2")
	if n := entries(t, c.s)[string(rune(kv.SpaceShip))]; n != 4 {
		t.Errorf("%d entries for 4 exchanges", n)
	}
}

func TestADamagedExchangeDoesNotBlockOthers(t *testing.T) {
	edge, centre := newConversation(t), newConversation(t)
	p := beginShipping(t, edge.s)
	bad := capture(t, edge.s, "acme", `{"q":1}`, "a")
	good := capture(t, edge.s, "acme", `{"q":2}`, "b")
	damageExchange(t, edge.s, "acme", bad)
	carry(t, edge.s, centre.s)
	if _, err := centre.s.Archive().Exchange("acme", good); err != nil || p.Waiting() != 0 {
		t.Errorf("%v, %d wait", err, p.Waiting())
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
