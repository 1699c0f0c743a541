package command

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mnemeproxy/mneme/server/cluster"
	"github.com/mnemeproxy/mneme/server/config"
)

// surveyTime is how long nodes may take to report. They answer within milliseconds.
const surveyTime = 2 * time.Second

// examineNodes asks every node of the cluster for its state, over the brokers.
func examineNodes(ctx context.Context, cfg *config.Config) []finding {
	const check = "cluster"
	o, err := clusterOptions(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		return []finding{{check, problem, err.Error(), ""}}
	}
	nodes, err := cluster.Survey(ctx, o, surveyTime)
	if err != nil {
		return []finding{{check, problem, err.Error(), "Check cluster.nats"}}
	}
	return nodeFindings(nodes, time.Now())
}

// nodeFindings reports what nodes say about themselves, and where they differ.
func nodeFindings(nodes []cluster.Node, now time.Time) (findings []finding) {
	const check = "cluster"
	if len(nodes) == 0 {
		return []finding{{check, problem, "no node has answered", "Check that nodes run, with the same MNEME_CLUSTER_KEY as here"}}
	}
	centres, leading := 0, 0
	names, versions, masterKeys := map[string]int{}, map[string][]string{}, map[string][]string{}
	for i := range nodes {
		n := &nodes[i]
		if n.Centre != nil && !n.Worker {
			centres++
			if !n.Standby {
				leading++
			}
		}
		names[n.Name]++
		versions[n.Version] = append(versions[n.Version], n.Name)
		masterKeys[n.MasterKey] = append(masterKeys[n.MasterKey], n.Name)
		f := nodeFinding(n, now)
		if n.Centre != nil && !n.Worker && n.Name != "centre" { // one of those that may be several
			f.Found += map[bool]string{true: "; does not lead", false: "; leads"}[n.Standby]
		}
		findings = append(findings, f)
	}
	switch {
	case centres == 0:
		findings = append(findings, finding{check, problem, "0 centres answered", "Start it: mneme centre. Edges keep what they record meanwhile"})
	case leading == 0:
		findings = append(findings, finding{check, problem, "no centre leads", "Another one leads within seconds of the failure of the former one, as soon as the database can be reached; without it the former one still lends limits"})
	case leading > 1:
		findings = append(findings, finding{check, problem, counted(leading, "centre") + " lead", "Give all centres the same centre.postgres"})
	}
	for name, n := range names {
		if n > 1 {
			findings = append(findings, finding{check, problem, fmt.Sprintf("%d nodes say that they are %s", n, name), "Give each edge and each centre a cluster.node of its own"})
		}
	}
	if len(versions) > 1 {
		findings = append(findings, finding{check, warning, "nodes have different versions:  " + grouped(versions), "Upgrade the centre first, then the edges"})
	}
	if len(masterKeys) > 1 {
		groups := map[string][]string{}
		for _, of := range masterKeys {
			groups[fmt.Sprintf("key %d", len(groups)+1)] = of
		}
		findings = append(findings, finding{check, problem, "nodes have different master keys:  " + grouped(groups), "Give all of them the same MNEME_MASTER_KEY; without it an edge has no credentials of accounts"})
	}
	return findings
}

// nodeFinding returns the worst finding about one node.
func nodeFinding(n *cluster.Node, now time.Time) finding {
	var all []finding
	if n.Edge != nil {
		all = append(all, edgeFindings(n.Edge, now)...)
	}
	if n.Centre != nil {
		all = append(all, centreFindings(n.Centre)...)
	}
	if n.Skew.Abs() > maxSkew {
		all = append(all, finding{"", warning, fmt.Sprintf("its clock is %s off this one", n.Skew.Round(time.Millisecond)), "Synchronize all clocks by NTP: lists are ordered by ids, which contain the time"})
	}
	worst := finding{n.Name, good, "version " + n.Version, ""}
	for _, f := range all {
		if f.State == problem && worst.State != problem || f.State == warning && worst.State == good {
			worst.State, worst.Fix = f.State, f.Fix
		}
		worst.Found += "; " + f.Found
	}
	return worst
}

// grouped lists which nodes have what.
func grouped(nodes map[string][]string) string {
	var parts []string
	for _, what := range slices.Sorted(maps.Keys(nodes)) {
		parts = append(parts, what+" "+strings.Join(nodes[what], ", "))
	}
	return strings.Join(parts, "; ")
}
