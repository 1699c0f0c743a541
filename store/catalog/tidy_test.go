package catalog_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mnemeproxy/mneme/store/catalog"
	"github.com/mnemeproxy/mneme/store/catalog/pack/s3test"
	"github.com/mnemeproxy/mneme/store/catalog/postgrestest"
)

// One process is deleting packs, and waits for the service, when others look for packs to delete.
func TestPacksAreDeletedByOneProcess(t *testing.T) {
	server, service := postgrestest.Shared(t), s3test.Start(t)
	to, err := url.Parse(os.Getenv("AWS_ENDPOINT_URL_S3"))
	check(t, err)
	var (
		mu      sync.Mutex
		opened  atomic.Bool // before that, the bucket is tried out
		deleted = make(map[string]int)
		held    = make(chan struct{})
		release = make(chan struct{})
		first   atomic.Bool
	)
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.Host = r.In.Host // which is signed
	}}
	between := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodDelete && opened.Load() {
			mu.Lock()
			deleted[r.URL.Path]++
			mu.Unlock()
			if first.CompareAndSwap(false, true) {
				close(held)
				<-release
			}
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(between.Close)
	c := openCentre(t, server, service)
	t.Setenv("AWS_ENDPOINT_URL_S3", between.URL)
	check(t, c.open(t, c.bucket))
	opened.Store(true)
	const packs = 20
	c.exec(t, `insert into mneme.packs (account, pack, state) select number, i, 'going' from mneme.accounts, generate_series(1, 20) i`)

	ended := make(chan error, 1)
	go func() { ended <- catalog.Remove(t.Context(), c.Catalog) }() // or the one in the background
	<-held
	check(t, catalog.Remove(t.Context(), c.Catalog))
	close(release)
	check(t, <-ended)
	db := connect(t, c.database)
	c.eventually(t, "all packs are deleted", func() bool {
		var left int
		check(t, db.QueryRow(t.Context(), "select count(*) from mneme.packs where state = 'going'").Scan(&left))
		return left == 0
	})
	mu.Lock()
	defer mu.Unlock()
	if len(deleted) != packs {
		t.Errorf("%d packs were deleted, want %d: %v", len(deleted), packs, deleted)
	}
	for path, times := range deleted {
		if times != 1 {
			t.Errorf("%s was deleted %d times", path, times)
		}
	}
}
