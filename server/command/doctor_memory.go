package command

import (
	"context"
	"fmt"
	"time"

	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/server/admin"
	"github.com/mnemeproxy/mneme/server/api"
	"github.com/mnemeproxy/mneme/server/background/embedding"
	"github.com/mnemeproxy/mneme/server/config"
	"github.com/mnemeproxy/mneme/store/catalog"
	"github.com/mnemeproxy/mneme/store/catalog/pack"
	"github.com/mnemeproxy/mneme/store/record"
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

// muchLost is the cost of lost prompt caches in a week from which the doctor warns.
const muchLost = record.Dollar

// cacheReasons are the reasons why prompt caches are lost, and what helps.
var cacheReasons = map[string]struct{ said, fix string }{
	api.BrokenByModel:    {"another model was asked", "Change models between sessions, not within one"},
	api.BrokenByProvider: {"another provider was asked", "Keep a session on one provider"},
	api.BrokenByPause:    {"the session paused for longer than the provider keeps a cache", "Begin a new session with a handoff after a pause (mneme handoff), or let the client keep its cache for an hour"},
	api.BrokenByTools:    {"other tools were offered", "Offer the same tools from the first request on"},
	api.BrokenByOrder:    {"the same tools came in another order", "Offer tools in a fixed order"},
	api.BrokenByBlock:    {"a text in front of the conversation differs", "Put what changes, such as dates, behind what stays"},
}

// examineCaches reports what lost prompt caches cost in the last week, and what lost most. The server reads exchanges for that.
func (c *Doctor) examineCaches(ctx context.Context) []finding {
	ctx, cancel := context.WithTimeout(ctx, c.answerTime())
	defer cancel()
	var (
		lost  record.USD
		worst *api.CacheReason
	)
	err := c.manage(ctx, mustExist, func(client *admin.Client) error {
		accounts, err := client.Accounts().List(ctx)
		if err != nil {
			return err
		}
		for _, account := range accounts {
			report, err := client.Memory().Cache(ctx, account.Name)
			if err != nil {
				return err
			}
			lost += report.Lost
			for _, list := range [][]*api.CacheReason{report.Projects, report.Reasons} { // where the project is known, it is named
				for _, reason := range list {
					if _, known := cacheReasons[reason.Reason]; known && (worst == nil || reason.Lost > worst.Lost) {
						worst = reason
					}
				}
			}
		}
		return nil
	})
	switch {
	case ctx.Err() != nil:
		return []finding{{"prompt caches", good, "what lost ones cost was not summed up within " + lasted(c.answerTime()) + "; the usage page has it", ""}}
	case err != nil:
		return nil // the check of accounts says why
	case lost < muchLost || worst == nil:
		return []finding{{"prompt caches", good, "lost ones cost " + lost.Rounded() + " in the last 7 days", ""}}
	}
	reason := cacheReasons[worst.Reason]
	where := ""
	if worst.Project != "" {
		where = " in " + worst.Project
	}
	return []finding{{
		"prompt caches", warning, fmt.Sprintf("lost ones cost %s in the last 7 days, %s of it%s, because %s", lost.Rounded(), worst.Lost.Rounded(), where, reason.said), reason.fix,
	}}
}
