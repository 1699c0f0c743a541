package command

import (
	"context"
	"encoding/csv"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mnemeproxy/mneme/server/admin"
	"github.com/mnemeproxy/mneme/server/api"
	"github.com/mnemeproxy/mneme/server/causes"
	"github.com/mnemeproxy/mneme/store/record"
)

// byCause reports whether usage is grouped by what tokens were for. That is read from requests, and does not mix with what is
// read from the counters.
func (c *Usage) byCause() (bool, error) {
	cause := func(name string) bool { return slices.Contains(api.CostsBy(), name) }
	switch {
	case c.Session != "" && len(c.By) == 0:
		c.By = []string{"part"}
	case !slices.ContainsFunc(c.By, cause):
		if c.Session != "" {
			return false, fmt.Errorf("--session goes with --by %s", strings.Join(api.CostsBy(), ", "))
		}
		return false, nil
	}
	for _, name := range c.By {
		if !cause(name) {
			return false, fmt.Errorf("--by %s: what tokens were for is grouped by %s alone", name, strings.Join(api.CostsBy(), ", "))
		}
	}
	return true, nil
}

// costs shows what tokens were for.
func (c *Usage) costs(ctx context.Context, s *Env) error {
	sum, err := causes.NewSum(c.By)
	if err != nil {
		return err
	}
	return c.manage(ctx, mustExist, func(client *admin.Client) error {
		accounts, err := c.costAccounts(ctx, client)
		if err != nil {
			return err
		}
		done := s.waiting("reading requests")
		for _, account := range accounts {
			if err = c.readCosts(ctx, client, account, sum); err != nil {
				break
			}
		}
		done()
		costs := sum.Costs()
		switch {
		case err != nil:
			return err
		case c.JSON:
			return writeJSON(s.Out, costs)
		case c.CSV:
			return c.writeCostCSV(s, costs)
		}
		return c.writeCosts(s, costs)
	})
}

// costAccounts returns the account of the session, or those that are asked for.
func (c *Usage) costAccounts(ctx context.Context, client *admin.Client) ([]string, error) {
	flag := AccountFlag{Account: c.Account}
	if c.Session == "" {
		return flag.accounts(ctx, client)
	}
	account, _, err := sessionOwner(ctx, client, flag, c.Session)
	return []string{account}, err
}

// readCosts adds page after page of an account.
func (c *Usage) readCosts(ctx context.Context, client *admin.Client, account string, sum *causes.Sum) error {
	query := url.Values{"by": {strings.Join(c.By, ",")}, "limit": {"100"}}
	if c.Session != "" {
		query.Set("session", c.Session)
	}
	if !c.Since.IsZero() {
		query.Set("since", c.Since.UTC().Format(time.RFC3339))
	}
	if !c.Until.IsZero() {
		query.Set("until", c.Until.UTC().Format(time.RFC3339))
	}
	for {
		page, err := client.Memory().Costs(ctx, account, query)
		if err != nil {
			return err
		}
		sum.Merge(&page)
		if !page.HasMore || page.LastID == "" {
			return nil
		}
		query.Set("after", page.LastID)
	}
}

func (c *Usage) writeCosts(s *Env, costs *api.Costs) error {
	headings := make([]string, 0, len(c.By)+4)
	for _, by := range c.By {
		headings = append(headings, strings.ToUpper(by))
	}
	headings = append(headings, "TOKENS IN", "TOKENS OUT", "COST", "SHARE")
	rows := make([][]string, 0, len(costs.Data)+1)
	for i := range costs.Data {
		line := &costs.Data[i]
		var row []string
		for _, by := range c.By {
			row = append(row, orDash(*line.By(by)))
		}
		rows = append(rows, append(row, costCells(line, &costs.Total)...))
	}
	rows = append(rows, append(slices.Concat([]string{"total"}, make([]string, len(c.By)-1)), costCells(&costs.Total, &costs.Total)...))
	if err := table(s.Out, headings, rows); err != nil {
		return err
	}
	if said := neverCalled(costs); said != "" {
		fmt.Fprintln(s.Err, said)
	}
	noteUnpriced(s, costs.Unpriced)
	return nil
}

func costCells(line, total *api.CostLine) []string {
	share := 0.0
	switch tokens := total.Input + total.Output; {
	case total.USD > 0:
		share = float64(line.USD) / float64(total.USD)
	case tokens > 0:
		share = float64(line.Input+line.Output) / float64(tokens)
	}
	return []string{strconv.FormatInt(line.Input, 10), strconv.FormatInt(line.Output, 10), line.USD.Rounded(), fmt.Sprintf("%.0f %%", share*100)}
}

// mostUnused is how many tools are named that were never called.
const mostUnused = 10

// neverCalled says what the definitions of tools that were never called took of the prompts; "" for next to nothing.
func neverCalled(costs *api.Costs) string {
	var (
		names  []string
		tokens int64
		usd    record.USD
	)
	for i := range costs.Tools {
		if tool := &costs.Tools[i]; !tool.Called {
			names = append(names, printable(tool.Name))
			tokens += tool.Input
			usd += tool.USD
		}
	}
	if tokens*100 < costs.Total.Input || len(names) == 0 {
		return ""
	}
	more := ""
	if left := len(names) - mostUnused; left > 0 {
		names, more = names[:mostUnused], fmt.Sprintf(" and %d more", left)
	}
	return fmt.Sprintf("%.0f %% of the prompts (%s) are definitions of tools that were never called: %s%s",
		100*float64(tokens)/float64(costs.Total.Input), usd.Rounded(), strings.Join(names, ", "), more)
}

func (c *Usage) writeCostCSV(s *Env, costs *api.Costs) error {
	w := csv.NewWriter(s.Out)
	_ = w.Write(append(slices.Clone(c.By), "input", "output", "usd"))
	for i := range costs.Data {
		line := &costs.Data[i]
		var row []string
		for _, by := range c.By {
			row = append(row, inert(*line.By(by)))
		}
		_ = w.Write(append(row, strconv.FormatInt(line.Input, 10), strconv.FormatInt(line.Output, 10), line.USD.String()))
	}
	w.Flush()
	return w.Error()
}
