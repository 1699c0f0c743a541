package command

import (
	"context"
	"fmt"

	"github.com/mnemeproxy/mneme/server/admin"
	"github.com/mnemeproxy/mneme/store"
)

// Recover is "mneme recover DIR".
type Recover struct {
	StoreFlags `embed:""`
	To         string `arg:"" help:"Directory for the new store; it must be empty or not exist yet."`
	JSON       bool   `help:"Write the report as JSON."`
}

// Run makes a new store from everything readable in a damaged one. If anything is lost, the exit code is 1.
func (c *Recover) Run(ctx context.Context, s *Env) error {
	cfg, err := c.load()
	if err != nil {
		return err
	}
	opts, err := storeOptions(&cfg, nil)
	if err != nil {
		return err
	}
	if admin.Running(ctx, cfg.Data) {
		return fmt.Errorf("a server runs on the data in %s; stop it first", cfg.Data)
	}
	opts.Dir = c.To
	done := s.waiting("recovering")
	report, err := store.Recover(ctx, opts, cfg.Data)
	done()
	if err != nil {
		return err
	}
	if c.JSON {
		err = writeJSON(s.Out, report)
	} else {
		err = describeRecovery(s, report)
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(s.Err, "mneme: what could be read of %s is in %s; use it with --data %s. The search index is built at the first start\n", cfg.Data, c.To, c.To)
	if n := len(report.Damage) + len(report.Findings); n > 0 {
		return fmt.Errorf("%s of damage or loss", counted(n, "finding"))
	}
	return nil
}

func describeRecovery(s *Env, report *store.RecoverReport) error {
	if err := describeDamage(s, report.Damage); err != nil {
		return err
	}
	if err := describeFindings(s, report.Findings); err != nil {
		return err
	}
	_, err := fmt.Fprintf(s.Out, "recovered %d exchanges in %d sessions; %d records are lost\n", report.Check.Exchanges, report.Check.Sessions, report.Lost)
	return err
}

// describeDamage describes the damage to files, and the first losses from it.
func describeDamage(s *Env, damage []store.Damage) error {
	if len(damage) == 0 {
		return nil
	}
	const named = 10
	var rows [][]string
	for i := range damage {
		d := &damage[i]
		rows = append(rows, []string{d.File, d.Problem})
		for n, subject := range d.Lost {
			if n == named {
				rows = append(rows, []string{"", fmt.Sprintf("and %d more; --json lists all", len(d.Lost)-named)})
				break
			}
			rows = append(rows, []string{"", "lost: " + subject})
		}
	}
	return table(s.Out, []string{"FILE", "PROBLEM"}, rows)
}
