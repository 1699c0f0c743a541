package command

import (
	"context"
	"fmt"
	"time"

	"github.com/mnemeproxy/mneme/server/config"
	"github.com/mnemeproxy/mneme/store/catalog"
	"github.com/mnemeproxy/mneme/store/catalog/pack"
)

// examineMemory looks at the database and the bucket of a centre; nothing where it has none. In the bucket it writes an object,
// and takes it away.
func examineMemory(ctx context.Context, cfg *config.Config) []finding {
	if cfg.Centre.Postgres == "" {
		return nil
	}
	findings := []finding{examineDatabase(ctx, cfg)}
	if cfg.Centre.Bodies != config.InPostgres {
		findings = append(findings, examineBucket(ctx, cfg.Centre.Bodies))
	}
	return findings
}

func examineDatabase(ctx context.Context, cfg *config.Config) finding {
	const check = "database of the centre"
	c, err := catalog.Examine(ctx, cfg.Centre.Postgres.Reveal())
	if err != nil {
		return finding{check, problem, err.Error(), "Correct centre.postgres, or the database; edges keep what they record meanwhile"}
	}
	return databaseFinding(check, &c)
}

// databaseFinding says the worst that there is to say of a database.
func databaseFinding(check string, c *catalog.Condition) finding {
	found := "Postgres " + c.Version
	switch {
	case c.Tables == 0:
		found += ", without tables: mneme centre makes them"
	case c.Tables < c.Known:
		found += fmt.Sprintf(", tables of version %d: mneme centre makes %d of them when it starts", c.Tables, c.Known)
	default:
		found += fmt.Sprintf(", tables of version %d", c.Tables)
	}
	synchronous := c.Standbys != "" && c.Commit != "local"
	if synchronous {
		found += ", synchronous standby " + c.Standbys
	}
	switch {
	case c.Tables > c.Known:
		return finding{check, problem, fmt.Sprintf("%s, and this program knows %d", found, c.Known), "Use a later program"}
	case c.ReadOnly:
		return finding{check, problem, found + ", which takes no changes", "Name the primary in centre.postgres: a standby takes none"}
	case !c.Fsync || c.Commit == "off":
		return finding{
			check, problem, fmt.Sprintf("%s, fsync %v, synchronous_commit %s: a crash loses what edges have let go of", found, c.Fsync, c.Commit),
			"Turn both on",
		}
	case synchronous && c.Connected == 0:
		return finding{check, problem, found + ", which is not connected: nothing is committed", "See to the standby"}
	case c.Skew.Abs() > maxSkew:
		return finding{check, warning, fmt.Sprintf("%s; its clock is %s off this one", found, c.Skew.Round(time.Millisecond)), "Set both clocks by NTP"}
	case !synchronous:
		return finding{
			check, warning, fmt.Sprintf("%s, synchronous_commit %s, no synchronous standby: what edges have let go of is on one machine", found, c.Commit),
			"Name one in synchronous_standby_names where the loss of that machine is to lose nothing",
		}
	case c.Connected < 0:
		found += ", of which this user may not see whether it is connected"
	}
	return finding{check, good, found, ""}
}

func examineBucket(ctx context.Context, address string) finding {
	const check = "bucket of the centre"
	ctx, cancel := context.WithTimeout(ctx, bucketTime)
	defer cancel()
	packs, err := pack.Open(ctx, address, "doctor", 0)
	if err != nil {
		return finding{check, problem, err.Error(), "Correct centre.bodies, its service, or the rights there; edges keep what they record meanwhile"}
	}
	switch keeps, err := packs.KeepsVersions(ctx); {
	case err != nil:
		return finding{check, warning, err.Error(), "See that it keeps none: what is erased would be in them"}
	case keeps:
		return finding{
			check, warning, address + " keeps former versions: what is erased is in these",
			"Have a rule of the bucket delete them after a while, or use a bucket without versions",
		}
	}
	return finding{check, good, address + " can be written, read and deleted in, and keeps no former versions", ""}
}

// bucketTime is how long the service of a bucket may take to answer all that it is asked.
const bucketTime = 15 * time.Second
