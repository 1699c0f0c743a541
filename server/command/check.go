package command

import (
	"context"
	"fmt"

	"github.com/mnemeproxy/mneme/server/admin"
	"github.com/mnemeproxy/mneme/store"
)

// Check is "mneme check".
type Check struct {
	Target `embed:""`
	Repair bool `help:"Repair what can be derived from the exchanges; never removes an exchange."`
	JSON   bool `help:"Write the findings and the report as JSON."`
}

// Run verifies every invariant of the store (store/FORMAT.md). Faults that are not repaired make it fail.
func (c *Check) Run(ctx context.Context, s *Env) error {
	return c.manage(ctx, mustExist, func(client *admin.Client) error {
		findings := []store.Finding{}
		done := s.waiting("checking")
		report, err := client.Upkeep().Check(ctx, c.Repair, func(f store.Finding) { findings = append(findings, f) })
		done()
		if err != nil {
			return err
		}
		if c.JSON {
			err = writeJSON(s.Out, struct {
				store.CheckReport
				Found []store.Finding `json:"found"`
			}{report, findings})
		} else {
			err = describeCheck(s, &report, findings)
		}
		if left := report.Findings - report.Repaired; err == nil && left > 0 {
			err = fmt.Errorf("%s found", counted(left, "problem"))
		}
		return err
	})
}

func describeCheck(s *Env, report *store.CheckReport, findings []store.Finding) error {
	if err := describeFindings(s, findings); err != nil {
		return err
	}
	fmt.Fprintf(s.Out, "checked %d exchanges in %d sessions, %d blocks and %d nodes: ", report.Exchanges, report.Sessions, report.Blocks, report.Nodes)
	if report.Findings == 0 {
		fmt.Fprintln(s.Out, "all well")
		return nil
	}
	fmt.Fprintf(s.Out, "%d findings, %d repaired\n", report.Findings, report.Repaired)
	return nil
}

func describeFindings(s *Env, findings []store.Finding) error {
	if len(findings) > 0 {
		rows := make([][]string, len(findings))
		for i, f := range findings {
			state := "as it was"
			if f.Repaired {
				state = "repaired"
			}
			rows[i] = []string{f.Account, f.Subject, f.Problem, state}
		}
		if err := table(s.Out, []string{"ACCOUNT", "WHAT", "PROBLEM", "NOW"}, rows); err != nil {
			return err
		}
	}
	return nil
}
