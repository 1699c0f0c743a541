package cluster

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/mnemeproxy/mneme/server/quota"
	"github.com/mnemeproxy/mneme/store"
)

// callers ask all edges at once, 20 each, with a key, until as many as are wanted were let in and no more are, and give how many were.
func callers(t *testing.T, key string, wanted int64, limits store.Limits, edges []*quota.Table) int64 {
	t.Helper()
	var (
		let     atomic.Int64
		calling sync.WaitGroup
		stop    atomic.Bool
	)
	for _, edge := range edges {
		use := new(store.KeyUse)
		for range 20 {
			calling.Go(func() {
				for !stop.Load() {
					now := time.Now() // an edge gives back a lease that is not used for five seconds
					pass, refusal := edge.Enter(now, key, limits, use, 1)
					if refusal == nil && pass.Reserve(now, 1) == nil {
						let.Add(1)
						pass.Leave(now, 1)
						continue
					}
					pass.Leave(now, 0)
					time.Sleep(time.Millisecond)
				}
			})
		}
	}
	eventually(t, "all of the limit is used", func() bool { return let.Load() >= wanted })
	for still, before := 0, int64(-1); still < 20; still++ { // then whether edges go on to let in
		if by := let.Load(); by != before {
			still, before = 0, by
		}
		time.Sleep(5 * time.Millisecond)
	}
	stop.Store(true)
	calling.Wait()
	return let.Load()
}

func TestEdgesTogetherStayWithinALimit(t *testing.T) {
	const edges, most = 3, 600
	broker := startBroker(t, t.TempDir(), server.RANDOM_PORT)
	o := options(t, 1, broker.ClientURL())
	central := o
	central.Lender = quota.NewLender()
	gathering := gatherIn(t, openCentre(t), central)
	var tables []*quota.Table
	for n := range edges {
		own := o
		own.Leases = quota.NewLeases()
		joinFrom(t, openNode(t, t.TempDir(), 1), uint16(n+1), 0, own)
		tables = append(tables, &quota.Table{Leases: own.Leases})
	}
	for _, table := range tables {
		eventually(t, "every edge knows of the others", func() bool { return table.Leases.Servers() == edges })
	}
	if let := callers(t, "key_a", most, store.Limits{TokensPerMonth: most}, tables); let > most+most/4 {
		t.Errorf("60 callers on three edges were let in %d times, the limit is %d", let, most)
	}

	// Another key; the centre goes away while it is used.
	gathering.Close()
	for _, table := range tables {
		if _, refusal := table.Enter(time.Now(), "key_b", store.Limits{RequestsPerMinute: most}, nil, 1); refusal != nil {
			t.Errorf("without the centre an edge lets nothing in: %v", refusal.Error)
		}
	}
}
