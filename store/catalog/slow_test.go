package catalog_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/store/catalog"
	"github.com/mnemeproxy/mneme/store/catalog/pack"
	"github.com/mnemeproxy/mneme/store/catalog/pack/s3test"
	"github.com/mnemeproxy/mneme/store/catalog/postgrestest"
	"github.com/mnemeproxy/mneme/store/digest"
	"github.com/mnemeproxy/mneme/store/engine"
	"github.com/mnemeproxy/mneme/store/internal/identity"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/ship"
)

// slowBucket is a bucket that keeps the next request of a method for a pack until it is let go.
type slowBucket struct {
	url  string
	next atomic.Pointer[keptRequest]
}

type keptRequest struct {
	method    string
	came, let chan struct{}
}

func newSlowBucket(t *testing.T) *slowBucket {
	t.Helper()
	service := s3test.Start(t)
	s := &slowBucket{url: service.Bucket(t)}
	at, err := url.Parse(os.Getenv("AWS_ENDPOINT_URL_S3"))
	check(t, err)
	proxy := httputil.NewSingleHostReverseProxy(at)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if kept := s.next.Load(); kept != nil && kept.method == r.Method && strings.HasSuffix(r.URL.Path, ".pack") && s.next.CompareAndSwap(kept, nil) {
			close(kept.came)
			<-kept.let
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	t.Setenv("AWS_ENDPOINT_URL_S3", front.URL)
	return s
}

func (s *slowBucket) keep(t *testing.T, method string) *keptRequest {
	t.Helper()
	kept := &keptRequest{method, make(chan struct{}), make(chan struct{})}
	s.next.Store(kept)
	return kept
}

func (s *slowBucket) open(t *testing.T, accounts *engine.Engine, database string) *catalog.Catalog {
	t.Helper()
	packs, err := pack.Open(t.Context(), s.url, postgrestest.Centre, 0) // remembers nothing
	check(t, err)
	c, err := catalog.Open(t.Context(), catalog.Options{
		URL: database, Centre: postgrestest.Centre, Packs: packs, Cache: accounts.Shared(), Digest: digest.Exchange,
		Retention: func(string) identity.Retention { return identity.Retention{} },
	})
	check(t, err)
	t.Cleanup(c.Close)
	return c
}

// shipped gives what an edge has recorded after an entry, in one frame.
func frameAfter(t *testing.T, edge *engine.Engine, after uint64) *ship.Frame {
	t.Helper()
	f, err := edge.Shipping().Next(t.Context(), after)
	check(t, err)
	return &f
}

// While the pack of one edge's frame is being written, another edge's frames of the same account are stored, with an object that the
// first one has too. Its bodies are then in a second pack, and the first pack is deleted.
func TestASlowBucketHoldsUpOnlyWhatWaitsForIt(t *testing.T) {
	bucket, database := newSlowBucket(t), postgrestest.Shared(t).Memory(t)
	one, other := openEngine(t, 1), openEngine(t, 2)
	for _, e := range []*engine.Engine{one, other} {
		check(t, e.Shipping().Begin(t.Context()))
	}
	c := bucket.open(t, openEngine(t, 0), database)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	common := strings.Repeat("what both edges are asked is an object of its own ", 200)
	slow := ask(t, one, common)
	kept := bucket.keep(t, http.MethodPut)
	taken := make(chan error, 1)
	f := frameAfter(t, one, 0)
	go func() {
		done, err := c.Take(ctx, f, noneAside)
		if err == nil && !done {
			t.Error("the frame whose pack was slow is not taken")
		}
		taken <- err
	}()
	<-kept.came
	quick := ask(t, other, common)
	done, err := c.Take(ctx, frameAfter(t, other, 0), noneAside)
	close(kept.let)
	if err != nil || !done {
		t.Fatalf("a frame waits for the pack of another one: %v (%v)", done, err)
	}
	check(t, <-taken)
	for _, id := range []string{slow, quick} {
		if x, err := c.Exchange("acme", id); err != nil || !strings.Contains(string(x.RawRequest), common) {
			t.Errorf("%s cannot be read: %v", id, err)
		}
	}
	db := connect(t, database)
	eventually(t, "the pack that was written for nothing is deleted", func() bool {
		var packs, kept int
		check(t, db.QueryRow(t.Context(), "select count(*), count(*) filter (where state = 'kept') from mneme.packs").Scan(&packs, &kept))
		return packs == 2 && kept == 2
	})
}

// While the body of a turn is read to be digested, the next turn of its session is stored, and another session is merged into it.
func TestADigestThatReadsHoldsNoSession(t *testing.T) {
	bucket, database := newSlowBucket(t), postgrestest.Shared(t).Memory(t)
	accounts, edge := openEngine(t, 0), openEngine(t, 1)
	check(t, edge.Shipping().Begin(t.Context()))
	c := bucket.open(t, accounts, database)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	first, apart := askIn(t, edge, "acme", "a", "first"), askIn(t, edge, "acme", "b", "apart")
	kept := bucket.keep(t, http.MethodGet)
	f := frameAfter(t, edge, 0)
	_, err := c.Take(ctx, f, noneAside)
	check(t, err)
	<-kept.came
	next := askIn(t, edge, "acme", "a", "next")
	_, err = c.Take(ctx, frameAfter(t, edge, f.Last), noneAside)
	session := func(exchange string) string {
		x, err := c.ExchangeInfo("acme", exchange)
		check(t, err)
		return x.Session
	}
	if err == nil {
		_, err = c.MergeSession(ctx, "acme", session(apart), session(first))
	}
	close(kept.let)
	if err != nil {
		t.Fatalf("a session is held while a body is read: %v", err)
	}
	check(t, c.Wait(t.Context(), "acme"))
	timeline, err := c.Timeline("acme", session(next), record.TimelineQuery{})
	check(t, err)
	if len(timeline.Data) != 3 {
		t.Errorf("the session has %d turns, want 3", len(timeline.Data))
	}
	for i := range timeline.Data {
		if timeline.Data[i].Turn == nil {
			t.Errorf("turn %d is not digested", i)
		}
	}
}
