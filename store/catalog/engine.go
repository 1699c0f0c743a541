package catalog

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/internal/wake"
	"github.com/mnemeproxy/mneme/store/search"
)

// Engine finds candidates in copies of turns that it keeps outside the database. A trigger notes the turns whose copies are to be
// changed, whichever process changes them; the copies follow later, at least once each.
type Engine interface {
	Candidates

	// Name distinguishes the engine from others, and is shown to people. It is the same in all processes.
	Name() string

	// Begin deletes all copies of a centre, and notes what the next ones belong to. It fails if the place for them is taken by
	// something else.
	Begin(ctx context.Context, centre, fill string) error

	// Fill returns what the copies belong to; "" if there are none.
	Fill(ctx context.Context) (string, error)

	// Put changes copies, unless the engine has one of a later version. An error means that any of them may not be changed.
	Put(ctx context.Context, changes []Change) ([]Outcome, error)

	// DropAccount deletes all copies of an account. done is false if some may be left.
	DropAccount(ctx context.Context, account store.AccountNumber) (done bool, err error)

	// Refresh lets searches see all changes before it.
	Refresh(ctx context.Context) error
}

// Change is the present state of a turn.
type Change struct {
	Account  store.AccountNumber
	Exchange string
	Version  int64   // later states have higher ones
	Turn     *Copied // nil: it is gone
}

// Copied is what finds a turn.
type Copied struct {
	Began    time.Time
	Terms    []string // of [search.Terms], as [StoredTerm] returns them
	Codes    []int8   // of its vector, see [search.StoredVector.Codes]; nil: it has none
	Embedder string   // that made the vector
}

// Outcome says what has become of a change.
type Outcome int

// The outcomes.
const (
	CopyDone    Outcome = iota // the engine has this state, or a later one
	CopyRefused                // the engine does not take it
	CopyLater                  // the engine could not take it now
)

// Names of rows and values of meta: what the copies of the engine belong to, that they do not belong to anything yet, and the engine.
const (
	fillName   = "fill"
	noFill     = "new"
	engineName = "engine"
)

// copies are the copies of an engine, as a process knows them.
type copies struct {
	noted wake.Signal // there may be something to change

	failures, refused atomic.Int64

	mu      sync.Mutex
	fill    string    // "": unknown
	checked time.Time // when the engine said so
	rest    time.Time // until which it is not asked
	failed  int       // times in a row
}

// Limits of rests after failures, each twice as long as the one before.
const (
	firstRest   = time.Second
	longestRest = 30 * time.Second
	checkEach   = time.Minute // whether the copies are still there
)

// resting reports whether the engine has failed just now.
func (k *copies) resting() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return time.Now().Before(k.rest)
}

// tolerated returns how long a change may wait before searches of the account use Postgres: not at all from a failure of the engine on,
// until what has waited meanwhile is there.
func (k *copies) tolerated() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.failed > 0 {
		return 0
	}
	return lateNote
}

// known returns what the copies belong to; fresh reports whether that was checked lately.
func (k *copies) known() (fill string, fresh bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.fill, k.fill != "" && time.Since(k.checked) < checkEach
}

func (k *copies) found(fill string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.fill, k.checked = fill, time.Now()
}

// fail begins a rest, and reports whether it is the first one in a row.
func (k *copies) fail(err error) (first bool) {
	k.failures.Add(1)
	rest := firstRest
	var asked interface{ Wait() time.Duration }
	k.mu.Lock()
	defer k.mu.Unlock()
	for range min(k.failed, 5) {
		rest *= 2
	}
	rest = min(rest, longestRest)
	if errors.As(err, &asked) {
		rest = max(rest, asked.Wait())
	}
	k.failed++
	k.fill, k.rest = "", time.Now().Add(rest) // it may have lost them
	return k.failed == 1
}

