package catalog_test

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/mnemeproxy/mneme/store/catalog"
	"github.com/mnemeproxy/mneme/store/catalog/postgrestest"
	"github.com/mnemeproxy/mneme/store/digest"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/search"
)

// topics is an embedder that knows what words are about, and counts the texts that it embeds.
type topics struct {
	identity string

	mu       sync.Mutex
	texts    []string
	accounts []string // of the texts
	fails    bool
	spoil    func(made []float32) []float32 // nil: vectors are as they should be

	begun, goOn chan struct{} // the embedding of turns begins, and may go on; nil: it does at once
}

// held is an embedder that waits before it embeds turns.
func held(identity string) *topics {
	return &topics{identity: identity, begun: make(chan struct{}, 1), goOn: make(chan struct{})}
}

var topicOf = map[string]int{"car": 0, "automobile": 0, "bread": 1, "loaf": 1, "tax": 2, "levy": 2}

func (e *topics) Identity() string { return e.identity }
func (e *topics) Dimensions() int  { return 16 }

func (e *topics) Embed(ctx context.Context, account string, use search.Use, texts []string) ([][]float32, error) {
	if use == search.ForDocument && e.goOn != nil {
		select {
		case e.begun <- struct{}{}:
		default:
		}
		select {
		case <-e.goOn:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.fails {
		return nil, errors.New("the model is away")
	}
	made := make([][]float32, len(texts))
	for i, text := range texts {
		made[i] = make([]float32, 16)
		made[i][15] = 0.1 // what all have in common
		for word := range strings.FieldsSeq(text) {
			if topic, known := topicOf[word]; known {
				made[i][topic]++
			}
		}
		if e.spoil != nil {
			made[i] = e.spoil(made[i])
		}
	}
	if use == search.ForDocument {
		e.accounts = append(e.accounts, account)
		e.texts = append(e.texts, texts...)
	}
	return made, nil
}

func (e *topics) embedded() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.texts)
}

func (e *topics) spoils(spoil func([]float32) []float32) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.spoil = spoil
}

func (e *topics) fail(fails bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.fails = fails
}

// embeds has turns embedded by an embedder, and waits for those that there are.
func (s *summarized) embeds(in *catalog.Catalog, e search.Embedder) {
	s.t.Helper()
	check(s.t, catalog.VectorsOf(in).Start(s.t.Context(), e))
	s.embedded()
}

// embedded waits until all turns are embedded.
func (s *summarized) embedded() {
	s.t.Helper()
	eventually(s.t, "the turns are embedded", func() bool { return s.count("unembedded") == 0 })
}

func (s *summarized) count(table string) (rows int) {
	s.t.Helper()
	check(s.t, s.db.QueryRow(s.t.Context(), "select count(*) from mneme."+table).Scan(&rows))
	return rows
}

// finds returns the exchanges that a search finds.
func (s *summarized) finds(in *catalog.Catalog, r search.Request) (ids []string, answer *search.Answer) {
	s.t.Helper()
	answer, err := in.Search(s.t.Context(), "acme", &r)
	check(s.t, err)
	for _, hit := range answer.Data {
		ids = append(ids, hit.Exchange)
	}
	return ids, answer
}

// TestTheVectorsOfTurns holds a centre to what it promises of vectors.
func TestTheVectorsOfTurns(t *testing.T) {
	server := postgrestest.Shared(t)
	for name, promise := range map[string]func(*testing.T, *summarized){
		"turns are found by likeness":                              foundByLikeness,
		"an account is compared with its own vectors":              vectorsOfOneAccount,
		"vectors of another embedder are not used":                 otherEmbedder,
		"turns from a time without an embedder are embedded later": embeddedLater,
		"workers share the embedding":                              sharedEmbedding,
		"a failing embedder is tried again":                        failingEmbedder,
		"a worker with another embedder says so once":              otherEmbedderOfAWorker,
		"a process that is late does not replace a later vector":   lateVector,
		"what is erased while it is embedded leaves no vector":     erasedMeanwhile,
		"a worker embeds nothing for an account it does not know":  unknownAccount,
		"a process that is stopped keeps nothing from others":      stoppedEmbedding,
		"vectors that are none are not stored":                     spoiltVectors,
	} {
		t.Run(name, func(t *testing.T) { promise(t, openSummarized(t, server)) })
	}
}

