package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/bench/provider"
	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/digest"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/search"
)

// What the provider is made to do, and how often beside the others. Faults are a third.
var soakScripts = []struct {
	weight int
	script string
}{
	{30, `text "a plain answer"`},
	{10, `text "one" ; call lookup {"q":"two"} ; usage input=900 cached=600 output=40`},
	{8, `text "word by word, and not at once" ; delay 5ms`},
	{6, `text "the first comes late" ; delay first=100ms`},
	{3, `error 500`},
	{3, `error 429 retry-after=1`},
	{2, `error 529`},
	{2, `error 400`},
	{3, `text "some of it" ; cut after=1`},
	{2, `text "some of it" ; cut after=1 how=reset`},
	{2, `text "some of it" ; error-inside after=1`},
	{2, `reset`},
	{1, `garbage`},
	{1, `html 502`},
}

// soakModels are asked for at every surface that generates, so that every crossing is there.
var soakModels = []string{"gpt-4.1", "gpt-5.5", "claude-opus-4-8", "gemini-3.8-flash", "deepseek-v4-pro"}

const soakWorkers = 16

// soak is mixed traffic against one harness.
type soak struct {
	*harness
	limited string // a key with limits, which some requests have
	routing router.Config
	routes  *router.Router // in use; changed under pausing, for reading or writing

	asked, answered, left, cut, lost atomic.Int64 // requests of clients by what became of them
	reached                          atomic.Int64 // requests that the provider has seen
	resets                           atomic.Int64 // requests that a connection may have ended under before a byte of an answer

	lines   *notes       // one for each exchange; those of ten minutes would be most of what is in memory
	pausing sync.RWMutex // held for reading by each request, for writing while the harness is looked at in rest
}

// TestSoak runs for as long as the variable SOAK says (make soak: ten minutes): every surface and crossing, streams and
// complete answers, embeddings, faults, clients that leave, restarts of the provider and reloads. Afterwards nothing has
// piled up and the books balance.
func TestSoak(t *testing.T) {
	lasts, err := time.ParseDuration(os.Getenv("SOAK"))
	if err != nil {
		t.Skip("set SOAK to how long it is to last, as 10m, or use make soak")
	}
	s := &soak{}
	h, metrics, lines := observed(t, nil, func(p *plan) {
		dir := filepath.Join(p.store.Dir, "index")
		p.store.Digest = digest.Exchange
		p.index = &search.Options{Dir: dir}
		p.provider = provider.Options{FreshIDs: true, Keep: -1, OnRequest: func(provider.Recorded) { s.reached.Add(1) }}
	}, func(p *plan) { s.routing = p.router })
	s.harness, s.lines = h, lines
	s.routing.Providers = soakProviders(h.provider.URL())
	s.limit()
	s.reload()
	defer func() { s.routes.Close() }()

	ctx, stop := context.WithTimeout(context.Background(), lasts)
	defer stop()
	var work sync.WaitGroup
	for worker := range uint64(soakWorkers) {
		work.Go(func() { s.ask(ctx, rand.New(rand.NewPCG(worker, 1))) })
	}
	work.Go(func() { s.disturb(ctx) })

	var rests []rest
	every := max(lasts/8, 5*time.Second)
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-time.After(every):
			rests = append(rests, s.rest(metrics))
			t.Logf("%s; asked %d, answered %d, left %d, cut %d, lost %d", rests[len(rests)-1], s.asked.Load(), s.answered.Load(), s.left.Load(), s.cut.Load(), s.lost.Load())
		}
	}
	work.Wait()
	rests = append(rests, s.rest(metrics))
	s.nothingPilesUp(rests)
	s.booksBalance(metrics())
	s.storeIsSound()
}

func soakProviders(url string) map[string]router.ProviderConfig {
	all := map[string]router.ProviderConfig{}
	for _, name := range []string{"openai", "anthropic", "gemini", "deepseek"} {
		c := router.ProviderConfig{APIKey: serverDefaultKey}.WithSimulated(name, url)
		c.Simulated, c.APIKey = false, serverDefaultKey
		all[name] = c
	}
	return all
}

// limit makes a key whose limits some requests run into.
func (s *soak) limit() {
	secret, _, err := s.store.Keys().Create("acme", store.ScopeWrite, "limited", func(k *store.Key) {
		k.Limits = store.Limits{RequestsPerMinute: 60, Concurrent: 2}
	})
	ok(s.t, err)
	s.limited = secret
}

