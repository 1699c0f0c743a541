package command

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/mnemeproxy/mneme/server/admin"
	"github.com/mnemeproxy/mneme/server/api"
	"github.com/mnemeproxy/mneme/server/recall"
	"github.com/mnemeproxy/mneme/store"
)

// Stats is "mneme stats".
type Stats struct {
	Target      `embed:""`
	AccountFlag `embed:""`
	JSON        bool `help:"Write a JSON array."`
}

// Run shows disk usage by account and kind.
func (c *Stats) Run(ctx context.Context, s *Env) error {
	return c.manage(ctx, mustExist, func(client *admin.Client) error {
		accounts, err := c.accounts(ctx, client)
		if err != nil {
			return err
		}
		all := make([]api.Stats, 0, len(accounts))
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
		err = table(s.Out, []string{"ACCOUNT", "EXCHANGES", "SESSIONS", "CAPTURED", "STORED", "SHARE", "IN BLOCKS", "IN ANSWERS", "IN RECORDS", "IN SESSIONS", "IN TURNS"}, rows)
		if err != nil {
			return err
		}
		if err := writeRecalls(s.Out, all); err != nil || len(all) == 0 || all[0].Index == nil {
			return err
		}
		rows = rows[:0]
		for i := range all[0].Index.Stages { // those of all accounts
			rows = append(rows, stageRow(&all[0].Index.Stages[i]))
		}
		if _, err := fmt.Fprintln(s.Out); err != nil {
			return err
		}
		return table(s.Out, []string{"STAGE", "TO DO", "UNCONFIRMED", "DONE", "TIME EACH"}, rows)
	})
}

// writeRecalls shows the results of recall since the server started, for accounts that had any.
func writeRecalls(out io.Writer, all []api.Stats) error {
	var rows [][]string
	for i := range all {
		if r := all[i].Recall; r != (recall.Counts{}) {
			rows = append(rows, []string{all[i].Account, strconv.FormatInt(r.Spoke, 10), strconv.FormatInt(r.Silent, 10), strconv.FormatInt(r.Late, 10), strconv.FormatInt(r.Tokens, 10)})
		}
	}
	if len(rows) == 0 {
		return nil
	}
	if _, err := fmt.Fprintln(out); err != nil {
		return err
	}
	return table(out, []string{"ACCOUNT", "RECALLED", "SILENT", "TOO LATE", "TOKENS RECALLED"}, rows)
}

func stageRow(s *store.StageStats) []string {
	each := "-"
	if s.Done > 0 {
		each = fmt.Sprintf("%.2f ms", s.BusyMillis/float64(s.Done))
	}
	return []string{s.Stage, strconv.FormatUint(s.Lag, 10), strconv.FormatUint(s.Unconfirmed, 10), strconv.FormatInt(s.Done, 10), each}
}

func statsRow(u *api.Stats) []string {
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
