package clustertest

import (
	"testing"

	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/catalog"
	"github.com/mnemeproxy/mneme/store/catalog/pack"
	"github.com/mnemeproxy/mneme/store/catalog/postgrestest"
	"github.com/mnemeproxy/mneme/store/digest"
	"github.com/mnemeproxy/mneme/store/redact"
	"github.com/mnemeproxy/mneme/store/storetest"
)

// Postgres returns a centre whose archive is a database of the server, with a bucket if one is named.
func Postgres(t *testing.T, server *postgrestest.Server, bucket string) Centre {
	t.Helper()
	e := openEngine(t, 0)
	url := server.Memory(t)
	id, err := catalog.MakeCentre(t.Context(), url, store.NewCentreID())
	check(t, err)
	var packs *pack.Packs
	if bucket != "" {
		packs, err = pack.Open(t.Context(), bucket, id, 1<<20)
		check(t, err)
	}
	c, err := catalog.Open(t.Context(), catalog.Options{
		URL: url, Packs: packs, Centre: id, Cache: e.Shared(), Retention: e.Archive().RetentionOf,
		Redactor: func(account string) *redact.Redactor { return e.Credentials().Redactor(account) },
		Digest:   digest.Exchange, Summaries: true, Log: logOf(t),
	})
	check(t, err)
	t.Cleanup(c.Close)
	for _, account := range storetest.Accounts() {
		_, err := e.Accounts().Create(account)
		check(t, err)
	}
	return Centre{
		Arrivals: c, Archive: inPostgres{c, c.Events}, Roster: catalog.RosterOf(c), Erasures: c.Erased(),
		Recall: recalled{c, catalog.RecalledOf(c), e.Notes()}, Summaries: catalog.SummariesOf(c),
	}
}

// recalled combines a catalog with the notes beside it.
type recalled struct {
	*catalog.Catalog
	catalog.Recalled
	notes
}

// notes are the values that a centre keeps beside its archive.
type notes interface {
	Recall(account, name string) (value []byte)
	Keep(account, name string, value []byte)
}

// inPostgres combines reads, searches and events of a catalog.
type inPostgres struct {
	*catalog.Catalog
	*catalog.Events
}
