package cluster_test

import (
	"testing"

	"github.com/mnemeproxy/mneme/server/cluster/clustertest"
	"github.com/mnemeproxy/mneme/store/storetest"
)

// centres are the archives that edges ship to; each has to keep what package storetest promises.
var centres = map[string]func(*testing.T) clustertest.Centre{
	"embedded": clustertest.Embedded,
}

func TestAClusterKeepsThePromisesOfAMemory(t *testing.T) {
	for name, open := range centres {
		t.Run(name, func(t *testing.T) {
			storetest.RunWhole(t, func(t *testing.T) storetest.Memory { return clustertest.Over(t, open(t)) })
		})
	}
}

func TestTheCentreFindsWhatItsEdgesRecord(t *testing.T) {
	for name, open := range centres {
		t.Run(name, func(t *testing.T) {
			storetest.RunRanking(t, func(t *testing.T) (storetest.Memory, storetest.Searcher) {
				m := clustertest.Over(t, open(t))
				return m, m
			})
		})
	}
}
