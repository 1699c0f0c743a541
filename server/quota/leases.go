package quota

import (
	"sync"
	"time"

	"github.com/mnemeproxy/mneme/store/ship"
)

// Leases are a server's parts of limits that it shares with other servers. A request is admitted by the server's lease,
// without a remote call; its use is reported afterwards, and the lease renewed. Until the first lease of a limit
// arrives, a server admits on credit. While the lender is unreachable the lease holds, and after [leaseHolds] the
// server's even part of the limit.
//
// With a nil *Leases nothing is shared.
type Leases struct {
	mu      sync.Mutex
	parts   map[ship.Share]*part
	servers int64     // that share limits, as the lender last said
	heard   time.Time // when it last answered
	wake    chan struct{}
}

const (
	leaseHolds = 10 * time.Second // without the lender
	leaseRenew = time.Second      // that a lease stays as it is
	leaseIdle  = 5 * time.Second  // without a request, before a lease is returned

	// creditShare is the part of a limit that all servers together admit before they have heard from the lender.
	creditShare = 4

	// forgetAfter is how long the rest of a per-minute limit is remembered after its lease was returned. By then the
	// limit is full again, however far it was exceeded.
	forgetAfter = 2 * time.Minute
)

// part is a server's part of a limit.
type part struct {
	ship.Use
	ship.Lease
	leased   bool  // there is a lease
	returned bool  // the lease was returned, and Left is what was left of the limit then
	base     int64 // Used when that lease was made or returned
	whole    int64 // Most at that time
	asked    bool  // a report is on its way
	touched  time.Time
	renewed  time.Time
	coming   chan struct{} // closed when the lender has answered, or failed to; nil: nothing waits for it
}

// answered releases the waiters.
func (p *part) answered() {
	p.asked = false
	if p.coming != nil {
		close(p.coming)
		p.coming = nil
	}
}

// NewLeases returns leases of nothing.
func NewLeases() *Leases {
	return &Leases{parts: make(map[ship.Share]*part), servers: 1, wake: make(chan struct{}, 1)}
}

// Wake is signaled when a limit is first used or has no room.
func (l *Leases) Wake() <-chan struct{} { return l.wake }

func (l *Leases) signal() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Servers returns how many servers share limits, as the lender last said.
func (l *Leases) Servers() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.servers
}

// away reports whether the lender has been silent for too long.
func (l *Leases) away(now time.Time) bool { return now.Sub(l.heard) > leaseHolds }

