package store

import (
	"context"

	"github.com/mnemeproxy/mneme/store/internal/check"
)

// The names of package check.
type (
	// Finding is one fault that [Upkeep.Check] found.
	Finding = check.Finding
	// CheckReport has the counts of [Upkeep.Check].
	CheckReport = check.Report
)

// Check verifies the store, see [check.Check].
func (s Upkeep) Check(ctx context.Context, repair bool, tell func(Finding)) (CheckReport, error) {
	return check.Check(ctx, check.Options{
		DB: s.db, Writer: s.writer, Feed: s.feed, Accounts: s.accounts, Digests: s.opts.Digest != nil,
	}, repair, tell)
}
