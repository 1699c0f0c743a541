package search

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/search/vector"
)

// speaker is an embedder that knows some words which mean the same. It can be told to fail.
type speaker struct {
	name string
	dims int

	mu       sync.Mutex
	fails    func(account string, use Use, texts []string) error
	embedded map[string]int // documents, by text
}

func newSpeaker(name string, dims int) *speaker {
	return &speaker{name: name, dims: dims, embedded: make(map[string]int)}
}

func (s *speaker) Identity() string { return s.name }

func (s *speaker) Dimensions() int { return s.dims }

// failing has calls fail; nil ends that.
func (s *speaker) failing(fails func(account string, use Use, texts []string) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fails = fails
}

// Embed answers however late it is, so that no search goes without vectors because the machine stood still.
func (s *speaker) Embed(_ context.Context, account string, use Use, texts []string) ([][]float32, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fails != nil {
		if err := s.fails(account, use, texts); err != nil {
			return nil, err
		}
	}
	vectors := make([][]float32, len(texts))
	for i, text := range texts {
		if use == ForDocument {
			s.embedded[text]++
		}
		vectors[i] = s.vector(text)
	}
	return vectors, nil
}

var meanings = map[string]string{"car": "vehicle", "automobile": "vehicle", "doctor": "physician", "forecast": "weather"}

func (s *speaker) vector(text string) []float32 {
	v := make([]float32, s.dims)
	for _, word := range strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !('a' <= r && r <= 'z' || '0' <= r && r <= '9') }) {
		if meaning, known := meanings[word]; known {
			word = meaning
		}
		h := fnv.New64a()
		_, _ = h.Write([]byte(s.name + word))
		seed := h.Sum64()
		for range 4 { // values that a word changes
			seed = seed*6364136223846793005 + 1442695040888963407
			v[(seed>>33)%uint64(s.dims)] += 1 - 2*float32(seed>>63)
		}
	}
	return v
}

// texts is how many documents have been embedded, and the most often one of them was.
func (s *speaker) texts() (count, most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.embedded {
		most = max(most, n)
	}
	return len(s.embedded), most
}

// chatter captures so many turns about nothing.
func (m *memory) chatter(account string, count int) {
	m.t.Helper()
	for i := range count {
		m.capture(account, talk(fmt.Sprintf("question %d about topic%d", i, i), fmt.Sprintf("answer %d", i)))
	}
}

// until waits for what another goroutine brings about.
func (m *memory) until(what string, reached func() bool) {
	m.t.Helper()
	for deadline := time.Now().Add(timeout); !reached(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			m.t.Fatalf("%s: not within %s", what, timeout)
		}
	}
}

func (m *memory) vectorStatus(account string) *VectorStatus {
	m.t.Helper()
	status, err := m.index.Status(context.Background(), account)
	m.ok(err)
	return status.Vectors
}

func (m *memory) untilComplete() {
	m.t.Helper()
	m.until("vectors", func() bool {
		s := m.vectorStatus("acme")
		return !s.Building && s.Lag == 0
	})
}

// What says the same in other words is found by its vector, by its account alone, and only where it is like enough.
func TestOtherWordsForTheSameAreFound(t *testing.T) {
	m := openMemoryWith(t, t.TempDir(), Options{Embedder: newSpeaker("speaker/1", 1024)})
	m.chatter("acme", 30)
	car := m.capture("acme", talk("my car is broken", "bring the car to the garage"))
	weather := m.capture("acme", talk("tomorrow's weather", "rain"))
	other := m.capture("globex", talk("my car is broken", "bring the car to the garage"))
	for _, mode := range []Mode{Auto, Hybrid, Vector} {
		answer := m.search("acme", Request{Query: "automobile", Mode: mode, Explain: true})
		want := Hybrid
		if mode == Vector {
			want = Vector
		}
		if answer.ModeUsed != want || len(answer.Degraded) > 0 || len(answer.Data) == 0 || answer.Data[0].Exchange != car {
			t.Fatalf("%s: %+v, want %s first", mode, answer, car)
		}
		scores := answer.Data[0].Scores
		if scores.BM25 != 0 || *scores.Vector != 1 || *scores.Cosine < leastLikeness {
			t.Errorf("%s: scores %+v", mode, scores)
		}
	}
	if got := m.search("acme", Request{Query: "automobile", Mode: Lexical}); len(got.Data) != 0 || got.ModeUsed != Lexical {
		t.Errorf("by words alone: %+v", got)
	}
	if got := exchangesOf(m.search("globex", Request{Query: "automobile"})); !slices.Equal(got, []string{other}) {
		t.Errorf("the other account finds %v, want %s", got, other)
	}
	if got := exchangesOf(m.search("acme", Request{Query: "forecast"})); !slices.Equal(got, []string{weather}) {
		t.Errorf("forecast finds %v, want %s alone", got, weather)
	}
	if got := exchangesOf(m.search("acme", Request{Query: "nonsense"})); len(got) != 0 {
		t.Errorf("what is like nothing finds %v", got)
	}
	whatever := -1.0
	if got := m.search("acme", Request{Query: "nonsense", Limit: 100, Ranking: Ranking{LeastLikeness: &whatever}}); len(got.Data) != 32 {
		t.Errorf("with whatever is least unlike there are %d hits, want all 32", len(got.Data))
	}
}

