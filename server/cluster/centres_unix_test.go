//go:build unix

package cluster

import (
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/server/quota"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/catalog/postgrestest"
	"github.com/mnemeproxy/mneme/store/record"
)

// seats are two centres with one database, and edges.
type seats struct {
	t       *testing.T
	centres []*process
	edge    *process
	limited []*quota.Table // of edges that share limits
}

// lent is the monthly limit of each key that edges share.
const lent = 600

// spend uses a limit as far as the edges let it, and returns how much they did.
func (s *seats) spend(key string, wanted int64) int64 {
	s.t.Helper()
	return callers(s.t, key, wanted, store.Limits{TokensPerMonth: lent}, s.limited)
}

func (s *seats) act(p *process, act, subject string) report {
	s.t.Helper()
	answer, ok := p.do(order{Act: act, Subject: subject})
	if !ok {
		s.t.Fatalf("%s does not %s", p.role.Dir, act)
	}
	return answer
}

// until waits until a key is valid at a node, or is not.
func (s *seats) until(p *process, secret string, valid bool) {
	s.t.Helper()
	eventually(s.t, "a node hears of a key", func() bool { return (s.act(p, "authenticate", secret).ID != "") == valid })
}

// leads waits until a centre leads.
func (s *seats) leads(p *process) {
	s.t.Helper()
	eventually(s.t, filepath.Base(p.role.Dir)+" leads", func() bool { return s.act(p, "look", "").Leads })
}

// The centre that leads is killed while there are conversations, and later the other one is stopped for a while.
// It waits for leases to end most of its time, and other tests run beside it.
func TestAnotherCentreContinuesForOneThatIsKilledOrStandsStill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	_, urls := startBrokers(t, dir)
	postgres := postgrestest.Start(t, false)
	database := postgres.Database(t)
	s := &seats{t: t}
	for n, name := range []string{"one", "two"} {
		s.centres = append(s.centres, startNode(t, role{Kind: "centre", Dir: filepath.Join(dir, name), Node: uint16(11 + n), NATS: urls, Postgres: database}))
	}
	s.edge = startNode(t, role{Kind: "edge", Dir: filepath.Join(dir, "edge"), Node: 1, NATS: urls})
	for node := range uint16(2) {
		o := options(t, 1, urls...)
		o.Leases = quota.NewLeases()
		joinFrom(t, openNode(t, t.TempDir(), 1), 2+node, 0, o)
		s.limited = append(s.limited, &quota.Table{Leases: o.Leases})
	}
	one, two := s.centres[0], s.centres[1]
	s.leads(one)
	if s.act(two, "look", "").Leads {
		t.Error("two centres lead")
	}
	key := s.act(two, "create key", "")
	for _, node := range []*process{one, two, s.edge} {
		s.until(node, key.Secret, true)
	}

	stop := make(chan struct{})
	var talking sync.WaitGroup
	said := 0
	talking.Go(func() {
		for ; ; said++ {
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
				if _, ok := s.edge.do(order{Conversation: "a", Turn: said, Answer: "answer"}); !ok {
					t.Error("the edge records nothing")
					return
				}
			}
		}
	})
	before := s.spend("key_a", lent)
	one.kill()
	s.leads(two)
	s.spend("key_b", lent) // the other centre lends
	if let := before + s.spend("key_a", 0); let > lent+lent/4 {
		t.Errorf("over a change of the leader edges let %d in, the limit is %d", let, lent)
	}
	s.until(two, key.Secret, true)
	s.act(two, "revoke key", key.ID)
	s.until(s.edge, key.Secret, false)
	second := s.act(two, "create key", "")
	s.until(s.edge, second.Secret, true)
	if n := s.act(two, "audit", "").Waiting; n != 2 {
		t.Errorf("the audit record has %d entries, want those of both keys", n)
	}
	close(stop)
	talking.Wait()
	eventually(t, "all is at the centre", func() bool {
		answer, ok := s.edge.do(order{})
		return ok && answer.Waiting == 0
	})
	erased, _ := two.do(order{Erase: "a"})
	receipt := func(p *process) (done bool, places map[string]record.PlaceState) {
		answer, _ := p.do(order{Receipt: erased.ID})
		places = make(map[string]record.PlaceState)
		for _, at := range answer.Places {
			places[at.Place] = at.State
		}
		return answer.State == record.ErasureDone, places
	}
	eventually(t, "the erasure is done while a centre is down", func() bool {
		done, at := receipt(two)
		return done && at["centre"] == record.PlaceErased && at["edge 1"] == record.PlaceErased
	})
	one.start()
	eventually(t, "it is done there as well, and that one has the receipt", func() bool {
		done, at := receipt(one)
		return done && at["centre"] == record.PlaceErased
	})
	s.until(one, key.Secret, false)

	signal(t, two, syscall.SIGSTOP)
	s.leads(one)
	s.act(one, "revoke key", second.ID)
	s.until(s.edge, second.Secret, false)
	third := s.act(one, "create key", "")
	s.until(s.edge, third.Secret, true)
	signal(t, two, syscall.SIGCONT)
	s.until(two, second.Secret, false)
	s.until(two, third.Secret, true)
	if s.act(two, "look", "").Leads || !s.act(one, "look", "").Leads {
		t.Error("the centre that stood still leads again")
	}
	if s.act(s.edge, "authenticate", second.Secret).ID != "" || s.act(s.edge, "authenticate", third.Secret).ID == "" {
		t.Error("what the centre that stood still knew is on the edge")
	}

	postgres.Kill()
	eventually(t, "no centre leads without the database", func() bool { return !s.act(one, "look", "").Leads && !s.act(two, "look", "").Leads })
	if let := s.spend("key_c", lent); let > lent+lent/4 {
		t.Errorf("without the database edges let %d in, the limit is %d", let, lent)
	}
}

func signal(t *testing.T, p *process, s syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}
