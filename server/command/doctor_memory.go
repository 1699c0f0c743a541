package command

import (
	"context"
	"fmt"
	"time"

	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/server/background/embedding"
	"github.com/mnemeproxy/mneme/server/config"
	"github.com/mnemeproxy/mneme/store/catalog"
	"github.com/mnemeproxy/mneme/store/catalog/pack"
)

// examineMemory checks the database and the bucket of a centre, if it has them. In the bucket it writes an object and deletes it.
func examineMemory(ctx context.Context, cfg *config.Config) []finding {
	if cfg.Centre.Postgres == "" {
		return nil
	}
	memory, err := catalog.Examine(ctx, cfg.Centre.Postgres.Reveal())
	findings := []finding{examineDatabase(&memory, err)}
	if cfg.Centre.Bodies != config.InPostgres {
		findings = append(findings, examineBucket(ctx, cfg.Centre.Bodies))
	}
	return findings
}

func examineDatabase(c *catalog.Condition, err error) finding {
	const check = "database of the centre"
	if err != nil {
		return finding{check, problem, err.Error(), "Correct centre.postgres, or the database; edges keep what they record meanwhile"}
	}
	return databaseFinding(check, c)
}

// databaseFinding returns the worst finding about a database.
func databaseFinding(check string, c *catalog.Condition) finding {
	found := "Postgres " + c.Version
	switch {
	case c.Tables == 0:
		found += ", without tables: mneme centre creates them"
	case c.Tables < c.Known:
		found += fmt.Sprintf(", tables of version %d: mneme centre upgrades them to %d when it starts", c.Tables, c.Known)
	default:
		found += fmt.Sprintf(", tables of version %d", c.Tables)
	}
	synchronous := c.Standbys != "" && c.Commit != "local"
	if synchronous {
		found += ", synchronous standby " + c.Standbys
	}
	switch {
	case c.TooOld:
		return finding{
			check, problem, fmt.Sprintf("Postgres %s, tables of version %d, which this program does not read", c.Version, c.Tables),
			"Export the memory with the program that made them (mneme export), and import it into an empty database (mneme import)",
		}
	case c.Tables > c.Known:
		return finding{check, problem, fmt.Sprintf("%s, but this program knows versions up to %d", found, c.Known), "Use a newer release"}
	case c.ReadOnly:
		return finding{check, problem, found + ", which is read-only", "Name the primary in centre.postgres: a standby is read-only"}
	case !c.Fsync || c.Commit == "off":
		return finding{
			check, problem, fmt.Sprintf("%s, fsync %v, synchronous_commit %s: a crash loses what edges no longer keep", found, c.Fsync, c.Commit),
			"Turn both on",
		}
	case synchronous && c.Connected == 0:
		return finding{check, problem, found + ", which is not connected: nothing is committed", "Reconnect the standby"}
	case c.Skew.Abs() > maxSkew:
		return finding{check, warning, fmt.Sprintf("%s; its clock is %s off this one", found, c.Skew.Round(time.Millisecond)), "Synchronize both clocks by NTP"}
	case !synchronous:
		return finding{
			check, warning, fmt.Sprintf("%s, synchronous_commit %s, no synchronous standby: what edges no longer keep is on one machine", found, c.Commit),
			"Name one in synchronous_standby_names if the loss of that machine must not lose data",
		}
	case c.Connected < 0:
		found += ", but this user may not see whether it is connected"
	}
	return finding{check, good, found, ""}
}

// examineVectors compares the embedder that made the vectors in the database with the configured one. Other faults of
// either are found by other checks.
func examineVectors(ctx context.Context, cfg *config.Config, routes *router.Router) []finding {
	if cfg.Centre.Postgres == "" || cfg.Search.Embedder.Model == config.NoEmbedder {
		return nil
	}
	embedder, err := cfg.Search.Embedder.Local()
	if settings, byProvider := cfg.Embedding(); byProvider {
		embedder, err = embedding.New(settings, routes, noCredentials)
	}
	if err != nil {
		return nil
	}
	c, err := catalog.Examine(ctx, cfg.Centre.Postgres.Reveal())
	const check = "vectors of the centre"
	switch {
	case err != nil || c.Embedder == "":
		return nil
	case c.Embedder != embedder.Identity():
		return []finding{{
			check, warning, fmt.Sprintf("made by %s; with %s nothing is embedded by this configuration", c.Embedder, embedder.Identity()),
			"Set search.embedder to that one, at the centre and its workers alike, or have all turns embedded again: mneme reindex vectors",
		}}
	}
	return []finding{{check, good, "made by " + c.Embedder, ""}}
}

func examineBucket(ctx context.Context, address string) finding {
	const check = "bucket of the centre"
	ctx, cancel := context.WithTimeout(ctx, bucketTime)
	defer cancel()
	packs, err := pack.Open(ctx, address, "doctor", 0)
	if err != nil {
		return finding{check, problem, err.Error(), "Correct centre.bodies, its service, or its permissions; edges keep what they record meanwhile"}
	}
	switch keeps, err := packs.KeepsVersions(ctx); {
	case err != nil:
		return finding{check, warning, err.Error(), "Make sure that it keeps no former versions: they would contain erased data"}
	case keeps:
		return finding{
			check, warning, address + " keeps former versions, which contain erased data",
			"Add a lifecycle rule that deletes them after a while, or use a bucket without versioning",
		}
	}
	return finding{check, good, address + " can be written, read and deleted in, and keeps no former versions", ""}
}

// bucketTime is how long the service of a bucket may take to answer all requests of a check.
const bucketTime = 15 * time.Second
