package cluster_test

import (
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/server/cluster"
	"github.com/mnemeproxy/mneme/server/cluster/clustertest"
	"github.com/mnemeproxy/mneme/store/catalog/pack/s3test"
	"github.com/mnemeproxy/mneme/store/catalog/postgrestest"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/storetest"
)

// centres are the archives that edges ship to; each has to keep what package storetest promises. Each gives what opens a
// centre, and may be used as long as the test runs. The service is that of the bucket; nil if there is none.
var centres = map[string]func(*testing.T, *s3test.Server) func(*testing.T) clustertest.Centre{
	"Postgres": func(t *testing.T, _ *s3test.Server) func(*testing.T) clustertest.Centre {
		server := postgrestest.Shared(t)
		return func(t *testing.T) clustertest.Centre { return clustertest.Postgres(t, server, "") }
	},
	"Postgres and S3": func(t *testing.T, service *s3test.Server) func(*testing.T) clustertest.Centre {
		if service == nil {
			s3test.Start(t) // skips the test
		}
		server := postgrestest.Shared(t)
		return func(t *testing.T) clustertest.Centre { return clustertest.Postgres(t, server, service.Bucket(t)) }
	},
}

// withEach runs a test with each kind of centre, beside each other: they wait for the brokers most of the time.
func withEach(t *testing.T, test func(t *testing.T, open func(*testing.T) clustertest.Centre)) {
	t.Helper()
	var service *s3test.Server
	if s3test.Program() != "" {
		service = s3test.Start(t) // here, since it sets the environment
	}
	for name, prepare := range centres {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, prepare(t, service))
		})
	}
}

func TestAClusterKeepsThePromisesOfAMemory(t *testing.T) {
	withEach(t, func(t *testing.T, open func(*testing.T) clustertest.Centre) {
		storetest.RunWhole(t, func(t *testing.T) storetest.Memory { return clustertest.Over(t, open(t)) })
	})
}

func TestTheCentreFindsWhatItsEdgesRecord(t *testing.T) {
	withEach(t, func(t *testing.T, open func(*testing.T) clustertest.Centre) {
		storetest.RunRanking(t, func(t *testing.T) (storetest.Memory, storetest.Searcher) {
			m := clustertest.Over(t, open(t))
			return m, m
		})
	})
}

func TestTheCentreKeepsSummariesOfWhatItsEdgesRecord(t *testing.T) {
	withEach(t, func(t *testing.T, open func(*testing.T) clustertest.Centre) {
		storetest.RunSummaries(t, func(t *testing.T) (storetest.Memory, storetest.Summaries) {
			c := open(t)
			return clustertest.Over(t, c), c.Summaries
		})
	})
}

// Turns of conversations go to edges in turn, which are killed every few turns, some while a turn is under way.
func TestWhatKilledEdgesHaveAcknowledgedIsAtTheCentre(t *testing.T) {
	const conversations, turns = 3, 8
	withEach(t, func(t *testing.T, open func(*testing.T) clustertest.Centre) {
		dir := t.TempDir()
		edges, o := cluster.StartEdges(t, filepath.Join(dir, "one"), filepath.Join(dir, "two"))
		c := open(t)
		gathering, err := cluster.Gather(t.Context(), c.Arrivals, c.Archive, c.Roster, o)
		if err != nil {
			t.Fatal(err)
		}
		defer gathering.Close()
		answers := make(map[string]string) // by exchange
		for n := range conversations * turns {
			asked := cluster.Order{Conversation: fmt.Sprint("c", n%conversations), Turn: n / conversations, Answer: fmt.Sprint("answer ", n)}
			edge := edges[n%len(edges)]
			if n%5 == 4 {
				var killing sync.WaitGroup
				killing.Go(edge.Kill)
				if answer, ok := edge.Do(asked); ok {
					answers[answer.ID] = asked.Answer
				}
				killing.Wait()
				asked.Answer += " again" // as a client would ask
			}
			answer, ok := edge.Do(asked)
			if !ok {
				t.Fatalf("an edge that lives does not answer turn %d", n)
			}
			answers[answer.ID] = asked.Answer
		}
		shipped(t, edges)
		for id, want := range answers {
			if x, err := c.Archive.Exchange("acme", id); err != nil || string(x.RawResponse) != want {
				t.Errorf("%s, %q, was acknowledged, and is not at the centre (%v)", id, want, err)
			}
		}
		page, err := c.Archive.Sessions("acme", record.SessionQuery{Limit: 100})
		if err != nil || len(page.Data) != conversations {
			t.Errorf("%d conversations are %d sessions (%v)", conversations, len(page.Data), err)
		}
	})
}

// shipped waits until the centre has confirmed all that the edges have.
func shipped(t *testing.T, edges []*cluster.Process) {
	t.Helper()
	for _, edge := range edges {
		for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
			if answer, ok := edge.Do(cluster.Order{}); ok && answer.Waiting == 0 {
				break
			}
			if time.Now().After(deadline) {
				t.Fatal("an edge does not get rid of what it has")
			}
		}
	}
}
