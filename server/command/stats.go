package command

import (
	"context"
	"fmt"
	"strconv"

	"github.com/mnemeproxy/mneme/server/admin"
	"github.com/mnemeproxy/mneme/server/memory"
)

// Stats is "mneme stats".
type Stats struct {
	Target `embed:""`
	Owner  `embed:""`
	JSON   bool `help:"Write a JSON array."`
}

// Run shows disk usage by account and kind.
func (c *Stats) Run(ctx context.Context, s *Surroundings) error {
	return c.manage(ctx, mustExist, func(client *admin.Client) error {
		accounts, err := c.accounts(ctx, client)
		if err != nil {
			return err
		}
		all := make([]memory.Stats, 0, len(accounts))
		for _, account := range accounts {
			one, err := client.Memory().Stats(ctx, account)
			if err != nil {
				return err
			}
			all = append(all, one)
		}
		if c.JSON {
			return writeJSON(s.Out, all)
		}
		rows := make([][]string, len(all))
		for i := range all {
			rows[i] = statsRow(&all[i])
		}
		return table(s.Out, []string{"ACCOUNT", "EXCHANGES", "SESSIONS", "CAPTURED", "STORED", "SHARE", "IN BLOCKS", "IN ANSWERS", "IN RECORDS", "IN SESSIONS", "IN TURNS"}, rows)
	})
}

func statsRow(u *memory.Stats) []string {
	captured := u.RequestBytes + u.ResponseBytes
	share := "-"
	if captured > 0 {
		share = fmt.Sprintf("%.1f %%", 100*float64(u.Stored)/float64(captured))
	}
	return []string{
		u.Account, strconv.FormatInt(u.Exchanges, 10), strconv.FormatInt(u.Sessions, 10), amount(captured), amount(u.Stored), share,
		amount(u.StoredBlocks), amount(u.StoredResponses), amount(u.StoredRecords), amount(u.StoredSessions), amount(u.StoredTurns),
	}
}