// succeed ends the rests, and reports whether there were any.
func (k *copies) succeed() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	failed := k.failed > 0
	k.failed, k.rest = 0, time.Time{}
	return failed
}

// engineFailed notes a failure of the engine.
func (c *Catalog) engineFailed(err error) {
	if c.copies.fail(err) {
		c.Log.Warn("the search engine fails; searches take their candidates from Postgres, and it gets what it misses when it is back", "error", err)
	}
}

// lateNote is longer than a change normally waits, which is up to two seconds.
const lateNote = 10 * time.Second

// Why a search uses Postgres although there is an engine.
const (
	engineAway   = "search engine: it fails; the candidates are from Postgres"
	engineFilled = "search engine: it does not have all turns of the account yet; the candidates are from Postgres"
)

// find returns the candidates of a search, from the engine if it has copies of all turns of the account. note says why it does not
// find them.
func (c *Catalog) find(ctx context.Context, account string, number store.AccountNumber, wanted *search.Wanted) (ids []string, note string, err error) {
	if c.Engine != nil {
		fill, _ := c.copies.known()
		note, err = c.complete(ctx, number, fill)
		if err != nil {
			return nil, "", err
		}
		if note == "" {
			ids, err := c.candidates(ctx, account, number, wanted, inEngine{c.Engine, c.pool})
			var failed *engineError
			if !errors.As(err, &failed) || ctx.Err() != nil {
				return ids, "", err
			}
			c.engineFailed(failed.cause)
			note = engineAway
		}
	}
	ids, err = c.candidates(ctx, account, number, wanted, inTables{c.pool})
	return ids, note, err
}

// complete returns why the engine cannot be used for an account; "": it can.
func (c *Catalog) complete(ctx context.Context, number store.AccountNumber, fill string) (note string, err error) {
	if c.copies.resting() {
		return engineAway, nil
	}
	var same, late bool
	err = c.pool.QueryRow(ctx, `select exists (select from meta where name = $1 and value = $2),
		exists (select from unindexed where account = $3 and noted < now() - $4::interval)`, fillName, fill, int64(number), c.copies.tolerated()).Scan(&same, &late)
	if err == nil && (!same || late) {
		note = engineFilled
	}
	return note, err
}

// engineError is an error of the engine, for which a search uses Postgres instead.
type engineError struct{ cause error }

func (e *engineError) Error() string { return e.cause.Error() }
func (e *engineError) Unwrap() error { return e.cause }

func ofEngine(err error) error {
	if err == nil {
		return nil
	}
	return &engineError{err}
}

// inEngine are candidates from an engine. The turns before and after them are found in the database.
type inEngine struct {
	engine Engine
	pool   *pgxpool.Pool
}

func (f inEngine) Measure(ctx context.Context, account store.AccountNumber, w *search.Wanted) error {
	return ofEngine(f.engine.Measure(ctx, account, w))
}

func (f inEngine) Words(ctx context.Context, account store.AccountNumber, w *search.Wanted) ([]string, error) {
	ids, err := f.engine.Words(ctx, account, w)
	if err != nil || len(w.Scored) == 0 || w.Demand != nil {
		return ids, ofEngine(err)
	}
	find := candidates{f.pool, account, w}
	beside, err := find.ids(ctx, `
		select beside.id from unnest($2::text[]) h (id) join exchanges x on x.account = $1 and x.id = h.id, lateral (
			(select id from exchanges where account = $1 and session = x.session and id < x.id order by id desc limit 1) union all
			(select id from exchanges where account = $1 and session = x.session and id > x.id order by id limit 1)) beside`,
		int64(account), ids[:min(besideTurns, len(ids))])
	return append(ids, beside...), err // reading them removes duplicates
}

func (f inEngine) Alike(ctx context.Context, account store.AccountNumber, w *search.Wanted, q *search.VectorQuery) ([]string, error) {
	ids, err := f.engine.Alike(ctx, account, w, q)
	return ids, ofEngine(err)
}
