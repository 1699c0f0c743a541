package catalog_test

import (
	"crypto/sha256"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/mnemeproxy/mneme/store/catalog"
	"github.com/mnemeproxy/mneme/store/catalog/postgrestest"
)

// buffersOf returns how many buffers a statement reads.
func buffersOf(t *testing.T, db *pgx.Conn, statement string, args ...any) int {
	t.Helper()
	var explained []struct {
		Plan struct {
			Hit  int `json:"Shared Hit Blocks"`
			Read int `json:"Shared Read Blocks"`
		}
	}
	check(t, db.QueryRow(t.Context(), "explain (analyze, buffers, format json) "+statement, args...).Scan(&explained))
	return explained[0].Plan.Hit + explained[0].Plan.Read
}

// Plans are compared at two sizes of the account, whose indexes have the same height.
func TestADigestReadsWhatItNeedsHoweverLargeTheAccountIs(t *testing.T) {
	db := connect(t, postgrestest.Shared(t).Memory(t))
	const exchanges, chain = 100, 4 // each object references the next one of its chain
	var refs []byte
	for n := range exchanges {
		sum := sha256.Sum256(fmt.Append(nil, n*chain))
		refs = append(append(refs, 0), sum[:]...)
	}
	objects := 0
	buffers := func(size int) int {
		t.Helper()
		_, err := db.Exec(t.Context(), `insert into mneme.objects (account, ref, refs, value)
			select 1, '\x00'::bytea || sha256(i::text::bytea),
				case when i % $3 < $3 - 1 then '\x00'::bytea || sha256((i + 1)::text::bytea) else '' end, '\x00'
			from generate_series($1::int, $2::int) i`, objects, size-1, chain)
		check(t, err)
		objects = size
		_, err = db.Exec(t.Context(), "vacuum analyze mneme.objects")
		check(t, err)
		_, err = db.Exec(t.Context(), "set search_path = mneme")
		check(t, err)
		buffersOf(t, db, catalog.ReadStored, 1, refs, []string{}) // reads the tables' descriptions
		return buffersOf(t, db, catalog.ReadStored, 1, refs, []string{})
	}
	small := buffers(30_000)
	if large := buffers(120_000); large > small+small/10 {
		t.Errorf("the objects of %d exchanges take %d buffers, %d in an account four times as large", exchanges, small, large)
	}
}
