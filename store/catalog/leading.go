package catalog

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// What one of the centres has to do alone is done by the one that leads. It leads for leadFor at a time by the clock of the database,
// and considers itself replaced leadMargin earlier. Each new leader has the next term, which transactions check that only a leader
// may commit: a process that was stopped for a while may not notice that it was replaced.
const (
	leadFor    = 5 * time.Second
	leadMargin = time.Second
	leadEach   = time.Second
	seenEach   = 5 * time.Second
	aliveFor   = 2 * seenEach // after a centre was seen
)

// Lead is the part of a centre in the choice of a leader.
//
// All methods may be called concurrently.
type Lead struct {
	catalog *database
	pool    *pgxpool.Pool // of one connection, so that renewing waits for nothing else

	mu    sync.Mutex
	term  int64         // in which this centre led last
	terms int64         // that there have been, as last read
	until time.Time     // zero: another centre leads, or led last
	away  bool          // the database could not be reached when this centre last stood
	name  string        // of the leader, as last read
	turn  chan struct{} // closed and replaced when this centre begins to lead
}

// openLead has this centre stand for leader.
func (c *database) openLead(ctx context.Context, config *pgxpool.Config) (*Lead, error) {
	config = config.Copy()
	config.MaxConns, config.MinConns = 1, 0
	pool, err := pgxpool.NewWithConfig(context.WithoutCancel(ctx), config)
	if err != nil {
		return nil, err
	}
	l := &Lead{catalog: c, pool: pool, turn: make(chan struct{})}
	err = l.stand(ctx)
	return l, err
}

// sit notes this centre among the others. A store in the place of one that was lost has nothing of what that had.
func (c *database) sit(ctx context.Context, tx pgx.Tx) error {
	if c.worker() {
		return nil
	}
	s := c.Seat
	var name string
	err := tx.QueryRow(ctx, `insert into centres (node, store, name, seen) values ($1, $2, $3, clock_timestamp()) on conflict (node) do update
		set store = excluded.store, name = excluded.name, seen = excluded.seen, gone = null, clean = case when centres.store = excluded.store then centres.clean end
		where centres.store = excluded.store or centres.seen < clock_timestamp() - $4::interval returning name`, int32(s.Node), s.Store, s.Name, aliveFor).Scan(&name)
	if errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("another centre runs with the number %d: give each centre and each edge a cluster.node of its own; if that centre was killed and has lost its data directory, start again in %s", s.Node, aliveFor)
	}
	return err
}

// campaign stands for leader at intervals.
func (l *Lead) campaign(ctx context.Context) {
	seen := time.Now()
	said := false
	for sleep(ctx, leadEach); ctx.Err() == nil; sleep(ctx, leadEach) {
		err := l.stand(ctx)
		if err == nil && time.Since(seen) >= seenEach {
			_, err = l.pool.Exec(ctx, "update centres set seen = now() where node = $1 and store = $2", int32(l.catalog.Seat.Node), l.catalog.Seat.Store)
			seen = time.Now()
		}
		if err != nil && ctx.Err() == nil && !said {
			l.catalog.Log.Warn("this centre cannot lead: the database is unreachable; retrying", "lends_limits", l.Lends() != 0, "error", err)
		}
		said = err != nil
	}
}

// stand makes this centre the leader, for longer if it is, or if there is none.
func (l *Lead) stand(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, leadFor)
	defer cancel()
	asked, process := time.Now(), l.catalog.process
	var term int64
	err := l.pool.QueryRow(ctx, `insert into leader (term, process, name, until) values (1, $1, $2, clock_timestamp() + $3) on conflict (one) do update
		set term = leader.term + case when leader.process = $1 then 0 else 1 end, process = excluded.process, name = excluded.name, until = excluded.until
		where leader.process = $1 or leader.until < clock_timestamp() returning term`, process, l.catalog.Seat.Name, leadFor).Scan(&term)
	if err == nil {
		l.won(term, asked)
		return nil
	}
	var name string
	replaced := errors.Is(err, pgx.ErrNoRows)
	if replaced {
		err = l.pool.QueryRow(ctx, "select name, term from leader").Scan(&name, &term)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if replaced {
		l.until = time.Time{}
	}
	if l.away = err != nil; err == nil {
		l.name, l.terms = name, term
	}
	return err
}

func (l *Lead) won(term int64, asked time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	began := term != l.term || !time.Now().Before(l.until)
	l.term, l.terms, l.until, l.away, l.name = term, term, asked.Add(leadFor-leadMargin), false, l.catalog.Seat.Name
	if began {
		l.catalog.Log.Info("this centre leads", "term", term)
		close(l.turn)
		l.turn = make(chan struct{})
	}
}

// Leads reports whether this centre leads.
func (l *Lead) Leads() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Now().Before(l.until)
}

// Lends returns the term in which this centre lends limits; 0: it does not. While the database cannot be reached, the centre that led
// last continues: no transaction of its own depends on that, and edges would otherwise divide limits evenly.
func (l *Lead) Lends() (term int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Now().Before(l.until) || l.away && !l.until.IsZero() {
		return l.term
	}
	return 0
}

// Leader returns the name of the centre that leads, or led last.
func (l *Lead) Leader() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.name
}

// Terms returns how many terms of leaders there have been, as far as this centre knows.
func (l *Lead) Terms() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.terms
}

// While calls do each time that this centre begins to lead, with a context that ends when it leads no longer, until ctx is done.
func (l *Lead) While(ctx context.Context, do func(context.Context)) {
	for ctx.Err() == nil {
		l.mu.Lock()
		turn, leads, term := l.turn, time.Now().Before(l.until), l.term
		l.mu.Unlock()
		if !leads {
			select {
			case <-ctx.Done():
			case <-turn:
			}
			continue
		}
		leading, lost := context.WithCancel(ctx)
		watching := make(chan struct{})
		go func() {
			defer close(watching)
			defer lost()
			for leading.Err() == nil {
				l.mu.Lock()
				left, same := time.Until(l.until), l.term == term
				l.mu.Unlock()
				if left <= 0 || !same {
					return
				}
				sleep(leading, min(left, leadEach))
			}
		}()
		do(leading)
		lost()
		<-watching
	}
}

// errReplaced is the error of a transaction that only the leader may commit.
var errReplaced = errors.New("another centre leads now")

// fence lets a transaction commit only if this centre leads until then: another one that wants to lead waits for the transaction.
func (l *Lead) fence(ctx context.Context, tx pgx.Tx) error {
	l.mu.Lock()
	term := l.term
	l.mu.Unlock()
	if err := letGo(ctx, tx); err != nil {
		return err
	}
	var leads bool
	err := tx.QueryRow(ctx, "select process = $1 and term = $2 and until > clock_timestamp() from leader for share", l.catalog.process, term).Scan(&leads)
	if err == nil && !leads {
		err = errReplaced
	}
	return err
}

// letGo limits how long others wait for the transaction if the machine of this process has gone.
func letGo(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, "set local idle_in_transaction_session_timeout = '5s'")
	return err
}

// resign has another centre lead at once, and this one no longer count as running.
func (l *Lead) resign(ctx context.Context) {
	l.mu.Lock()
	l.until = time.Time{}
	l.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	s := l.catalog.Seat
	_, _ = l.pool.Exec(ctx, "update leader set until = '-infinity' where process = $1", l.catalog.process) // else it ends by itself
	_, _ = l.pool.Exec(ctx, "update centres set seen = now() - $3::interval where node = $1 and store = $2", int32(s.Node), s.Store, aliveFor)
	l.pool.Close()
}