// Filters and operators hold for what is found by its vector too, and the weight decides between the sources.
func TestWhatIsDemandedHoldsForVectorsToo(t *testing.T) {
	m := openMemoryWith(t, t.TempDir(), Options{Embedder: newSpeaker("speaker/1", 1024)})
	m.chatter("acme", 20)
	byModel := func(model string) func(*record.Opening) {
		return func(o *record.Opening) { o.ModelAsked = model }
	}
	first := m.capture("acme", talk("my car is broken", "bring it to the garage"), byModel("gpt-5"))
	second := m.capture("acme", talk("my car is loud", "look at the exhaust"), byModel("claude"))
	lexical := m.capture("acme", talk("automobile as a word among many others that say nothing of it at all", "so it is"), byModel("gpt-5"))
	found := func(r Request) []string {
		t.Helper()
		got := exchangesOf(m.search("acme", r))
		slices.Sort(got)
		return got
	}
	for _, test := range []struct {
		name string
		r    Request
		want []string
	}{
		{"filter", Request{Query: "automobile", Filter: Filter{Field: "model", Op: "eq", Value: "claude"}}, []string{second}},
		{"filter by all but few", Request{Query: "automobile", Filter: Filter{Not: &Filter{Field: "model", Op: "eq", Value: "claude"}}}, []string{first, lexical}},
		{"excluded word", Request{Query: "car -exhaust"}, []string{first}},
		{"demanded word", Request{Query: "automobile +garage"}, []string{first}},
		{"facet", Request{Query: "automobile model:claude"}, []string{second}},
		{"nothing", Request{Query: "automobile model:none"}, []string{}},
	} {
		if got := found(test.r); !slices.Equal(got, test.want) {
			t.Errorf("%s: found %v, want %v", test.name, got, test.want)
		}
	}
	none := 0.0
	if got := exchangesOf(m.search("acme", Request{Query: "automobile", Ranking: Ranking{VectorWeight: &none}})); got[0] != lexical {
		t.Errorf("with words alone %v are first, want %s", got, lexical)
	}
	if got := exchangesOf(m.search("acme", Request{Query: "automobile", Mode: Vector})); got[0] == lexical {
		t.Errorf("with vectors alone %v are first, want what is about cars", got)
	}
	var paged []string
	for offset := 0; offset < 3; offset++ {
		paged = append(paged, exchangesOf(m.search("acme", Request{Query: "automobile", Limit: 1, Offset: offset}))...)
	}
	slices.Sort(paged)
	if want := found(Request{Query: "automobile"}); !slices.Equal(paged, want) {
		t.Errorf("page by page %v, at once %v", paged, want)
	}
}

// A likeness counts from that of unrelated turns on. Where a search has only like turns to choose from, the least of them is not
// taken for unlike.
func TestTheLeastAlikeIsAsAlikeAsItIs(t *testing.T) {
	m := openMemoryWith(t, t.TempDir(), Options{Embedder: newSpeaker("speaker/1", 1024)})
	m.chatter("acme", 20)
	byModel := func(o *record.Opening) { o.ModelAsked = "claude" }
	m.capture("acme", talk("my car is broken", "bring it to the garage"), byModel)
	m.capture("acme", talk("my car is loud", "look at the exhaust"), byModel)
	for _, mode := range []Mode{Hybrid, Vector} {
		answer := m.search("acme", Request{Query: "automobile", Mode: mode, Explain: true, Filter: Filter{Field: "model", Op: "eq", Value: "claude"}})
		if len(answer.Data) != 2 {
			t.Fatalf("%s: %+v", mode, answer)
		}
		best, least := answer.Data[0].Scores, answer.Data[1].Scores
		if want := *least.Cosine / *best.Cosine; *best.Vector != 1 || math.Abs(*least.Vector-want) > 1e-9 || want < 0.5 {
			t.Errorf("%s: the best is %+v, the least %+v", mode, best, least)
		}
	}
}