// Turns are found by what they mean: those from before there was an embedder, and later ones, until they are erased.
func foundByLikeness(t *testing.T, s *summarized) {
	car, session := s.say("a", "where did I leave the car")
	s.say("b", "is this bread still good")
	e := &topics{identity: "topics"}
	s.embeds(s.centre, e)
	tax, _ := s.say("c", "when is the tax due")
	s.embedded()
	for query, want := range map[string]string{"automobile": car, "levy": tax} {
		if found, answer := s.finds(s.centre, search.Request{Query: query}); !slices.Equal(found, []string{want}) || answer.ModeUsed != search.Hybrid {
			t.Errorf("%s finds %q in mode %s (%q), want %s", query, found, answer.ModeUsed, answer.Degraded, want)
		}
	}
	if found, _ := s.finds(s.centre, search.Request{Query: "automobile", Mode: search.Lexical}); len(found) > 0 {
		t.Errorf("by words alone it finds %q", found)
	}
	elsewhere := search.Filter{Not: &search.Filter{Field: "session", Op: "eq", Value: session}}
	if found, _ := s.finds(s.centre, search.Request{Query: "automobile", Filter: elsewhere}); len(found) > 0 {
		t.Errorf("outside of its session it finds %q", found)
	}
	if status, err := s.centre.Status(t.Context(), "acme"); err != nil || status.Vectors == nil || status.Vectors.Documents != 3 || status.Vectors.Lag != 0 || status.Vectors.Error != "" {
		t.Errorf("the status is %+v (%v)", status.Vectors, err)
	}
	s.erase(record.Selection{Exchanges: []string{car}})
	if found, _ := s.finds(s.centre, search.Request{Query: "automobile"}); len(found) > 0 || s.count("vectors") != 2 {
		t.Errorf("erased it is found in %q, and there are %d vectors", found, s.count("vectors"))
	}
	check(t, s.centre.Rebuild(t.Context()))
	madeAgain(t, s.centre)
	s.embedded()
	if found, _ := s.finds(s.centre, search.Request{Query: "levy"}); !slices.Equal(found, []string{tax}) || e.embedded() != 3 {
		t.Errorf("digested again it is found in %q, and %d texts were embedded", found, e.embedded())
	}
}

// Nothing of one account is compared with the query of another one, and what an account had goes with it.
func vectorsOfOneAccount(t *testing.T, s *summarized) {
	if _, err := s.edge.Accounts().Create("other"); err != nil {
		t.Fatal(err)
	}
	s.say("a", "where did I leave the car")
	s.embeds(s.centre, &topics{identity: "topics"})
	answer, err := s.centre.Search(t.Context(), "other", &search.Request{Query: "automobile", Mode: search.Vector})
	if err != nil || len(answer.Data) > 0 || answer.ModeUsed != search.Vector {
		t.Errorf("another account finds %+v (%v)", answer, err)
	}
	check(t, s.centre.DeleteAccount(t.Context(), "acme"))
	if s.count("vectors") != 0 || s.count("unembedded") != 0 {
		t.Errorf("of a deleted account %d vectors are left", s.count("vectors"))
	}
}

// Vectors of two embedders are never compared. Turns are embedded again when a person says so.
func otherEmbedder(t *testing.T, s *summarized) {
	car, _ := s.say("a", "where did I leave the car")
	s.embeds(s.centre, &topics{identity: "former"})
	next := &topics{identity: "next"}
	centre := s.openAgain()
	check(t, catalog.VectorsOf(centre).Start(t.Context(), next))
	found, answer := s.finds(centre, search.Request{Query: "automobile"})
	if len(found) > 0 || answer.ModeUsed != search.Lexical || !strings.Contains(strings.Join(answer.Degraded, ""), "mneme reindex vectors") {
		t.Errorf("with vectors of another embedder it finds %q in mode %s: %q", found, answer.ModeUsed, answer.Degraded)
	}
	check(t, catalog.VectorsOf(centre).Rebuild(t.Context()))
	s.embedded()
	if found, _ := s.finds(centre, search.Request{Query: "automobile"}); !slices.Equal(found, []string{car}) || next.embedded() != 1 {
		t.Errorf("made again they find %q; %d texts were embedded", found, next.embedded())
	}
}

// A centre without an embedder has none of its turns embedded. Those of that time are, once it has one again.
func embeddedLater(t *testing.T, s *summarized) {
	s.say("a", "where did I leave the car")
	before, e := &topics{identity: "topics"}, &topics{identity: "topics"}
	s.embeds(s.centre, before)
	without := s.openAgain()
	check(t, catalog.VectorsOf(without).Start(t.Context(), nil))
	bread, _ := s.say("b", "is this bread still good")
	if n := s.count("unembedded"); n > 0 {
		t.Fatalf("%d turns wait for an embedder that there is not", n)
	}
	again := s.openAgain()
	s.embeds(again, e)
	if found, _ := s.finds(again, search.Request{Query: "loaf"}); !slices.Equal(found, []string{bread}) || before.embedded()+e.embedded() != 2 {
		t.Errorf("it finds %q; %d texts were embedded", found, before.embedded()+e.embedded())
	}
}

