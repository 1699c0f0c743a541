package catalog_test

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/mnemeproxy/mneme/store/search/vector"
)

// BenchmarkAlike compares ways to find the turns of an account whose vectors are most like a query: by signs, as searches do, and by
// pgvector, if MNEME_TEST_PGVECTOR names a database on this machine that has the extension. Its tables are made there, and dropped.
func BenchmarkAlike(b *testing.B) {
	address := os.Getenv("MNEME_TEST_PGVECTOR")
	if address == "" {
		b.Skip("NOT MEASURED: set MNEME_TEST_PGVECTOR to the URL of a database on this machine with the extension vector, 0.8 or later")
	}
	for _, turns := range []int{2_000, 20_000, 100_000} {
		b.Run(fmt.Sprintf("turns=%d", turns), func(b *testing.B) {
			d := &drawn{b: b, random: rand.New(rand.NewPCG(7, 7))}
			d.connect(address)
			d.fill(turns)
			for _, way := range ways {
				d.exec(way.before...)
				b.Run(way.name, func(b *testing.B) { d.measure(b, way.query) })
			}
		})
	}
}

// ways are queries for the account $1, with the signs $2 and the vector $3.
var ways = []struct {
	name   string
	before []string
	query  string
}{
	{"signs", nil, `select exchange from drawn_signs v where account = $1 and length(signs) = length($2::varbit) and $3::text <> ''
		order by bit_count(signs # $2::varbit), exchange desc limit 800`},
	{"pgvector=exact", nil, `select exchange from drawn_vectors where account = $1 and $2::varbit is not null order by value <#> $3::text::halfvec(768) limit 200`},
	{
		"pgvector=hnsw",
		[]string{
			"set maintenance_work_mem = '1GB'", "create index on drawn_vectors using hnsw (value halfvec_ip_ops)", "set hnsw.ef_search = 200",
			"set hnsw.iterative_scan = relaxed_order", "set enable_seqscan = off", "set enable_sort = off",
		},
		`select exchange from drawn_vectors where account = $1 and $2::varbit is not null order by value <#> $3::text::halfvec(768) limit 200`,
	},
}

// drawn are random vectors of two accounts, in groups, with most of their variance in some dimensions, as those of texts have it.
type drawn struct {
	b       *testing.B
	random  *rand.Rand
	db      *pgx.Conn
	backend int
	space   *vector.Space
	groups  [][]float32
	vectors [][]float32 // of account 1
}

const drawnDimensions = 768

func (d *drawn) connect(address string) {
	d.b.Helper()
	var err error
	d.db, err = pgx.Connect(d.b.Context(), address)
	if err == nil {
		err = d.db.QueryRow(d.b.Context(), "select pg_backend_pid()").Scan(&d.backend)
	}
	if err == nil {
		d.space, err = vector.NewSpace(drawnDimensions)
	}
	if err != nil {
		d.b.Fatal(err)
	}
	d.exec("create extension if not exists vector", "set jit = off", "set max_parallel_workers_per_gather = 0", "set max_parallel_maintenance_workers = 0")
}

func (d *drawn) exec(statements ...string) {
	d.b.Helper()
	for _, statement := range statements {
		if _, err := d.db.Exec(d.b.Context(), statement); err != nil {
			d.b.Fatal(err)
		}
	}
}

func (d *drawn) draw(scale float64) []float32 {
	x := make([]float32, drawnDimensions)
	for i := range x {
		x[i] = float32(d.random.NormFloat64() * scale / math.Pow(float64(i+1), 0.35))
	}
	return x
}

// next draws a vector of length 1.
func (d *drawn) next() []float32 {
	x, group := d.draw(0.6), d.groups[1+d.random.IntN(len(d.groups)-1)]
	square := 0.0
	for i := range x {
		x[i] += d.groups[0][i] + group[i] // the first is what all have in common
		square += float64(x[i]) * float64(x[i])
	}
	for i := range x {
		x[i] /= float32(math.Sqrt(square))
	}
	return x
}

func (d *drawn) fill(turns int) {
	d.groups = [][]float32{d.draw(0.7)}
	for range 2000 {
		d.groups = append(d.groups, d.draw(0.8))
	}
	d.exec("create temporary table drawn_signs (account bigint, exchange text collate \"C\", signs varbit, value bytea)",
		"create index on drawn_signs (account) include (exchange, signs)",
		"create temporary table drawn_vectors (account bigint, exchange text collate \"C\", value halfvec(768))",
		"alter table drawn_vectors alter value set storage plain", "create index on drawn_vectors (account)")
	for i := range 2 * turns {
		x, account := d.next(), 1+i%2
		if account == 1 {
			d.vectors = append(d.vectors, x)
		}
		signs, stored := d.signs(x)
		batch := new(pgx.Batch)
		batch.Queue("insert into drawn_signs values ($1, $2, $3, $4)", account, strconv.Itoa(i/2), signs, stored)
		batch.Queue("insert into drawn_vectors values ($1, $2, $3::text::halfvec(768))", account, strconv.Itoa(i/2), text(x))
		if err := d.db.SendBatch(d.b.Context(), batch).Close(); err != nil {
			d.b.Fatal(err)
		}
	}
	d.exec("vacuum analyze drawn_signs", "vacuum analyze drawn_vectors")
}

func (d *drawn) signs(x []float32) (pgtype.Bits, []byte) {
	stored, err := d.space.Append(nil, x)
	if err != nil {
		d.b.Fatal(err)
	}
	signs, err := d.space.Signs(stored)
	if err != nil {
		d.b.Fatal(err)
	}
	return pgtype.Bits{Bytes: signs, Len: drawnDimensions, Valid: true}, stored
}

func text(x []float32) string {
	written := make([]string, len(x))
	for i, value := range x {
		written[i] = strconv.FormatFloat(float64(value), 'g', 5, 32)
	}
	return "[" + strings.Join(written, ",") + "]"
}

// measure reports the CPU time of Postgres, and how many of the ten nearest vectors are found.
func (d *drawn) measure(b *testing.B, query string) {
	began, found, wanted := d.used(), 0, 0
	for b.Loop() {
		q := d.next()
		signs, _ := d.signs(q)
		rows, err := d.db.Query(b.Context(), query, 1, signs, text(q))
		if err != nil {
			b.Fatal(err)
		}
		ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		for _, i := range d.nearest(q, 10) {
			wanted++
			if slices.Contains(ids, strconv.Itoa(i)) {
				found++
			}
		}
		b.StartTimer()
	}
	b.ReportMetric(float64((d.used()-began).Microseconds())/float64(b.N), "postgres-µs/search")
	b.ReportMetric(float64(found)/float64(wanted), "recall@10")
}

func (d *drawn) nearest(q []float32, k int) []int {
	likeness, order := make([]float32, len(d.vectors)), make([]int, len(d.vectors))
	for i, x := range d.vectors {
		order[i] = i
		for j, value := range x {
			likeness[i] += value * q[j]
		}
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(likeness[b], likeness[a]) })
	return order[:k]
}

// used returns the CPU time of the connection's process, from the scheduler.
func (d *drawn) used() time.Duration {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", d.backend))
	fields := strings.Fields(string(stat))
	if err != nil || len(fields) == 0 {
		d.b.Skip("the system does not say how much CPU time Postgres uses: it must run on this machine")
	}
	nanoseconds, _ := strconv.ParseInt(fields[0], 10, 64)
	return time.Duration(nanoseconds)
}
