package store

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/chatkey"
	"github.com/mnemeproxy/mneme/codec/template"
	"github.com/mnemeproxy/mneme/store/internal/commit"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/internal/recording"
	"github.com/mnemeproxy/mneme/store/internal/turns"
	"github.com/mnemeproxy/mneme/store/internal/writing"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/redact"
)

// The digested exchange equals the captured one, whether its bytes were still in memory or had to be read back, and no
// memory is leaked.
func TestExchangesAreDigestedFromMemoryOrReadBack(t *testing.T) {
	type seen struct {
		request, answer string
		held            bool
	}
	var (
		mu      sync.Mutex
		digests = make(map[string]seen)
		s       *Store
	)
	ready := make(chan struct{})
	s = openStore(t, Options{Digest: func(x *record.Exchange) (record.Digest, error) {
		<-ready
		mu.Lock()
		defer mu.Unlock()
		digests[x.ID] = seen{string(x.RawRequest), string(x.RawResponse), s.digester.Held.Load() > 0}
		return record.Digest{}, nil
	}})
	close(ready)
	mustAccount(t, s, "acme")
	(&talk{t, s}).idle() // what has ended before the first look is read back
	for _, c := range []struct {
		name            string
		request, answer int
		inMemory        bool
	}{
		{"small", 300, 500, true},
		{"without an answer", 300, 0, true},
		{"large request", turns.KeptRequest + 1, 500, false},
		{"answer of several parts", 300, recording.PartSize + 1, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			request, answer := strings.Repeat("q", c.request), strings.Repeat("a", c.answer)
			ctx := context.Background()
			capture, err := s.Begin(ctx, &record.Opening{Account: "acme", Format: codec.Chat, Body: []byte(request), ChatKey: c.name})
			if err != nil {
				t.Fatal(err)
			}
			for chunk := []byte(answer); len(chunk) > 0; chunk = chunk[min(1000, len(chunk)):] {
				if _, err := capture.Write(chunk[:min(1000, len(chunk))]); err != nil {
					t.Fatal(err)
				}
			}
			if err := capture.Finish(&record.Closing{Outcome: record.OutcomeComplete}); err != nil {
				t.Fatal(err)
			}
			(&talk{t, s}).settle()
			mu.Lock()
			got := digests[capture.ID()]
			mu.Unlock()
			if got.request != request || got.answer != answer || got.held != c.inMemory {
				t.Errorf("digested %d and %d bytes, from memory: %v", len(got.request), len(got.answer), got.held)
			}
			if held := s.digester.Held.Load(); held != 0 {
				t.Errorf("%d bytes stay behind", held)
			}
		})
	}
}

// What was read of an answer before is not read again, unless something else is stored.
func TestAnAnswerThatWasReadIsHandedOverIfItIsStoredAsItWas(t *testing.T) {
	redactor, err := redact.New(redact.Options{Builtin: true})
	if err != nil {
		t.Fatal(err)
	}
	var got *codec.Answer
	s := openStore(t, Options{AnswerBytes: 100, Redact: redactor, Digest: func(x *record.Exchange) (record.Digest, error) {
		got = x.Answer
		return record.Digest{}, nil
	}})
	mustAccount(t, s, "acme")
	(&talk{t, s}).idle()
	read := &codec.Answer{}
	for answer, want := range map[string]*codec.Answer{
		`{"text":"All is well."}`: read,
		`{"text":"Use sk-ant-api03-` + strings.Repeat("x1y2", 10) + `."}`: nil,
		`{"text":"` + strings.Repeat("more ", 30) + `"}`:                  nil,
	} {
		c, err := s.Begin(context.Background(), &record.Opening{Account: "acme", Format: codec.Chat, Body: []byte(`{}`), ChatKey: answer[:20]})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write([]byte(answer)); err != nil {
			t.Fatal(err)
		}
		if err := c.Finish(&record.Closing{Outcome: record.OutcomeComplete, Answer: read}); err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("%s was handed over with %p instead of %p", answer, got, want)
		}
	}
	if held := s.digester.Held.Load(); held != 0 {
		t.Errorf("%d bytes stay behind", held)
	}
}