// Several processes share the work, and embed no turn twice.
func sharedEmbedding(t *testing.T, s *summarized) {
	const turns = 100
	for i := range turns {
		s.say("a", strings.Repeat("car ", i+1))
	}
	var workers []*topics
	for range 3 {
		e := &topics{identity: "topics"}
		workers = append(workers, e)
		check(t, catalog.VectorsOf(openWorker(t, s.url)).Start(t.Context(), e))
	}
	e := &topics{identity: "topics"}
	s.embeds(s.centre, e)
	total := e.embedded()
	for _, worker := range workers {
		total += worker.embedded()
	}
	if total != turns || s.count("vectors") != turns {
		t.Errorf("%d texts were embedded of %d turns, which have %d vectors", total, turns, s.count("vectors"))
	}
}

// While the embedder fails, searches are by words and say so. What it has missed is embedded once it is back.
func failingEmbedder(t *testing.T, s *summarized) {
	e := &topics{identity: "topics"}
	e.fail(true)
	check(t, catalog.VectorsOf(s.centre).Start(t.Context(), e))
	car, _ := s.say("a", "where did I leave the car")
	found, answer := s.finds(s.centre, search.Request{Query: "car"})
	if !slices.Equal(found, []string{car}) || answer.ModeUsed != search.Lexical || len(answer.Degraded) == 0 {
		t.Errorf("it finds %q in mode %s: %q", found, answer.ModeUsed, answer.Degraded)
	}
	e.fail(false)
	s.embedded()
	eventually(t, "searches compare vectors again", func() bool {
		found, _ := s.finds(s.centre, search.Request{Query: "automobile"})
		return slices.Equal(found, []string{car})
	})
}

// A worker with another embedder than the centre embeds nothing, until the centre has changed over to it.
func otherEmbedderOfAWorker(t *testing.T, s *summarized) {
	var log lines
	id, err := catalog.CentreOf(t.Context(), s.url)
	check(t, err)
	w, err := catalog.Open(t.Context(), catalog.Options{URL: s.url, Centre: id, Digest: digest.Exchange, Log: slog.New(slog.NewTextHandler(&log, nil))})
	check(t, err)
	defer w.Close()
	worker, next := catalog.VectorsOf(w), &topics{identity: "next"}
	s.say("a", "where did I leave the car")
	s.embeds(s.centre, &topics{identity: "former"})
	check(t, worker.Start(t.Context(), next))
	eventually(t, "the worker says that it embeds nothing", worker.Idle)
	for i := range 3 {
		s.say("a", strings.Repeat("car ", i+1))
		s.embedded()
	}
	if said := log.having("embeds no turns"); len(said) != 1 || !strings.Contains(said[0], "stored=former configured=next") || next.embedded() > 0 {
		t.Errorf("%d texts were embedded; the log says %q", next.embedded(), said)
	}
	again := s.openAgain()
	check(t, catalog.VectorsOf(again).Start(t.Context(), next))
	check(t, catalog.VectorsOf(again).Rebuild(t.Context()))
	s.embedded()
	eventually(t, "the worker embeds", func() bool { return !worker.Idle() })
	if said := log.having("embeds no turns"); len(said) != 1 {
		t.Errorf("the log says %q", said)
	}
}

// One process has claimed a turn and takes long. The turn changes, and another process embeds it.
func lateVector(t *testing.T, s *summarized) {
	car, _ := s.say("a", "where did I leave the car")
	bread, _ := s.say("b", "is this bread still good")
	late := held("topics")
	check(t, catalog.VectorsOf(s.centre).Start(t.Context(), late))
	<-late.begun
	_, err := s.db.Exec(t.Context(), `update mneme.turns t set terms = o.terms, record = o.record from mneme.turns o
		where t.exchange = $1 and o.account = t.account and o.exchange = $2`, car, bread)
	check(t, err)
	check(t, catalog.VectorsOf(openWorker(t, s.url)).Start(t.Context(), &topics{identity: "topics"}))
	eventually(t, "the other process has embedded the turn as it is", func() bool {
		var done bool
		check(t, s.db.QueryRow(t.Context(), "select exists (select from mneme.vectors where exchange = $1) and not exists (select from mneme.unembedded where exchange = $1)", car).Scan(&done))
		return done
	})
	close(late.goOn)
	s.embedded()
	var vectors int
	check(t, s.db.QueryRow(t.Context(), "select count(distinct value) from mneme.vectors").Scan(&vectors))
	if vectors != 1 {
		t.Error("the turn has the vector of what it said before")
	}
}

