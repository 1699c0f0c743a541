package catalog_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/store/catalog"
	"github.com/mnemeproxy/mneme/store/catalog/postgrestest"
	"github.com/mnemeproxy/mneme/store/digest"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/search"
)

func madeAgain(t *testing.T, c *catalog.Catalog) {
	t.Helper()
	eventually(t, "everything is made again", func() bool {
		status, err := c.Status(t.Context(), "acme")
		check(t, err)
		return status.Lag == 0
	})
}

// A backup reads the tables for as long as it likes. Turns are made again meanwhile, and are found until they are.
func TestTurnsAreFoundUntilTheyAreMadeAgain(t *testing.T) {
	url, edge := postgrestest.Shared(t).Memory(t), openEngine(t, 0)
	check(t, edge.Shipping().Begin(t.Context()))
	var again atomic.Bool
	begun, held := make(chan struct{}), make(chan struct{})
	begin, release := sync.OnceFunc(func() { close(begun) }), sync.OnceFunc(func() { close(held) })
	c := openCatalogThat(t, edge, url, func(x *record.Exchange) (record.Digest, error) {
		if again.Load() {
			begin()
			<-held
		}
		return digest.Exchange(x)
	})
	t.Cleanup(release) // before the centre is closed
	ask(t, edge, "question")
	f, err := edge.Shipping().Next(t.Context(), 0)
	check(t, err)
	take(t, c, &f)
	check(t, c.Wait(t.Context(), "acme"))
	isFound := func() bool {
		found, err := c.Search(t.Context(), "acme", &search.Request{Query: "question"})
		check(t, err)
		return len(found.Data) == 1
	}
	backup, err := connect(t, url).Begin(t.Context())
	check(t, err)
	_, err = backup.Exec(t.Context(), "lock table mneme.exchanges, mneme.turns, mneme.histories in access share mode")
	check(t, err)

	again.Store(true)
	soon, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	check(t, c.Rebuild(soon))
	<-begun
	if !isFound() {
		t.Error("a turn is not found while it is made again")
	}
	release()
	madeAgain(t, c)
	if !isFound() {
		t.Error("a turn is not found once it is made again")
	}
}
