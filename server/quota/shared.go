package quota

import (
	"time"

	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/ship"
)

// shared is a request's part in its key's limits if other servers share them. Without leases its methods do nothing.
type shared struct {
	leases *Leases
	key    string
	limits store.Limits // whole
	began  time.Time
}

// here returns the limits that apply on this server alone.
func (s *shared) here() store.Limits {
	here := s.limits
	for _, most := range []*int64{&here.RequestsPerMinute, &here.TokensPerMinute, &here.Concurrent} {
		*most = s.leases.evenly(s.began, *most)
	}
	return here
}

func (s *shared) most(limit Limit) int64 {
	switch limit {
	case RequestsPerMinute:
		return s.limits.RequestsPerMinute
	case TokensPerMinute:
		return s.limits.TokensPerMinute
	case Concurrent:
		return s.limits.Concurrent
	}
	return s.limits.TokensPerMonth
}

func (s *shared) share(limit Limit) ship.Share {
	return ship.Share{Limit: string(limit), Key: s.key, Period: periodOf(s.began, limit)}
}

func (s *shared) admits(limit Limit, amount int64) (admits bool, coming <-chan struct{}) {
	if s.leases == nil {
		return true, nil
	}
	return s.leases.admits(s.began, s.share(limit), s.most(limit), amount)
}

func (s *shared) add(limit Limit, used, held int64) {
	if s.leases != nil {
		s.leases.add(s.began, s.share(limit), s.most(limit), used, held)
	}
}

// tokens returns those of the month, on all servers as far as known.
func (s *shared) tokens(use *store.KeyUse) int64 {
	here := use.Tokens(s.began)
	if s.leases == nil {
		return here
	}
	return max(here, s.leases.spent(s.share(TokensPerMonth), s.most(TokensPerMonth)))
}

// refusal returns why the leases do not admit a request.
func (s *shared) refusal(estimate int64) *Refusal {
	if admits, coming := s.admits(Concurrent, 1); !admits {
		return tooMuch(Concurrent, retrySoon, "of the %d exchanges that may be open with this service key none is left on this server", s.limits.Concurrent).until(coming)
	}
	if admits, coming := s.admits(RequestsPerMinute, 1); !admits {
		return tooMuch(RequestsPerMinute, retrySoon, "this service key may send %d requests a minute", s.limits.RequestsPerMinute).until(coming)
	}
	most := s.limits.TokensPerMinute
	if admits, coming := s.admits(TokensPerMinute, min(estimate, most)); !admits {
		return tooMuch(TokensPerMinute, retrySoon, "this service key may use %d tokens a minute", most).until(coming)
	}
	return nil
}

func (s *shared) enter(estimate int64) {
	s.add(Concurrent, 0, 1)
	s.add(RequestsPerMinute, 1, 0)
	s.add(TokensPerMinute, estimate, 0)
}

func (s *shared) leave(estimate, used, reserved int64) {
	s.add(Concurrent, 0, -1)
	s.add(TokensPerMinute, used-estimate, 0)
	s.add(TokensPerMonth, used, -reserved)
}