// An embedder that is dead, slow, or wrong for one account holds nobody up: searches go by words and say so, other
// accounts go on, and when it is back every turn gets its vector.
func TestADeadEmbedderHoldsNobodyUp(t *testing.T) {
	s := newSpeaker("speaker/1", 512)
	m := openMemoryWith(t, t.TempDir(), Options{Embedder: s})
	m.chatter("acme", 3)
	m.search("acme", Request{Query: "topic1"})
	s.failing(func(account string, use Use, _ []string) error {
		if account == "globex" {
			return nil
		}
		if use == ForQuery {
			return errors.New("connection to 10.0.0.1 refused")
		}
		return codec.Errorf(codec.KindUpstreamAuth, "the credential is refused")
	})
	car := m.capture("acme", talk("my car", "is red"))
	other := m.capture("globex", talk("my car", "is red"))
	m.ok(m.index.Wait(t.Context(), "acme"))
	answer, err := m.index.Search(t.Context(), "acme", &Request{Query: "car"})
	m.ok(err)
	if got := exchangesOf(answer); !slices.Equal(got, []string{car}) || answer.ModeUsed != Lexical {
		t.Errorf("found %v by %s", got, answer.ModeUsed)
	}
	if len(answer.Degraded) != 1 || !strings.HasPrefix(answer.Degraded[0], "vectors: ") || strings.Contains(answer.Degraded[0], "10.0.0.1") {
		t.Errorf("notes %q", answer.Degraded)
	}
	m.until("the other account's vector", func() bool {
		answer, err := m.index.Search(t.Context(), "globex", &Request{Query: "automobile"})
		m.ok(err)
		return slices.Equal(exchangesOf(answer), []string{other})
	})
	m.until("the reason in the status", func() bool { return m.vectorStatus("acme").Error == "the credential is refused" })
	if reason := m.vectorStatus("globex").Error; reason != "" {
		t.Errorf("the other account is told %q", reason)
	}
	if reason := m.index.Vectors().Error; reason == "" {
		t.Error("the operator is told nothing")
	}
	if lag := m.vectorStatus("acme").Lag; lag == 0 {
		t.Error("nothing is said to be missing")
	}
	s.failing(nil)
	m.untilComplete()
	if got := m.search("acme", Request{Query: "automobile"}); !slices.Equal(exchangesOf(got), []string{car}) || got.ModeUsed != Hybrid {
		t.Errorf("with the embedder back: %+v", got)
	}
	if status := m.vectorStatus("acme"); status.Error != "" || status.Documents != 4 {
		t.Errorf("status %+v", status)
	}
}

// An account that cannot be embedded for long, with more turns than are looked at together, does not keep one from its turn
// whose failure is over.
func TestAnAccountThatFailsHoldsNoOtherBack(t *testing.T) {
	s := newSpeaker("speaker/1", 256)
	var refusals atomic.Int32
	s.failing(func(account string, _ Use, _ []string) error {
		if account == "acme" || refusals.Add(1) == 1 {
			return codec.Errorf(codec.KindUpstreamAuth, "the credential is refused")
		}
		return nil
	})
	m := openMemoryWith(t, t.TempDir(), Options{Embedder: s})
	m.chatter("acme", 2*embedBatch)
	m.capture("globex", talk("my car", "is red"))
	m.until("the vector of the account that fails no more", func() bool { return m.vectorStatus("globex").Documents == 1 })
}

// A search waits for the vector of its query no longer than a person would.
func TestASlowEmbedderIsNotWaitedFor(t *testing.T) {
	s := newSpeaker("speaker/1", 512)
	m := openMemoryWith(t, t.TempDir(), Options{Embedder: waiting{s}})
	car := m.capture("acme", talk("my car", "is red"))
	answer := m.search("acme", Request{Query: "car"})
	if !slices.Equal(exchangesOf(answer), []string{car}) || answer.ModeUsed != Lexical || len(answer.Degraded) != 1 {
		t.Errorf("%+v", answer)
	}
}

