package command

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/server/admin"
	"github.com/mnemeproxy/mneme/server/api"
)

// Usage is "mneme usage".
type Usage struct {
	Target  `embed:""`
	Account string   `placeholder:"NAME" help:"Only this account (default: all)."`
	By      []string `placeholder:"NAMES" help:"What to group by, separated by commas: hour, day, month, account, key, project, client, provider, model (default: model, the costliest ones). Or what tokens were for, which reads the requests: part, tool, server (MCP), skill, subagent, age."`
	Session string   `placeholder:"ID" help:"What the tokens of this session were for (default: by part)."`
	Since   When     `placeholder:"TIME" help:"From when on: a date (2026-11-01, UTC), a time, how long ago (30d, 12h), yesterday, \"last month\" (default: 30d; all of a session)."`
	Until   When     `placeholder:"TIME" help:"Until when, exclusive."`
	CSV     bool     `xor:"form" help:"Write comma-separated values, amounts in US dollars."`
	JSON    bool     `xor:"form" help:"Write JSON."`
}

// Run shows usage and cost.
func (c *Usage) Run(ctx context.Context, s *Env) error {
	if c.Since.IsZero() && c.Session == "" {
		c.Since.Time = time.Now().AddDate(0, 0, -30)
	}
	if !c.Until.IsZero() && !c.Since.Before(c.Until.Time) {
		return errors.New("--until has to be later than --since")
	}
	switch byCause, err := c.byCause(); {
	case err != nil:
		return err
	case byCause:
		return c.costs(ctx, s)
	}
	brief := len(c.By) == 0
	if brief {
		c.By = []string{"model"}
	}
	for _, name := range c.By {
		if !slices.Contains(api.UsageBy(), name) {
			return fmt.Errorf("--by %s: group by %s", name, strings.Join(slices.Concat(api.UsageBy(), api.CostsBy()), ", "))
		}
	}
	query := url.Values{"by": {strings.Join(c.By, ",")}, "since": {c.Since.UTC().Truncate(time.Hour).Format(time.RFC3339)}}
	if c.Account != "" {
		query.Set("account", c.Account)
	}
	if !c.Until.IsZero() {
		query.Set("until", c.Until.UTC().Format(time.RFC3339))
	}
	return c.manage(ctx, mustExist, func(client *admin.Client) error {
		u, err := client.Memory().Usage(ctx, query)
		switch {
		case err != nil:
			return err
		case c.JSON:
			return writeJSON(s.Out, u)
		case c.CSV:
			return c.writeCSV(s, &u)
		}
		if brief {
			c.shorten(s, &u)
		}
		return c.writeTable(s, &u)
	})
}

// mostUsage is how many lines are shown where nothing says by what to group.
const mostUsage = 15

// shorten leaves the costliest lines.
func (c *Usage) shorten(s *Env, u *api.Usage) {
	if left := len(u.Data) - mostUsage; left > 0 {
		u.Data = u.Data[:mostUsage]
		fmt.Fprintf(s.Err, "%d more models are in the total; see all with --by model\n", left)
	}
}

// columns are what is grouped by, and the labels of keys beside their ids.
func (c *Usage) columns() (columns []string) {
	for _, by := range c.By {
		if columns = append(columns, by); by == "key" {
			columns = append(columns, "label")
		}
	}
	return columns
}

func usageCell(line *api.UsageLine, by string) string {
	switch by {
	case "hour":
		return line.Hour.Format("2006-01-02 15:04")
	case "day":
		return line.Day
	case "month":
		return line.Month
	case "account":
		return line.Account
	case "key":
		return line.Key
	case "label":
		return line.Label
	case "project":
		return line.Project
	case "client":
		return line.Client
	case "provider":
		return line.Provider
	}
	return line.Model
}

func (c *Usage) writeTable(s *Env, u *api.Usage) error {
	var headings []string
	for _, by := range c.columns() {
		headings = append(headings, strings.ToUpper(by))
	}
	headings = append(headings, "REQUESTS", "ERRORS", "TOKENS IN", "CACHED", "TOKENS OUT", "COST", "SAVED BY CACHES")
	rows := make([][]string, 0, len(u.Data)+1)
	for i := range u.Data {
		rows = append(rows, c.row(&u.Data[i], false))
	}
	rows = append(rows, c.row(&u.Total, true))
	if err := fitted(s.Out, s.width(), headings, rows, "SAVED BY CACHES", "ERRORS", "CACHED", "TOKENS OUT", "TOKENS IN"); err != nil {
		return err
	}
	noteUnpriced(s, u.Total.Cost.Unpriced)
	if n := u.Total.Cost.Notional; n > 0 {
		fmt.Fprintf(s.Err, "of the cost, %s is the list price of what was imported, or paid with callers' own credentials\n", n.Rounded())
	}
	return nil
}

// noteUnpriced says how many requests have no price, if there are any.
func noteUnpriced(s *Env, n int64) {
	if n > 0 {
		fmt.Fprintf(s.Err, "%s no known price; add one under prices in models_file\n", countedOf(n, "request has", "requests have"))
	}
}

func (c *Usage) row(line *api.UsageLine, total bool) (row []string) {
	for i, by := range c.columns() {
		switch {
		case !total:
			row = append(row, orDash(usageCell(line, by)))
		case i == 0:
			row = append(row, "total")
		default:
			row = append(row, "")
		}
	}
	input := codec.Usage(line.Usage).TotalInput()
	return append(row, strconv.FormatInt(line.Requests, 10), strconv.FormatInt(line.Errors, 10), strconv.FormatInt(input, 10),
		fmt.Sprintf("%.0f %%", line.CacheShare*100), strconv.FormatInt(line.Usage.Output, 10), dollars(&line.Cost), line.Cost.Saved.Rounded())
}

func (c *Usage) writeCSV(s *Env, u *api.Usage) error {
	w := csv.NewWriter(s.Out)
	_ = w.Write(append(c.columns(), "requests", "errors", "input_uncached", "cache_read", "cache_write", "output", "reasoning",
		"usd", "notional_usd", "saved_usd", "unpriced", "estimated"))
	for i := range u.Data {
		line := &u.Data[i]
		var row []string
		for _, by := range c.columns() {
			row = append(row, inert(usageCell(line, by)))
		}
		for _, n := range []int64{line.Requests, line.Errors, line.Usage.InputUncached, line.Usage.CacheRead, line.Usage.CacheWrite, line.Usage.Output, line.Usage.Reasoning} {
			row = append(row, strconv.FormatInt(n, 10))
		}
		row = append(row, line.Cost.USD.String(), line.Cost.Notional.String(), line.Cost.Saved.String(),
			strconv.FormatInt(line.Cost.Unpriced, 10), strconv.FormatInt(line.Cost.Estimated, 10))
		_ = w.Write(row)
	}
	w.Flush()
	return w.Error()
}

// inert keeps a spreadsheet from reading a client's text as a formula.
func inert(cell string) string {
	if cell != "" && strings.ContainsAny(cell[:1], "=+-@\t\r") {
		return "'" + cell
	}
	return cell
}

func countedOf(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
