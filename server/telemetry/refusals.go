package telemetry

import (
	"log/slog"
	"strconv"
	"sync"
	"time"
)

// Refusal is a request that was refused because of its caller: no valid key, a missing scope, a limit or a budget.
type Refusal struct {
	Client   string // its address
	Account  string // "" if the key is unknown, as are the next two
	KeyID    string
	KeyLabel string
	Reason   string // without credentials, and without anything that the caller has sent
}

// Refusals logs refused callers: one line a minute for each address and key, so that a client that asks again and again
// does not fill the log.
type Refusals struct {
	log *slog.Logger

	mu     sync.Mutex
	logged map[refused]*refusedSeries
	swept  time.Time // when old entries were last removed
}

type refused struct{ client, key string }

// refusedSeries are the refusals of one address and key.
type refusedSeries struct {
	at     time.Time // of the newest line
	silent int       // refusals since then
}

const (
	refusalRest  = time.Minute
	mostRefusals = 1024 // that are told apart; the others share a line
)

// NewRefusals returns an empty log of refusals.
func NewRefusals(log *slog.Logger) *Refusals {
	return &Refusals{log: log, logged: make(map[refused]*refusedSeries)}
}

// Log logs a refusal, unless one of the same address and key was logged in the last minute.
func (r *Refusals) Log(now time.Time, refusal Refusal) {
	silent, due := r.due(now, &refusal)
	if !due {
		return
	}
	args := []any{"client", refusal.Client}
	if refusal.KeyID != "" {
		args = append(args, "account", refusal.Account, "key", refusal.KeyID, "label", refusal.KeyLabel)
	}
	args = append(args, "reason", refusal.Reason)
	if silent > 0 {
		args = append(args, "refused_since_last_line", silent)
	}
	r.log.Warn("a caller was refused", args...)
}

// due reports whether a line is due, and how many refusals had none since the last one.
func (r *Refusals) due(now time.Time, refusal *Refusal) (silent int, due bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	who := refused{refusal.Client, refusal.KeyID}
	if r.logged[who] == nil && !r.room(now) {
		who = refused{other, other}
		refusal.Client = "more than " + strconv.Itoa(mostRefusals)
		refusal.Account, refusal.KeyID, refusal.KeyLabel = "", "", ""
	}
	s := r.logged[who]
	if s == nil {
		s = new(refusedSeries)
		r.logged[who] = s
	} else if now.Sub(s.at) < refusalRest {
		s.silent++
		return 0, false
	}
	silent, s.silent, s.at = s.silent, 0, now
	return silent, true
}

// room reports whether another address and key can be told apart. The caller holds mu.
func (r *Refusals) room(now time.Time) bool {
	if len(r.logged) >= mostRefusals && now.Sub(r.swept) > time.Second {
		r.swept = now
		for who, s := range r.logged {
			if now.Sub(s.at) >= refusalRest {
				delete(r.logged, who)
			}
		}
	}
	return len(r.logged) < mostRefusals
}