// ask sends one request after the other until ctx is done.
func (s *soak) ask(ctx context.Context, random *rand.Rand) {
	for ctx.Err() == nil {
		s.pausing.RLock()
		s.askOnce(random)
		s.pausing.RUnlock()
	}
}

func (s *soak) askOnce(random *rand.Rand) {
	on, script := surfaces[random.IntN(len(surfaces))], soakScript(random)
	body := on.body(script, random.IntN(3) > 0)
	if on.name != "embeddings" {
		body = strings.Replace(body, on.model, soakModels[random.IntN(len(soakModels))], 1)
	}
	key := s.key
	if random.IntN(20) == 0 {
		key = s.limited
	}
	ctx, leave := context.WithTimeout(context.Background(), time.Minute)
	defer leave()
	if random.IntN(10) == 0 { // a client that does not wait for the end
		defer time.AfterFunc(time.Duration(random.IntN(40))*time.Millisecond, leave).Stop()
	}
	s.asked.Add(1)
	if script == "reset" {
		s.resets.Add(1)
	}
	response, err := s.client.Do(s.request(ctx, http.MethodPost, on.path, body,
		"Authorization", "Bearer "+key, "X-Service-Chat-Key", fmt.Sprint("thread-", random.IntN(200))))
	if err == nil {
		_, err = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
	}
	switch {
	case err == nil:
		s.answered.Add(1)
	case errors.Is(err, context.Canceled):
		s.left.Add(1)
	case errors.Is(err, io.ErrUnexpectedEOF):
		s.cut.Add(1) // a stream that the provider broke off is cut for the client too
	default:
		s.lost.Add(1)
		s.t.Errorf("%s, %s: %v", on.name, script, err)
	}
}

func soakScript(random *rand.Rand) string {
	total := 0
	for _, c := range soakScripts {
		total += c.weight
	}
	at := random.IntN(total)
	for _, c := range soakScripts {
		if at -= c.weight; at < 0 {
			return c.script
		}
	}
	panic("the weights add up")
}

// disturb restarts the provider, and gives the proxy other routers, while requests go on.
func (s *soak) disturb(ctx context.Context) {
	for turn := 0; ; turn++ {
		select {
		case <-ctx.Done():
			return
		case <-time.After(3 * time.Second):
		}
		s.pausing.RLock()
		s.reload()
		if turn%3 == 2 {
			s.restartProvider()
		}
		s.pausing.RUnlock()
	}
}

func (s *soak) reload() {
	fresh, err := router.New(s.routing)
	if err != nil {
		s.t.Errorf("the proxy gets no other router: %v", err)
		return
	}
	s.proxy.Reroute(fresh)
	if s.routes != nil {
		s.routes.Close()
	}
	s.routes = fresh
}

func (s *soak) restartProvider() {
	s.resets.Add(soakWorkers)
	address := strings.TrimPrefix(s.provider.URL(), "http://")
	if err := s.provider.Close(); err != nil {
		s.t.Errorf("the provider does not stop: %v", err)
	}
	fresh, err := provider.Start(provider.Options{Listen: address, FreshIDs: true, Keep: -1, OnRequest: func(provider.Recorded) { s.reached.Add(1) }})
	if err != nil {
		s.t.Errorf("the provider does not start again: %v", err)
		return
	}
	s.provider = fresh
}

// rest is what a harness holds while nobody asks anything.
type rest struct {
	heap       uint64 // bytes
	goroutines int
}

func (r rest) String() string {
	return fmt.Sprintf("in rest: %d KiB of heap, %d goroutines", r.heap>>10, r.goroutines)
}

// rest lets what is open end and what waits be done.
func (s *soak) rest(metrics func() series) rest {
	s.pausing.Lock()
	defer s.pausing.Unlock()
	eventually(s.t, func() error {
		now := metrics()
		waiting := int64(now["mneme_digest_queue"]+now["mneme_store_queue"]) + now.sum("mneme_index_lag", "")
		if open := now["mneme_requests_open"]; open > 0 || waiting > 0 {
			return fmt.Errorf("with nobody asking, %v requests are open and %d operations wait", open, waiting)
		}
		return nil
	})
	s.lines.forget()
	s.client.CloseIdleConnections()
	s.reload() // which lets go of idle connections to the provider
	r := rest{goroutines: runtime.NumGoroutine()}
	eventually(s.t, func() error { // connections take a moment to be let go of on both sides
		now := runtime.NumGoroutine()
		still := now == r.goroutines
		r.goroutines = now
		if !still {
			return errors.New("goroutines come and go with nobody asking")
		}
		time.Sleep(50 * time.Millisecond)
		return nil
	})
	runtime.GC()
	runtime.GC()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	r.heap = memory.HeapAlloc
	return r
}

