package catalog

import (
	"context"

	"github.com/mnemeproxy/mneme/store/record"
)

// Recalled is what recalling from a catalog needs besides its searches and reads.
type Recalled struct{ catalog *database }

// Beside runs work in its own goroutine, whose context ends when the catalog is closed; Close waits for it. It reports
// whether the catalog is still open.
func (r Recalled) Beside(work func(ctx context.Context)) bool {
	c := r.catalog
	c.closing.Lock()
	defer c.closing.Unlock()
	if c.life.Err() != nil {
		return false
	}
	c.running.Go(func() { work(c.life) })
	return true
}

// SessionKnownAs returns the session of an account that has an id, its own or one from a client; "" if none has. It is
// the session with the exchanges, should that one be merged into another.
func (r Recalled) SessionKnownAs(account, id string) (session string) {
	c := r.catalog
	number, err := c.accounts.Number(account)
	if err != nil || id == "" {
		return ""
	}
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	if session = sessionID(id); session == "" {
		_ = c.pool.QueryRow(ctx, `select l.session from unnest($2::bytea[]) with ordinality k (key, place)
			join links l on l.account = $1 and l.key = k.key order by k.place limit 1`, int64(number), record.ClientLinks(number, id)).Scan(&session)
	}
	if s, err := c.withExchanges(account, session); err == nil {
		return s.ID
	}
	return session
}