// waiting is an embedder that never answers queries.
type waiting struct{ *speaker }

func (w waiting) Embed(ctx context.Context, account string, use Use, texts []string) ([][]float32, error) {
	if use == ForQuery {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return w.speaker.Embed(ctx, account, use, texts)
}

// A text that the embedder refuses, or that has no vector, goes without one; its neighbors in the batch do not.
func TestARefusedTextGoesWithoutAVector(t *testing.T) {
	s := newSpeaker("speaker/1", 512)
	s.failing(func(_ string, _ Use, texts []string) error {
		if slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(text, "poison") }) {
			return codec.Errorf(codec.KindTooLarge, "the text is too long")
		}
		return nil
	})
	m := openMemoryWith(t, t.TempDir(), Options{Embedder: s})
	for i := range 20 {
		m.capture("acme", talk(fmt.Sprintf("plain %d", i), "ok"))
	}
	poison := m.capture("acme", talk("the poison", "drink"))
	m.capture("acme", talk("...", "!!!"))
	m.wantFound("acme", "poison", poison)
	m.untilComplete()
	if count, most := s.texts(); count < 21 || most > 1 {
		t.Errorf("%d texts embedded, one of them %d times", count, most)
	}
	m.reopen(func() {})
	m.wantFound("acme", "poison", poison)
}

// What is said while the turns of before are still being gone through is met there and as news, and embedded once.
func TestWhatComesDuringTheBackfillIsEmbeddedOnce(t *testing.T) {
	s := newSpeaker("speaker/1", 512)
	reached, release := make(chan struct{}, 1), make(chan struct{})
	s.failing(func(string, Use, []string) error {
		select {
		case reached <- struct{}{}:
		default:
		}
		<-release
		return nil
	})
	m := openMemory(t, t.TempDir())
	m.capture("acme", talk("before there is an embedder", "ok"))
	m.opts = Options{Embedder: s}
	m.reopen(func() {})
	<-reached
	for i := range 20 {
		m.capture("acme", talk(fmt.Sprintf("meanwhile %d", i), "ok"))
	}
	close(release) // before the lexical index, which lets turns gather, has read those
	m.untilComplete()
	if count, most := s.texts(); count != 21 || most != 1 {
		t.Errorf("%d texts embedded, one of them %d times", count, most)
	}
}

// After a restart the vectors are where they were, nothing is embedded a second time, and what was said while there was
// no embedder gets its vector when there is one again.
func TestVectorsGoOnWhereTheyWere(t *testing.T) {
	s := newSpeaker("speaker/1", 512)
	m := openMemoryWith(t, t.TempDir(), Options{Embedder: s})
	m.chatter("acme", 10)
	m.search("acme", Request{Query: "topic1"})
	for _, opts := range []Options{{LeaveVectors: true}, {}, {Embedder: s}} {
		m.opts = opts
		m.reopen(func() {})
		m.capture("acme", talk(fmt.Sprintf("my car with %+v", opts.LeaveVectors), "ok"))
		m.search("acme", Request{Query: "topic1"})
	}
	m.untilComplete()
	if got := m.search("acme", Request{Query: "automobile"}); len(got.Data) != 2 || len(got.Data[0].Duplicates)+len(got.Data[1].Duplicates) != 1 {
		t.Errorf("found %+v, want the three that came since", got.Data)
	}
	if count, most := s.texts(); count != 12 || most > 2 {
		t.Errorf("%d texts embedded, one of them %d times", count, most)
	}
	list, err := m.store.Vectors().Generations()
	m.ok(err)
	if len(list) != 1 || !list[0].Complete {
		t.Errorf("generations %+v", list)
	}
}

// What is erased has no vector from the same commit on, and searches in memory let go of it.
func TestErasedTurnsHaveNoVector(t *testing.T) {
	m := openMemoryWith(t, t.TempDir(), Options{Embedder: newSpeaker("speaker/1", 512)})
	gone := m.capture("acme", talk("my car", "is red"))
	kept := m.capture("acme", talk("my automobile", "is blue"))
	if got := m.search("acme", Request{Query: "car"}); len(got.Data) != 2 {
		t.Fatalf("found %+v", got.Data)
	}
	number, err := m.store.Accounts().Number("acme")
	m.ok(err)
	m.erase("acme", gone)
	if value, err := m.store.Vectors().At(number, 1, gone); err != nil || value != nil {
		t.Errorf("the vector is still there: %x, %v", value, err)
	}
	for _, mode := range []Mode{Hybrid, Vector} {
		if got := exchangesOf(m.search("acme", Request{Query: "car", Mode: mode})); !slices.Equal(got, []string{kept}) {
			t.Errorf("%s finds %v, want %s alone", mode, got, kept)
		}
	}
	if held := m.index.vectors.cache.Loaded(vector.Key{Account: uint32(number), Generation: 1}).Len(); held != 1 {
		t.Errorf("%d vectors in memory, want 1", held)
	}
}