// What is in rest still differs from one time to the next: the caches of the database fill up, and the pools of libraries keep
// idle workers. Both are small beside what any leak would leave behind of thousands of exchanges a minute.
const (
	cachesFill  = 48 << 20 // bytes
	idleWorkers = 64
)

// nothingPilesUp compares the end with what came after the first quarter.
func (s *soak) nothingPilesUp(rests []rest) {
	first, last := rests[len(rests)/4], rests[len(rests)-1]
	if most := first.heap + cachesFill; last.heap > most {
		s.t.Errorf("the heap grew from %d to %d KiB", first.heap>>10, last.heap>>10)
	}
	if last.goroutines > first.goroutines+idleWorkers {
		s.t.Errorf("%d goroutines became %d", first.goroutines, last.goroutines)
	}
}

// sum adds up the series of a metric whose labels hold a text.
func (s series) sum(name, label string) (total int64) {
	for at, value := range s {
		if strings.HasPrefix(at, name+"{") && strings.Contains(at, label) {
			total += int64(value)
		}
	}
	return total
}

// booksBalance holds what clients saw, what was counted, what is on record and what the provider saw against each other.
func (s *soak) booksBalance(counted series) {
	requests := counted.sum("mneme_requests_total", "")
	limited := counted.sum("mneme_limited_total", "")
	captures := counted.sum("mneme_captures_total", "")
	captured := counted.sum("mneme_captures_total", `"captured"`)
	retries := counted.sum("mneme_upstream_retries_total", "")
	s.t.Logf("requests %d, limited %d, captured %d, retries %d; the provider saw %d", requests, limited, captured, retries, s.reached.Load())

	if seen := s.answered.Load() + s.cut.Load(); requests < seen || requests > s.asked.Load() {
		s.t.Errorf("%d requests were counted; clients sent %d and were answered %d", requests, s.asked.Load(), seen)
	}
	// A connection from the pool that ends without an answer is replaced up to three times by the router, which is no retry.
	most := requests - limited + retries + 3*(s.resets.Load()+retries)
	if complete := counted.sum("mneme_requests_total", `outcome="complete"`); s.reached.Load() < complete || s.reached.Load() > most {
		s.t.Errorf("the provider saw %d requests; %d were sent at most, and %d completed", s.reached.Load(), most, complete)
	}
	onRecord, outcomes := s.outcomes()
	// Not on record are those over a limit, and those whose client had left before.
	early := counted.sum("mneme_requests_total", `outcome="client_closed"`) - outcomes[record.OutcomeClientClosed.String()]
	refused := counted.sum("mneme_requests_total", `outcome="refused"`) - outcomes[record.OutcomeRefused.String()]
	if early < 0 || refused > limited || requests != captures+refused+early {
		s.t.Errorf("%d requests ended; %d were captured, shed, off or refused, %d over their limit of %d, and %d clients left before they were on record",
			requests, captures, refused, limited, early)
	}
	if onRecord != captured {
		s.t.Errorf("%d exchanges are on record, %d were captured", onRecord, captured)
	}
	for outcome, n := range outcomes {
		want := counted.sum("mneme_requests_total", fmt.Sprintf("outcome=%q", outcome))
		switch outcome {
		case record.OutcomeRefused.String():
			want -= refused
		case record.OutcomeClientClosed.String():
			want -= early
		}
		if n != want {
			s.t.Errorf("%d exchanges are on record as %s, %d were counted", n, outcome, want)
		}
	}
	for _, needed := range []string{"complete", "upstream_error", "client_closed"} {
		if outcomes[needed] == 0 {
			s.t.Errorf("no exchange ended as %s: the traffic is not mixed", needed)
		}
	}
}

// outcomes counts the exchanges on record.
func (s *soak) outcomes() (total int64, by map[string]int64) {
	by = map[string]int64{}
	for after := ""; ; {
		page, err := s.store.Archive().Exchanges("acme", record.ExchangeQuery{After: after, Limit: 1000})
		ok(s.t, err)
		for i := range page.Data {
			by[page.Data[i].Outcome.String()]++
			total++
			after = page.Data[i].ID
		}
		if !page.HasMore {
			return total, by
		}
	}
}

func (s *soak) storeIsSound() {
	report, err := s.store.Upkeep().Check(context.Background(), false, func(f store.Finding) { s.t.Errorf("the store has a fault: %+v", f) })
	ok(s.t, err)
	s.t.Logf("the store: %+v", report)
}
