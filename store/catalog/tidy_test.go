package catalog_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
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
	between := beforeBucket(t, to, func(w http.ResponseWriter, r *http.Request) (refused bool) {
		if r.Method == http.MethodDelete && opened.Load() {
			mu.Lock()
			deleted[r.URL.Path]++
			mu.Unlock()
			if first.CompareAndSwap(false, true) {
				close(held)
				<-release
			}
		}
		return false
	})
	c := openCentre(t, server, service)
	t.Setenv("AWS_ENDPOINT_URL_S3", between)
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

// The packs of one account can neither be read nor deleted, and come first in every choice.
func TestAnAccountWhosePacksCannotBeReadHoldsUpNoOthersPacks(t *testing.T) {
	server, service := postgrestest.Shared(t), s3test.Start(t)
	to, err := url.Parse(os.Getenv("AWS_ENDPOINT_URL_S3"))
	check(t, err)
	c := openCentre(t, server, service)
	db := connect(t, c.database)
	var folder string
	check(t, db.QueryRow(t.Context(), "select '/' || number || '/' from mneme.accounts").Scan(&folder))
	_, err = c.edge.Accounts().Create("other")
	check(t, err)
	var refused atomic.Int32
	between := beforeBucket(t, to, func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPut || !strings.Contains(r.URL.Path, folder) {
			return false
		}
		refused.Add(1)
		w.WriteHeader(http.StatusForbidden)
		return true
	})
	t.Setenv("AWS_ENDPOINT_URL_S3", between)
	check(t, c.open(t, c.bucket))
	const many = 34 // packs are joined from 32 on
	for n := range uint64(many) {
		c.record(t, n)
		check(t, c.ship(t))
	}
	c.eventually(t, "the packs of the first account are refused", func() bool { return refused.Load() > 0 })
	c.exec(t, `insert into mneme.packs (account, pack, state) select number, 1, 'going' from mneme.accounts`)
	for n := range many {
		askAs(t, c.edge, "other", fmt.Sprint("question ", n))
		check(t, c.ship(t))
	}
	c.eventually(t, "the packs of the other account are joined, and deleted", func() (is bool) {
		check(t, db.QueryRow(t.Context(), `select count(*) filter (where state = 'kept') < 32 and not bool_or(state = 'going') from mneme.packs p
			join mneme.accounts a on a.number = p.account where a.name = 'other'`).Scan(&is))
		return is
	})
	var left int
	check(t, db.QueryRow(t.Context(), `select count(*) from mneme.packs p join mneme.accounts a on a.number = p.account
		where a.name <> 'other' and state = 'kept'`).Scan(&left))
	if left != many {
		t.Errorf("the first account has %d packs, want all %d", left, many)
	}
}

// beforeBucket puts a proxy before a service, and returns its URL. Requests that refuse answers do not reach the service.
func beforeBucket(t *testing.T, to *url.URL, refuse func(http.ResponseWriter, *http.Request) bool) string {
	t.Helper()
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.Host = r.In.Host // which is signed
	}}
	between := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !refuse(w, r) {
			proxy.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(between.Close)
	return between.URL
}
