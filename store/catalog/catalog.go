package catalog

import "context"

// Catalog is a memory in Postgres. All methods may be called concurrently. Close ends it.
type Catalog struct {
	*database
	Events *Events // publishes commits
	roster *Roster // nil: this is a worker
	lead   *Lead   // likewise
}

// AsideOf returns the refused entries of a catalog.
func AsideOf(c *Catalog) Aside { return Aside{c.database} }

// BacklogOf returns what waits in a catalog.
func BacklogOf(ctx context.Context, c *Catalog) (Backlog, error) { return c.backlog(ctx) }

// LeadOf returns the part of a centre in the choice of a leader; nil for a worker.
func LeadOf(c *Catalog) *Lead { return c.lead }

// RecalledOf returns the part of a catalog for recall.
func RecalledOf(c *Catalog) Recalled { return Recalled{c.database} }

// RosterOf returns the roster of a centre; nil for a worker.
func RosterOf(c *Catalog) *Roster { return c.roster }

// SummariesOf returns the part of a catalog for summaries.
func SummariesOf(c *Catalog) Summaries { return Summaries{c.database} }

// VectorsOf returns the part of a catalog for vectors.
func VectorsOf(c *Catalog) Vectors { return Vectors{c.database} }
