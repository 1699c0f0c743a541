package command

import (
	"strings"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/server/cluster"
)

func TestTheDoctorNamesWhatDiffersBetweenNodes(t *testing.T) {
	now := time.Now()
	edge := func(change func(*cluster.Node)) cluster.Node {
		n := cluster.Node{Name: "edge 1", Version: "v2", MasterKey: "a", Edge: &cluster.Shipping{Identity: &cluster.Identity{Heard: now}}}
		change(&n)
		return n
	}
	whole := func(*cluster.Node) {}
	centre := cluster.Node{Name: "centre", Version: "v2", MasterKey: "a", Centre: &cluster.Arriving{}}
	named := func(name string, standby bool) cluster.Node {
		n := centre
		n.Name, n.Standby = name, standby
		return n
	}
	for name, c := range map[string]struct {
		nodes []cluster.Node
		worst string
		says  string
	}{
		"all is well":        {[]cluster.Node{centre, edge(whole)}, good, "edge 1 version v2"},
		"nobody answers":     {nil, problem, "no node has answered"},
		"a worker":           {[]cluster.Node{centre, {Name: "worker a 1", Worker: true, Version: "v2", MasterKey: "a", Centre: &cluster.Arriving{Exchanges: 3}}}, good, "worker a 1 version v2; 3 exchanges"},
		"workers alone":      {[]cluster.Node{{Name: "worker a 1", Worker: true, Version: "v2", MasterKey: "a", Centre: &cluster.Arriving{}}}, problem, "0 centres answered"},
		"two centres":        {[]cluster.Node{named("centre 1 a", false), named("centre 2 b", true)}, good, "centre 1 a version v2; 0 exchanges came from edges since the start; leads\ncentre 2 b version v2; 0 exchanges came from edges since the start; does not lead"},
		"two that lead":      {[]cluster.Node{named("centre 1 a", false), named("centre 2 b", false)}, problem, "2 centres lead"},
		"none that leads":    {[]cluster.Node{named("centre 1 a", true)}, problem, "since the start; does not lead\ncluster no centre leads"},
		"no centre":          {[]cluster.Node{edge(whole)}, problem, "0 centres answered"},
		"full brokers":       {[]cluster.Node{{Name: "centre", Version: "v2", MasterKey: "a", Centre: &cluster.Arriving{Stream: &cluster.Stream{Bytes: 99e6, Most: 100e6, Replicas: 3, Brokers: 3}}}}, warning, "the brokers hold 99.0 MB of what edges ship, in 3 replicas of at most 100.0 MB"},
		"one copy":           {[]cluster.Node{{Name: "centre", Version: "v2", MasterKey: "a", Centre: &cluster.Arriving{Stream: &cluster.Stream{Most: 100e6, Replicas: 1, Brokers: 3}}}}, warning, "in 1 replica, though there are 3 brokers"},
		"two of a number":    {[]cluster.Node{centre, edge(whole), edge(whole)}, problem, "2 nodes say that they are edge 1"},
		"another version":    {[]cluster.Node{centre, edge(func(n *cluster.Node) { n.Version = "v1" })}, warning, "v1 edge 1; v2 centre"},
		"another master key": {[]cluster.Node{centre, edge(func(n *cluster.Node) { n.MasterKey = "b" })}, problem, "different master keys"},
		"a clock":            {[]cluster.Node{centre, edge(func(n *cluster.Node) { n.Skew = -3 * time.Second })}, warning, "its clock is -3s off"},
		"late":               {[]cluster.Node{centre, edge(func(n *cluster.Node) { n.Edge.Waiting, n.Edge.Oldest = 7, now.Add(-time.Hour) })}, warning, "7 exchanges wait for it, the oldest for 1h0m0s"},
		"an edge that fails": {[]cluster.Node{centre, edge(func(n *cluster.Node) { n.Edge.Problem = "the brokers do not take it" })}, problem, "the brokers do not take it"},
	} {
		worst, text := good, ""
		for _, f := range nodeFindings(c.nodes, now) {
			if f.State == problem || f.State == warning && worst == good {
				worst = f.State
			}
			text += f.Check + " " + f.Found + "\n"
		}
		if worst != c.worst || !strings.Contains(text, c.says) {
			t.Errorf("%s: %s\n%swant %s, %q", name, worst, text, c.worst, c.says)
		}
	}
}
