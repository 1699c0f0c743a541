package promptcache

import "time"

// Noted returns the model that is kept for a session that a client has started.
func (c *Caches) Noted(account, known string) string {
	return c.models.since(account, known, time.Time{})
}