// An exchange that could not be committed leaks nothing either, nor does one without space.
func TestExchangesThatAreNotDigestedAreNotHeld(t *testing.T) {
	s := openStore(t, Options{Digest: digestTest})
	mustAccount(t, s, "acme")
	ctx := context.Background()
	begin := func(auxiliary string) *Capture {
		c, err := s.Begin(ctx, &record.Opening{Account: "acme", Format: codec.Chat, Body: bytes.Repeat([]byte("x"), 1000), ChatKey: "k", Auxiliary: auxiliary})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	title := begin("title")
	if held := s.digester.Held.Load(); held != 0 {
		t.Errorf("%d bytes are held of what is no turn", held)
	}
	if err := title.Finish(&record.Closing{Outcome: record.OutcomeComplete}); err != nil {
		t.Fatal(err)
	}
	s.digester.Held.Add(turns.KeptTotal)
	full := begin("")
	s.digester.Held.Add(-turns.KeptTotal)
	late := begin("")
	for _, c := range []*Capture{full, late} {
		if err := c.Finish(&record.Closing{Outcome: record.OutcomeComplete}); err != nil {
			t.Fatal(err)
		}
	}
	(&talk{t, s}).settle()
	if held := s.digester.Held.Load(); held != 0 {
		t.Errorf("%d bytes stay behind", held)
	}
	lost := begin("")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := lost.Finish(&record.Closing{Outcome: record.OutcomeComplete}); err == nil {
		t.Fatal("a closed store took an exchange")
	}
	if held := s.digester.Held.Load(); held != 0 {
		t.Errorf("%d bytes stay behind of what the closed store did not take", held)
	}
}

// A small exchange has its turn as soon as it has ended.
func TestASmallExchangeIsDigestedWithItsEnd(t *testing.T) {
	c := newConversation(t)
	c.idle()
	exchange := capture(t, c.s, "acme", string(say("where is the lock?").Body), "in pkg/lock")
	page, err := c.s.Archive().Exchanges("acme", record.ExchangeQuery{})
	if err != nil || len(page.Data) != 1 {
		t.Fatalf("%d exchanges, %v", len(page.Data), err)
	}
	timeline, err := c.s.Archive().Timeline("acme", page.Data[0].Session, record.TimelineQuery{})
	if err != nil {
		t.Fatal(err)
	}
	if len(timeline.Data) != 1 || timeline.Data[0].Exchange.ID != exchange || timeline.Data[0].Turn == nil {
		t.Fatalf("the timeline is %+v, want the turn of %s", timeline.Data, exchange)
	}
	if answer := timeline.Data[0].Turn.Answer; len(answer) != 1 || answer[0].Parts[0].Text != "in pkg/lock" {
		t.Errorf("the turn answers %+v", answer)
	}
	mustBeSound(t, c.s)
}

// So does a stream that is long only because of its frames, but not another answer of that length, because it would
// delay its client.
func TestAStreamThatWasReadWhileItPassedIsDigestedWithItsEnd(t *testing.T) {
	redactor, err := redact.New(redact.Options{Builtin: true})
	if err != nil {
		t.Fatal(err)
	}
	var s *Store
	waiting := make(map[string]int64) // by session: exchanges that wait while one is digested
	s = openStore(t, Options{
		Redact: redactor, Stream: func(string) record.StreamReader { return new(pieceReader) },
		Digest: func(x *record.Exchange) (record.Digest, error) {
			waiting[x.ChatKey] = s.Stats().Undigested
			return digestTest(x)
		},
	})
	mustAccount(t, s, "acme")
	c := &talk{t, s}
	c.idle()
	same := strings.Repeat(`data: {"id":"c","object":"chunk","delta":"word"}`+"\n\n", 4*turns.ReadAtOnce/50)
	var long strings.Builder // as steps, it is much shorter than an eighth of it
	for i := range 2 * turns.Framing * turns.ReadAtOnce / 1000 {
		fmt.Fprintf(&long, `data: {"id":"%s","object":"chunk","delta":"word %d"}`+"\n\n", strings.Repeat("c", 1000), i)
	}
	for _, x := range []struct{ name, contentType, answer string }{
		{"frames", "text/event-stream", same},
		{"long frames", "text/event-stream", long.String()},
		{"no stream", "application/json", same},
	} {
		begun, err := s.Begin(t.Context(), with(say("where is the lock?"), func(o *record.Opening) { o.ChatKey = x.name }))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := begun.Write([]byte(x.answer)); err != nil {
			t.Fatal(err)
		}
		if err := begun.Finish(&record.Closing{Outcome: record.OutcomeComplete, ContentType: x.contentType}); err != nil {
			t.Fatal(err)
		}
		c.settle()
		if turn, err := s.Feed().TurnAt(1, begun.ID()); err != nil || turn.Turn == nil || turn.Turn.Answer[0].Parts[0].Text != x.answer {
			t.Errorf("the turn of %s is %+v (%v)", x.name, turn.Turn, err)
		}
	}
	if want := map[string]int64{"frames": 0, "long frames": 0, "no stream": 1}; !maps.Equal(waiting, want) {
		t.Errorf("while they are digested so many exchanges wait: %v, want %v", waiting, want)
	}
	mustBeSound(t, s)
}

// While an exchange waits to be digested, later ones of its session wait too, however small they are: their turns
// depend on its turn.
func TestASmallExchangeIsNotDigestedBeforeEarlierOnesOfItsSession(t *testing.T) {
	digesting, goOn := make(chan struct{}), make(chan struct{})
	long := strings.Repeat("x", turns.ReadAtOnce)
	s := openStore(t, Options{Digest: func(x *record.Exchange) (record.Digest, error) {
		if x.RequestSize > turns.ReadAtOnce && !bytes.Contains(x.RawRequest, []byte("assistant")) {
			close(digesting)
			<-goOn
		}
		d, err := digestTest(x)
		if x.RequestSize < turns.ReadAtOnce { // what came before, said in short
			d.Messages[0].Parts[0].Text = long
		}
		return d, err
	}})
	mustAccount(t, s, "acme")
	c := &talk{t, s}
	c.idle()
	finish := func(texts ...string) string {
		t.Helper()
		begun, err := s.Begin(t.Context(), with(say(texts...), func(o *record.Opening) { o.ChatKey = "k" }))
		if err != nil {
			t.Fatal(err)
		}
		if err := begun.Recorded(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := begun.Write([]byte("yes")); err != nil {
			t.Fatal(err)
		}
		if err := begun.Finish(&record.Closing{Outcome: record.OutcomeComplete}); err != nil {
			t.Fatal(err)
		}
		return begun.ID()
	}
	first := finish(long)
	<-digesting
	second := finish("as before", "yes", "and now?")
	other := capture(t, s, "acme", string(say("and elsewhere?").Body), "nothing waits")
	for id, digested := range map[string]bool{first: false, second: false, other: true} {
		if x, err := s.Feed().TurnAt(1, id); err != nil || (x.Turn != nil) != digested {
			t.Errorf("%s has the turn %+v, %v; want the two of the session to wait, and none of another one", id, x.Turn, err)
		}
	}
	close(goOn)
	c.settle()
	x, err := s.Feed().TurnAt(1, second)
	if err != nil {
		t.Fatal(err)
	}
	if x.Turn == nil {
		t.Fatal("the second exchange has no turn")
	}
	if x.Turn.Parent != first || x.Turn.Known != 2 {
		t.Errorf("the second turn goes on from %q with %d known messages, want %s and 2", x.Turn.Parent, x.Turn.Known, first)
	}
}

// The digester may find an exchange in the log and get it from the writer as well, or get it twice.
func TestAnExchangeSeenTwiceIsReportedOnce(t *testing.T) {
	c := newConversation(t)
	id, _ := c.exchange(say("where is the lock?"), record.OutcomeComplete, "in pkg/lock")
	exchange, _ := kv.ParseExchangeID(id)
	number, err := c.s.accounts.Number("acme")
	if err != nil {
		t.Fatal(err)
	}
	var again *Change
	err = c.s.writer.Update(t.Context(), func(g *writing.Group, _ *commit.Op) error {
		_, ref := g.Sessions.Belongs(number, exchange)
		again = g.Sessions.Changes.NoteEnded(ref, exchange)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	c.settle()
	if now := c.s.Feed().Last(); now != again.Seq {
		t.Errorf("followers hear of %d more changes", now-again.Seq)
	}
}

// The keys of a request are passed on with it, so that they are not derived twice; those of a refused request are not,
// because it may be malformed.
func TestTheKeysOfARequestAreHandedOver(t *testing.T) {
	keys := make(map[string]*chatkey.Keys)
	s := openStore(t, Options{Digest: func(x *record.Exchange) (record.Digest, error) {
		keys[x.ID] = x.Derived
		return digestTest(x)
	}})
	mustAccount(t, s, "acme")
	c := &talk{t, s}
	c.idle() // what has ended before the first look is read back
	answered, _ := c.exchange(derived(say("hi", "a", "more"), "hi", "a"), record.OutcomeComplete, "b")
	named, _ := c.exchange(with(say("hi"), func(o *record.Opening) { o.ChatKey = "k" }), record.OutcomeComplete, "b")
	refused, _ := c.exchange(with(say("hi"), func(o *record.Opening) { o.Format = codec.FormatUnknown }), record.OutcomeRefused, "no")
	if got := keys[answered]; got == nil || *got != (chatkey.Keys{Opening: "hi", Reply: "hi|a"}) {
		t.Errorf("keys are %+v", got)
	}
	if got := keys[named]; got == nil || *got != (chatkey.Keys{}) {
		t.Errorf("keys of a request that needs none are %+v", got)
	}
	if got := keys[refused]; got != nil {
		t.Errorf("keys of a refused request are %+v", got)
	}
}

// pieceReader reads streams whose events go on with one text.
type pieceReader struct{ whole int64 }

func (r *pieceReader) Read(p []byte, at int64, _ *template.Frames, visit func(text int32, start int64, fragment []byte)) int64 {
	r.whole = max(r.whole, at)
	for {
		rest := p[r.whole-at:]
		n := bytes.Index(rest, []byte("\n\n"))
		if n < 0 {
			return r.whole
		}
		if _, piece, found := bytes.Cut(rest[:n], []byte(`"delta":"`)); found {
			piece, _, _ = bytes.Cut(piece, []byte(`"`))
			visit(0, r.whole+int64(bytes.Index(rest, []byte(`"delta":"`))+len(`"delta":"`)), piece)
		}
		r.whole += int64(n + 2)
	}
}