// evenly returns a limit or, while the lender is away, the server's even part of it.
func (l *Leases) evenly(now time.Time, most int64) int64 {
	if l == nil || most <= 0 {
		return most
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.away(now) || l.servers <= 1 {
		return most
	}
	return max(most/l.servers, 1)
}

// at returns the part of a limit. A request that ends late changes neither its time of last use nor its size.
func (l *Leases) at(now time.Time, of ship.Share, most int64) *part {
	p := l.parts[of]
	if p == nil {
		p = &part{Use: ship.Use{Share: of}}
		l.parts[of] = p
	}
	if !p.leased {
		l.signal()
	}
	if !now.Before(p.touched) {
		p.Most, p.touched = most, now
	}
	return p
}

// room returns how much more may be used or held.
func (l *Leases) room(now time.Time, p *part) (room int64) {
	switch {
	case l.away(now) && (p.leased || p.returned):
		room = max(p.Room, p.Left/l.servers)
	case l.away(now):
		room = max(p.Most/l.servers, 1)
	case p.leased:
		room = p.Room
	default:
		room = l.credit(now, p)
	}
	return room - (p.Used - p.base) - p.Held
}

// credit returns what may be used of a limit without a lease. If a lease was returned, that is at most what was left of
// the limit: otherwise a server that pauses repeatedly would exceed it each time.
func (l *Leases) credit(now time.Time, p *part) int64 {
	credit := max(p.Most/(creditShare*l.servers), 1)
	if !p.returned {
		return credit
	}
	left := p.Left + p.Most - p.whole
	if isRate(p.Share) {
		left += int64(now.Sub(p.renewed).Minutes() * float64(p.Most))
	}
	return min(credit, left)
}

// admits reports whether a limit has room for an amount. A limit of 0 always has. While the lender is away, limits
// without a period hold only by [Leases.evenly]. If there is no room and no lease yet, coming is closed when one may
// have arrived.
func (l *Leases) admits(now time.Time, of ship.Share, most, amount int64) (admits bool, coming <-chan struct{}) {
	if l == nil || most <= 0 {
		return true, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if of.Period == 0 && l.away(now) {
		return true, nil
	}
	p := l.at(now, of, most)
	room := l.room(now, p)
	if !p.leased {
		amount = min(amount, 1) // on credit, any request is admitted while some is left
	}
	if room >= max(amount, 1) {
		return true, nil
	}
	p.Want = max(p.Want, amount, 1)
	l.signal()
	if p.leased || l.away(now) {
		return false, nil
	}
	if p.coming == nil {
		p.coming = make(chan struct{})
	}
	return false, p.coming
}

// add counts use and held amounts on a limit.
func (l *Leases) add(now time.Time, of ship.Share, most, used, held int64) {
	if l == nil || most <= 0 || used == 0 && held == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.at(now, of, most)
	p.Used += used
	p.Held += held
}

// spent returns how much of a limit was used on all servers, as far as known.
func (l *Leases) spent(of ship.Share, most int64) int64 {
	if l == nil || most <= 0 {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.parts[of]
	if p == nil || !p.leased && !p.returned {
		return 0
	}
	return p.whole - p.Left + p.Used - p.base
}

// Report returns at most most uses to report to the lender. Each is returned once until [Leases.Renew] or
// [Leases.Unheard].
func (l *Leases) Report(now time.Time, most int) (uses []ship.Use) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for of, p := range l.parts {
		if len(uses) == most {
			l.signal() // for the others
			break
		}
		if p.isRest(now) {
			delete(l.parts, of)
			continue
		}
		if p.asked || p.leased && p.Want == 0 && now.Sub(p.renewed) < leaseRenew || p.returned && !p.touched.After(p.renewed) {
			continue
		}
		p.asked = true
		u := p.Use
		if p.Held == 0 && p.Used == p.Counted && now.Sub(p.touched) > leaseIdle { // otherwise a report sent twice would count twice
			u.Want = ship.GiveBack
		}
		p.Want = 0
		uses = append(uses, u)
	}
	return uses
}

// isRest reports whether the part has nothing left to remember.
func (p *part) isRest(now time.Time) bool {
	return p.returned && !p.asked && p.Held == 0 && p.Used == p.Counted && now.Sub(p.touched) > forgetAfter &&
		(p.Period == 0 || isOver(now, p.Share))
}

// Renew applies the lender's answer to a report.
func (l *Leases) Renew(now time.Time, uses []ship.Use, leases []ship.Lease, servers int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.heard, l.servers = now, max(servers, 1)
	for i := range uses {
		u := &uses[i]
		p := l.parts[u.Share]
		if p == nil {
			continue
		}
		p.answered()
		p.Counted, p.base, p.whole, p.Lease, p.renewed = u.Used, u.Used, u.Most, leases[i], now
		p.leased, p.returned = u.Want != ship.GiveBack, u.Want == ship.GiveBack
		if p.returned && (p.Used != u.Used || p.Held > 0) { // used in the meantime
			l.signal()
		}
	}
}

// Unheard records that a report was not answered.
func (l *Leases) Unheard(uses []ship.Use) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range uses {
		if p := l.parts[uses[i].Share]; p != nil {
			p.answered()
			p.Want = max(p.Want, uses[i].Want)
		}
	}
}
