package quota

import (
	"sync"
	"time"

	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/ship"
)

// Lender lends parts of limits to servers, so that together they stay within the whole. All of it is in memory:
// per-minute limits start full with the process, and use in a day or month is what [Lender.Settle] says plus what is
// reported from then on. A second lender that is told the same reports may continue at any time.
type Lender struct {
	mu      sync.Mutex
	pools   map[ship.Share]*pool
	servers map[string]time.Time // when they last asked
	swept   time.Time
}

// pool is a limit that is lent.
type pool struct {
	most   int64
	bucket bucket // for a per-minute limit
	used   int64  // in the day or month
	lent   map[string]*lent
}

// lent is one server's part.
type lent struct {
	used   int64 // as it last reported
	out    int64 // that it may use on top, by the latest lease
	before int64 // the same by the lease before, which holds until the server has the latest one
	at     time.Time
}

// mayUse returns what the server may still use on top of its last report.
func (l *lent) mayUse() int64 { return max(l.out, l.before) }

// rest returns what the server may use on top of a new report: by its latest lease if the report confirms it, by either
// otherwise, since the reply may be lost or on its way.
func (l *lent) rest(u *ship.Use) int64 {
	may := l.out
	if u.Counted != l.used {
		may = l.mayUse()
	}
	return may - (u.Used - l.used)
}

// lentFor is how long a silent server keeps its part. By then the server has given up on the lender.
const lentFor = leaseHolds + 5*time.Second

// NewLender returns a lender of unused limits.
func NewLender() *Lender {
	return &Lender{pools: make(map[ship.Share]*pool), servers: make(map[string]time.Time)}
}

// Spending is use of limits in the present day and month.
type Spending map[ship.Share]int64

// Add counts what was used with a key, whose id before rotations is origin, in the hour starting at hour.
func (s Spending) Add(now time.Time, account, key, origin string, hour time.Time, cost record.USD, tokens int64) {
	for limit, used := range map[Limit]int64{BudgetDay: int64(cost), BudgetMonth: int64(cost), TokensPerMonth: tokens} {
		period := periodOf(now, limit)
		if used == 0 || periodOf(hour, limit) != period {
			continue
		}
		if limit == TokensPerMonth {
			s[ship.Share{Limit: string(limit), Key: key, Period: period}] += used
			continue
		}
		s[budgetOf(now, Owner{Account: account}, limit)] += used
		s[budgetOf(now, Owner{Account: account, Key: origin}, limit)] += used
	}
}

// Settle brings the lender to what is on record. Servers report their use sooner than they put it on record, so that a
// higher count of the lender holds.
func (l *Lender) Settle(recorded Spending) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for of, used := range recorded {
		p := l.pool(of)
		p.used = max(p.used, used)
	}
}

func (l *Lender) pool(of ship.Share) *pool {
	p := l.pools[of]
	if p == nil {
		p = &pool{lent: make(map[string]*lent)}
		l.pools[of] = p
	}
	return p
}

// Lend counts what a server has used, and returns a lease for each.
func (l *Lender) Lend(now time.Time, server string, uses []ship.Use) (leases []ship.Lease, servers int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.servers[server] = now
	l.sweep(now)
	for i := range uses {
		leases = append(leases, l.pool(uses[i].Share).lend(now, server, &uses[i]))
	}
	return leases, int64(len(l.servers))
}

// sweep drops servers that are gone, and unused limits with nothing to remember.
func (l *Lender) sweep(now time.Time) {
	if now.Sub(l.swept) < lentFor {
		return
	}
	l.swept = now
	for name, at := range l.servers {
		if now.Sub(at) > lentFor {
			delete(l.servers, name)
		}
	}
	for of, p := range l.pools {
		p.expire(now, of)
		if len(p.lent) == 0 && (of.Period == 0 && now.Sub(p.bucket.at) > time.Minute || isOver(now, of)) {
			delete(l.pools, of)
		}
	}
}

// isOver reports whether a day or month ended before yesterday.
func isOver(now time.Time, of ship.Share) bool {
	if of.Period == 0 {
		return false
	}
	before := now.AddDate(0, 0, -1)
	return of.Period < periodOf(before, Limit(of.Limit))
}

// periodOf returns the number of the day or month that a limit counts in; 0 for none.
func periodOf(now time.Time, limit Limit) int64 {
	switch limit {
	case BudgetDay:
		return int64(dayOf(now))
	case BudgetMonth, TokensPerMonth:
		return int64(monthOf(now))
	}
	return 0
}

// expire takes back the parts of silent servers. Parts of per-minute limits count as used.
func (p *pool) expire(now time.Time, of ship.Share) {
	for server, part := range p.lent {
		if now.Sub(part.at) > lentFor {
			if isRate(of) {
				p.bucket.level -= float64(part.mayUse())
			}
			delete(p.lent, server)
		}
	}
}

func isRate(of ship.Share) bool {
	return of.Limit == string(RequestsPerMinute) || of.Limit == string(TokensPerMinute)
}

// left returns the unused rest of the whole limit.
func (p *pool) left(of ship.Share) int64 {
	switch {
	case isRate(of):
		return int64(max(p.bucket.level, -float64(p.most)))
	case of.Period != 0:
		return p.most - p.used
	}
	return p.most
}

func (p *pool) lend(now time.Time, server string, u *ship.Use) ship.Lease {
	p.most = u.Most
	p.expire(now, u.Share)
	p.bucket.fill(now, p.most)
	part := p.lent[server]
	if part == nil {
		part = &lent{used: u.Counted}
		p.lent[server] = part
	}
	p.used += u.Used - part.used
	p.bucket.level -= float64(u.Used - part.used)
	*part = lent{used: u.Used, before: part.rest(u), at: now}
	lease := ship.Lease{Left: p.left(u.Share)}
	if u.Want == ship.GiveBack {
		delete(p.lent, server)
		return lease
	}
	free := lease.Left - u.Held
	for name, other := range p.lent {
		if name != server {
			free -= other.mayUse()
		}
	}
	lease.Room = u.Held
	if free > 0 {
		among := int64(len(p.lent))
		lease.Room += min(max((free+among-1)/among, u.Want), free)
	}
	part.out = lease.Room
	return lease
}
