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
)

// part is a server's part of a limit.
type part struct {
	ship.Use
	ship.Lease
	leased  bool  // there is a lease
	base    int64 // Used when that was made
	whole   int64 // Most likewise
	asked   bool  // a report is on its way
	touched time.Time
	renewed time.Time
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

// at gives the part of a limit.
func (l *Leases) at(now time.Time, of ship.Share, most int64) *part {
	p := l.parts[of]
	if p == nil {
		p = &part{Use: ship.Use{Share: of}}
		l.parts[of] = p
		l.signal()
	}
	p.Most, p.touched = most, now
	return p
}

// room is how much more may be used or held.
func (l *Leases) room(now time.Time, p *part) int64 {
	if !p.leased {
		if l.away(now) {
			return max(p.Most/l.servers, 1) - p.Used - p.Held
		}
		return max(p.Most/(creditShare*l.servers), 1) - p.Used - p.Held
	}
	allowed := p.Room
	if l.away(now) {
		allowed = max(allowed, p.Left/l.servers)
	}
	return allowed - (p.Used - p.base) - p.Held
}

// admits reports whether a limit has room for an amount. A limit of 0 always has. Limits without a period hold while the lender
// is away by [Leases.evenly] alone.
func (l *Leases) admits(now time.Time, of ship.Share, most, amount int64) bool {
	if l == nil || most <= 0 {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if of.Period == 0 && l.away(now) {
		return true
	}
	p := l.at(now, of, most)
	room := l.room(now, p)
	if !p.leased {
		amount = min(amount, 1) // on credit, any request while there is some
	}
	if room >= max(amount, 1) {
		return true
	}
	p.Want = max(p.Want, amount, 1)
	l.signal()
	return false
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
	if p == nil || !p.leased {
		return 0
	}
	return p.whole - p.Left + p.Used - p.base
}

// Report gives at most so many uses that the lender is to hear of now. They are asked for once until [Leases.Renew] or
// [Leases.Unheard].
func (l *Leases) Report(now time.Time, most int) (uses []ship.Use) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.parts {
		if len(uses) == most {
			l.signal() // for the others
			break
		}
		if p.asked || p.leased && p.Want == 0 && now.Sub(p.renewed) < leaseRenew {
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
		p.asked, p.Counted = false, u.Used
		if u.Want == ship.GiveBack {
			if p.Used == u.Used && p.Held == 0 {
				delete(l.parts, u.Share)
				continue
			}
			p.renewed = time.Time{} // it was used meanwhile: ask at once
		} else {
			p.renewed = now
		}
		p.leased, p.base, p.whole, p.Lease = true, u.Used, u.Most, leases[i]
	}
}

// Unheard says that nobody has answered a report.
func (l *Leases) Unheard(uses []ship.Use) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range uses {
		if p := l.parts[uses[i].Share]; p != nil {
			p.asked, p.Want = false, max(p.Want, uses[i].Want)
		}
	}
}
