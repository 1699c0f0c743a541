package quota

import (
	"sync"
	"time"

	"github.com/mnemeproxy/mneme/store/ship"
)

// Leases are a server's parts of limits that it shares with others. A request is let in by what the server has on lease, and
// asks nobody; what it used is reported afterwards, and the lease renewed. Until the first lease of a limit comes, a server lets
// in on credit. While the lender is away, what is on lease holds, and after [leaseHolds] its even part of the limit.
//
// A nil *Leases leaves limits to the server alone.
type Leases struct {
	mu      sync.Mutex
	parts   map[ship.Share]*part
	servers int64     // that share limits, as the lender said last
	heard   time.Time // when it did
	wake    chan struct{}
}

const (
	leaseHolds = 10 * time.Second // without the lender
	leaseRenew = time.Second      // that a lease stays as it is
	leaseIdle  = 5 * time.Second  // without a request, until a lease is given back

	// creditShare is the part of a limit that all servers together let in before they have heard of the lender.
	creditShare = 4

	// forgetAfter is how long what was left of a limit of a minute is remembered after its lease was given back. By then it is
	// whole again, however far it was exceeded.
	forgetAfter = 2 * time.Minute
)

// part is a server's part of a limit.
type part struct {
	ship.Use
	ship.Lease
	leased   bool  // there is a lease
	returned bool  // there was one, and Left is what was left of the limit when it was given back
	base     int64 // Used when that was made, or given back
	whole    int64 // Most likewise
	asked    bool  // a report is on its way
	touched  time.Time
	renewed  time.Time
	coming   chan struct{} // closed when the lender has answered, or has not; nil: nothing waits for it
}

// answered lets go what waits for the lender.
func (p *part) answered() {
	p.asked = false
	if p.coming != nil {
		close(p.coming)
		p.coming = nil
	}
}

// NewLeases gives leases of nothing.
func NewLeases() *Leases {
	return &Leases{parts: make(map[ship.Share]*part), servers: 1, wake: make(chan struct{}, 1)}
}

// Wake is signalled when a limit is first used, or has no room.
func (l *Leases) Wake() <-chan struct{} { return l.wake }

func (l *Leases) signal() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Servers is how many servers share limits, as the lender said last.
func (l *Leases) Servers() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.servers
}

// away reports whether the lender was not heard for too long.
func (l *Leases) away(now time.Time) bool { return now.Sub(l.heard) > leaseHolds }

// evenly is a limit, or while the lender is away, an even part of it.
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

// at gives the part of a limit. A request that ends late changes neither when it was last used nor how much it is.
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

// room is how much more may be used or held.
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

// credit is what may be used of a limit without a lease. Where one was given back, it is no more than was left of the limit: a
// server that pauses ever again would else exceed it each time.
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

// admits reports whether a limit has room for an amount. A limit of 0 always has. Limits without a period hold while the lender
// is away by [Leases.evenly] alone. Where there is no room and no lease yet, coming is closed when it may have come.
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
		amount = min(amount, 1) // on credit, any request while there is some
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

// add counts on a limit what was used and what is held.
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

// spent is how much of a limit was used on all servers, as far as is known.
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

// Report gives at most so many uses that the lender is to hear of now. They are asked for once until [Leases.Renew] or
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
		if p.Held == 0 && p.Used == p.Counted && now.Sub(p.touched) > leaseIdle { // else one that is sent twice would count twice
			u.Want = ship.GiveBack
		}
		p.Want = 0
		uses = append(uses, u)
	}
	return uses
}

// isRest reports whether nothing of the part is to be remembered any more.
func (p *part) isRest(now time.Time) bool {
	return p.returned && !p.asked && p.Held == 0 && p.Used == p.Counted && now.Sub(p.touched) > forgetAfter &&
		(p.Period == 0 || isOver(now, p.Share))
}

// Renew takes the lender's answer to a report.
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
		if p.returned && (p.Used != u.Used || p.Held > 0) { // it was used meanwhile
			l.signal()
		}
	}
}

// Unheard says that nobody has answered a report.
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