func erasedMeanwhile(t *testing.T, s *summarized) {
	car, _ := s.say("a", "where did I leave the car")
	s.say("b", "is this bread still good")
	slow := held("topics")
	check(t, catalog.VectorsOf(s.centre).Start(t.Context(), slow))
	<-slow.begun
	s.erase(record.Selection{Exchanges: []string{car}})
	slow.goOn <- struct{}{}
	s.embedded()
	if n := s.count("vectors"); n != 1 {
		t.Errorf("there are %d vectors, want that of the turn that is left", n)
	}
	s.say("c", "when is the tax due")
	<-slow.begun
	check(t, s.centre.DeleteAccount(t.Context(), "acme"))
	close(slow.goOn)
	s.centre.Close()
	if vectors, waiting := s.count("vectors"), s.count("unembedded"); vectors+waiting != 0 {
		t.Errorf("of a deleted account %d vectors are left, and %d turns to embed", vectors, waiting)
	}
}

// A worker reads the accounts at intervals. A turn of one that it does not know yet would go to the embedder without the
// account's own credential. Turns of others are embedded meanwhile.
func unknownAccount(t *testing.T, s *summarized) {
	_, err := s.edge.Accounts().Create("other")
	check(t, err)
	check(t, catalog.VectorsOf(s.centre).Start(t.Context(), &topics{identity: "topics", fails: true}))
	s.say("a", "where did I leave the car")
	askIn(t, s.edge, "other", "a", "is this bread still good")
	s.say("a", "when is the tax due")
	check(t, s.centre.Wait(t.Context(), "other"))
	eventually(t, "workers can read both accounts", func() bool { return s.count("accounts") == 2 })
	s.centre.Close()
	_, err = s.db.Exec(t.Context(), "delete from mneme.accounts where name = 'acme'")
	check(t, err)
	e := &topics{identity: "topics"}
	check(t, catalog.VectorsOf(openWorker(t, s.url)).Start(t.Context(), e))
	eventually(t, "what is known is embedded", func() bool { return s.count("unembedded") <= 2 })
	number, err := s.edge.Accounts().Number("acme")
	check(t, err)
	_, err = s.db.Exec(t.Context(), "insert into mneme.accounts values ('acme', $1)", int64(number))
	check(t, err)
	s.embedded()
	if !slices.Equal(slices.Compact(e.accounts), []string{"other", "acme"}) {
		t.Errorf("texts were embedded for the accounts %q", e.accounts)
	}
}

// A process that is stopped after it has claimed a turn, and before it asks the embedder, keeps it from no other process.
func stoppedEmbedding(t *testing.T, s *summarized) {
	check(t, catalog.VectorsOf(s.centre).Start(t.Context(), &topics{identity: "topics"}))
	held, err := s.db.Begin(t.Context())
	check(t, err)
	_, err = held.Exec(t.Context(), "lock table mneme.vectors") // which it reads in between
	check(t, err)
	s.say("a", "where did I leave the car")
	eventually(t, "the turn is claimed", func() bool { return s.count("unembedded where claimed is not null") == 1 })
	s.centre.Close()
	check(t, held.Rollback(t.Context()))
	if s.count("unembedded where claimed is null") != 1 {
		t.Error("the turn is still claimed")
	}
}

// An embedder may answer whatever it likes.
func spoiltVectors(t *testing.T, s *summarized) {
	e := &topics{identity: "topics"}
	e.spoils(func([]float32) []float32 { return make([]float32, 15) })
	check(t, catalog.VectorsOf(s.centre).Start(t.Context(), e))
	car, _ := s.say("a", "where did I leave the car")
	byWords := func(what string) {
		t.Helper()
		found, answer := s.finds(s.centre, search.Request{Query: "car"})
		if !slices.Equal(found, []string{car}) || answer.ModeUsed != search.Lexical || len(answer.Degraded) == 0 {
			t.Errorf("%s: it finds %q in mode %s: %q", what, found, answer.ModeUsed, answer.Degraded)
		}
	}
	byWords("vectors of another length")
	e.spoils(func(made []float32) []float32 { made[0] = float32(math.NaN()); return made })
	s.embedded() // it has none
	byWords("vectors of no numbers")
	var kept int
	check(t, s.db.QueryRow(t.Context(), "select count(*) from mneme.vectors where length(signs) > 0").Scan(&kept))
	if kept > 0 {
		t.Errorf("%d of them are stored", kept)
	}
	e.spoils(nil)
	bread, _ := s.say("b", "is this bread still good")
	s.embedded()
	eventually(t, "searches compare vectors again", func() bool {
		found, _ := s.finds(s.centre, search.Request{Query: "loaf"})
		return slices.Equal(found, []string{bread})
	})
}

// lines keeps what is logged.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

// having returns the lines that have some text.
func (l *lines) having(text string) (found []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}

// openAgain opens the centre once more, as its next start does.
func (s *summarized) openAgain() *catalog.Catalog {
	s.t.Helper()
	c, err := catalog.Open(s.t.Context(), s.centre.Options)
	check(s.t, err)
	s.t.Cleanup(c.Close)
	return c
}