// The embedder is changed while turns come and searches go on: none fails or goes without vectors, none compares a vector
// with one of another generation, progress can be seen, and at the end the former generation is gone.
func TestTheEmbedderIsChangedUnderLoad(t *testing.T) {
	old, fresh := newSpeaker("old/64", 64), newSpeaker("fresh/96", 96)
	m := openMemoryWith(t, t.TempDir(), Options{Embedder: old})
	m.chatter("acme", 3*embedBatch)
	car := m.capture("acme", talk("my car", "is red"))
	m.search("acme", Request{Query: "topic1"})

	var held atomic.Bool
	held.Store(true)
	release := make(chan struct{})
	fresh.failing(func(_ string, use Use, texts []string) error {
		if held.Load() && use == ForDocument && slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(text, "question 100 ") }) {
			<-release
		}
		return nil
	})
	m.opts = Options{Embedder: fresh, Former: func(identity string) Embedder {
		if identity != old.Identity() {
			t.Errorf("the former embedder is said to be %q", identity)
		}
		return old
	}}
	m.reopen(func() {})
	stop := make(chan struct{})
	var working sync.WaitGroup
	working.Go(func() {
		for {
			answer, err := m.index.Search(context.Background(), "acme", &Request{Query: "automobile", Mode: Hybrid})
			switch {
			case err != nil:
				t.Errorf("a search failed: %v", err)
			case len(answer.Degraded) > 0 && answer.Degraded[0] != describe(errNotOpen) && !strings.Contains(answer.Degraded[0], errNotOpen.Message):
				t.Errorf("a search went without vectors: %v", answer.Degraded)
			case len(answer.Degraded) == 0 && (len(answer.Data) == 0 || answer.Data[0].Exchange != car):
				t.Errorf("a search found %+v, want %s", exchangesOf(answer), car)
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	working.Go(func() {
		for i := range 50 {
			if _, err := captureScript(m.store, "acme", talk(fmt.Sprintf("meanwhile %d", i), "ok")); err != nil {
				t.Error(err)
			}
		}
	})
	var seen *VectorStatus
	m.until("progress", func() bool {
		seen = m.vectorStatus("acme")
		return seen.Building && seen.Done > 0 && seen.Done < seen.Total
	})
	if seen.Serving != old.Identity() || seen.Embedder != fresh.Identity() || seen.Generation != 2 {
		t.Errorf("half way: %+v", seen)
	}
	held.Store(false)
	close(release)
	m.untilComplete()
	number, err := m.store.Accounts().Number("acme")
	m.ok(err)
	m.until("the former vectors to go", func() bool {
		left, _, err := m.store.Vectors().Usage(t.Context(), number, 1)
		m.ok(err)
		list, err := m.store.Vectors().Generations()
		m.ok(err)
		return left == 0 && len(list) == 1 && list[0].Live && list[0].Complete
	})
	close(stop)
	working.Wait()
	m.search("acme", Request{Query: "topic1"})
	if status := m.vectorStatus("acme"); status.Documents != 3*embedBatch+1+50 || status.Serving != "" {
		t.Errorf("at the end: %+v", status)
	}
}

// When the former embedder cannot be had, searches go by what the new one has so far, and say how much that is.
func TestWithoutTheFormerEmbedderItsVectorsGoAtOnce(t *testing.T) {
	m := openMemoryWith(t, t.TempDir(), Options{Embedder: newSpeaker("old/64", 64)})
	m.chatter("acme", 5)
	m.search("acme", Request{Query: "topic1"})
	fresh := newSpeaker("fresh/64", 64)
	release := make(chan struct{})
	fresh.failing(func(_ string, use Use, _ []string) error {
		if use == ForDocument {
			<-release
		}
		return nil
	})
	m.opts = Options{Embedder: waitingFor{fresh, release}}
	m.reopen(func() {})
	m.until("the new generation", func() bool { return m.vectorStatus("acme").Generation == 2 })
	answer, err := m.index.Search(t.Context(), "acme", &Request{Query: "topic1"})
	m.ok(err)
	if len(answer.Data) == 0 || len(answer.Degraded) != 1 || !strings.Contains(answer.Degraded[0], "0 of 5 turns") {
		t.Errorf("%+v", answer)
	}
	close(release)
	m.untilComplete()
}

// waitingFor is an embedder whose documents wait, and whose queries do not wait behind them.
type waitingFor struct {
	*speaker
	release chan struct{}
}

func (w waitingFor) Embed(ctx context.Context, account string, use Use, texts []string) ([][]float32, error) {
	if use == ForDocument {
		select {
		case <-w.release:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		return w.speaker.Embed(ctx, account, use, texts)
	}
	return [][]float32{w.vector(texts[0])}, nil
}

// Vectors can be made again by the same embedder; searches use the former ones meanwhile.
func TestVectorsAreMadeAgain(t *testing.T) {
	s := newSpeaker("speaker/1", 512)
	m := openMemoryWith(t, t.TempDir(), Options{Embedder: s})
	m.chatter("acme", 10)
	m.search("acme", Request{Query: "topic1"})
	m.ok(m.index.RebuildVectors(t.Context()))
	m.until("the second generation", func() bool {
		list, err := m.store.Vectors().Generations()
		m.ok(err)
		return len(list) == 1 && list[0].Number == 2 && list[0].Complete
	})
	if count, most := s.texts(); count != 10 || most != 2 {
		t.Errorf("%d texts embedded, one of them %d times; want 10, each twice", count, most)
	}
	m.opts = Options{}
	m.reopen(func() {})
	if err := m.index.RebuildVectors(t.Context()); !isKind(err, codec.KindConflict) {
		t.Errorf("without an embedder: %v", err)
	}
	answer := m.search("acme", Request{Query: "topic1", Mode: Hybrid})
	if len(answer.Data) != 1 || len(answer.Degraded) != 1 || answer.ModeUsed != Lexical {
		t.Errorf("hybrid without an embedder: %+v", answer)
	}
}

// A search that has its query embedded while others take the place of the vectors goes by the new ones: the former are gone.
func TestASearchGoesByTheVectorsThatAreThereWhenItsQueryIs(t *testing.T) {
	e := heldQueries{newSpeaker("speaker/1", 512), make(chan struct{}, 1), make(chan struct{})}
	m := openMemoryWith(t, t.TempDir(), Options{Embedder: e})
	car := m.capture("acme", talk("my car", "is red"))
	m.ok(m.index.WaitVectors(t.Context(), "acme"))
	found := make(chan *Answer, 1)
	go func() {
		answer, err := m.index.Search(t.Context(), "acme", &Request{Query: "automobile", Mode: Vector})
		if err != nil {
			t.Error(err)
		}
		found <- answer
	}()
	<-e.asked
	m.ok(m.index.RebuildVectors(t.Context()))
	m.until("the former vectors to go", func() bool {
		list, err := m.store.Vectors().Generations()
		m.ok(err)
		return len(list) == 1 && list[0].Number == 2 && list[0].Complete
	})
	close(e.release)
	if answer := <-found; answer == nil || len(answer.Degraded) > 0 || !slices.Equal(exchangesOf(answer), []string{car}) {
		t.Errorf("%+v, want %s", answer, car)
	}
}

// heldQueries is an embedder that answers no query before it is released.
type heldQueries struct {
	*speaker
	asked   chan struct{}
	release chan struct{}
}

func (h heldQueries) Embed(ctx context.Context, account string, use Use, texts []string) ([][]float32, error) {
	if use == ForQuery {
		select {
		case h.asked <- struct{}{}:
		default:
		}
		<-h.release
	}
	return h.speaker.Embed(ctx, account, use, texts)
}

// A start that fails, of a server whose port is taken for instance, has one reason to tell, and this is none.
func TestAStoreThatIsClosedAtOnceIsNoFailureOfItsVectors(t *testing.T) {
	log := &lines{}
	dir, opts := t.TempDir(), Options{Embedder: newSpeaker("speaker/1", 32), Log: slog.New(log)}
	for range 10 {
		st, index, err := openBoth(dir, opts)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(index.Close(), st.Close()); err != nil {
			t.Fatal(err)
		}
	}
	if n := log.count(""); n != 0 {
		t.Errorf("%d lines were logged", n)
	}
}
