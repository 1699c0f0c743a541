package command

import (
	"context"
	"fmt"
	"time"

	"github.com/mnemeproxy/mneme/server/admin"
	"github.com/mnemeproxy/mneme/server/cluster"
)

// examineCluster checks the running server's role in a cluster, if it has one. edge reports whether that is an edge.
func (c *Doctor) examineCluster(ctx context.Context) (findings []finding, edge bool) {
	_ = c.manage(ctx, mustExist, func(client *admin.Client) error {
		part, err := client.Cluster(ctx)
		if edge = part.Edge != nil; edge {
			findings = append(findings, edgeFindings(part.Edge, time.Now())...)
		}
		if part.Centre != nil {
			findings = append(findings, centreFindings(part.Centre)...)
		}
		return err
	})
	return findings, edge
}

// lateShipping is how long the oldest exchange may wait for the centre without a warning: it is normally shipped within
// a second.
const lateShipping = time.Minute

// maxSkew is how far the clocks of two nodes may differ: ids, and so lists, are in the order of the clocks.
const maxSkew = time.Second

func edgeFindings(s *cluster.Shipping, now time.Time) (findings []finding) {
	const check = "centre"
	late := !s.Oldest.IsZero() && now.Sub(s.Oldest) > lateShipping
	waiting := counted(int(s.Waiting), "exchange") + " wait for it"
	switch {
	case s.Problem != "":
		findings = append(findings, finding{
			check, problem, s.Problem + "; " + waiting, "Nothing is lost: they are kept here, and shipped when it is back. Check cluster.nats and the centre",
		})
	case late:
		findings = append(findings, finding{
			check, warning, fmt.Sprintf("%s, the oldest for %s", waiting, now.Sub(s.Oldest).Round(time.Second)), "Check that mneme centre runs; they are kept here meanwhile",
		})
	default:
		findings = append(findings, finding{check, good, "exchanges are shipped; " + waiting, ""})
	}
	if s.Identity != nil {
		findings = append(findings, identityFinding(s.Identity, now))
	}
	if skew := time.Duration(s.Skew) * time.Millisecond; !s.Confirmed.IsZero() && skew.Abs() > maxSkew {
		findings = append(findings, finding{"clock of the centre", warning, fmt.Sprintf("it is %s off this one", skew), "Synchronize both clocks by NTP: lists are ordered by ids, which contain the time"})
	}
	return findings
}

// lateBeat is how long the centre may be silent: it sends a beat every two seconds.
const lateBeat = 10 * time.Second

func identityFinding(i *cluster.Identity, now time.Time) finding {
	const check = "accounts and keys"
	switch {
	case i.Problem != "":
		return finding{check, problem, i.Problem, "The edge keeps using those that it has; changes at the centre do not reach it"}
	case i.Heard.IsZero():
		return finding{check, warning, "the centre was never heard", "Check that mneme centre runs, with the same MNEME_CLUSTER_KEY"}
	case now.Sub(i.Heard) > lateBeat:
		return finding{check, warning, "the centre was last heard " + ago(now, i.Heard), "The edge keeps using those that it has; it still accepts keys revoked at the centre"}
	}
	return finding{check, good, "those of the centre are in effect here", ""}
}

func centreFindings(s *cluster.Arriving) []finding {
	findings := []finding{arrivalFinding(s)}
	if s.Stream != nil {
		findings = append(findings, streamFinding(s.Stream))
	}
	return findings
}

// fullStream is the part of the room at the brokers from which on a warning is due.
const fullStream = 0.75

func streamFinding(s *cluster.Stream) finding {
	const check = "brokers"
	held := fmt.Sprintf("the brokers hold %s of what edges ship, in %s", amount(int64(s.Bytes)), counted(s.Replicas, "replica"))
	switch {
	case s.Most <= 0:
		return finding{check, warning, held + ", with no bound", "The log of the centre says why cluster.waiting could not be set; without it a full disk of a broker stops changes of keys too"}
	case float64(s.Bytes) > fullStream*float64(s.Most):
		return finding{check, warning, fmt.Sprintf("%s of at most %s", held, amount(s.Most)), "Check that a centre or worker takes it; what does not fit waits at the edges"}
	case s.Replicas == 1 && s.Brokers > 1:
		return finding{check, warning, fmt.Sprintf("%s, though there are %d brokers", held, s.Brokers), "Set cluster.replicas, and change the stream at the brokers: nats stream edit MNEME --replicas 3"}
	}
	return finding{check, good, held, ""}
}

func arrivalFinding(s *cluster.Arriving) finding {
	const check = "edges"
	refused := int64(0)
	for _, n := range s.Refused {
		refused += n
	}
	switch {
	case s.Problem != "":
		return finding{check, problem, s.Problem, "The edges keep what they have recorded meanwhile"}
	case s.Aside > 0:
		return finding{
			check, warning, counted(s.Aside, "exchange") + " of edges could not be stored and are kept aside, in the database",
			"The log says why; one whose account is missing is stored once the account exists: mneme account create",
		}
	case refused > 0:
		return finding{check, warning, fmt.Sprintf("%d messages were refused since the start", refused), "The log says why: another MNEME_CLUSTER_KEY, or a later version of mneme on an edge"}
	}
	return finding{check, good, counted(int(s.Exchanges), "exchange") + " came from edges since the start", ""}
}
