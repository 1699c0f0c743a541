package ui

import (
	"crypto/rand"
	"crypto/sha256"
	"sync"
	"time"
)

// maxCodes bounds each set of codes.
const maxCodes = 1000

// codes are single-use secrets, each standing for a text, kept for some time by their hashes.
type codes struct {
	mu   sync.Mutex
	kept map[[sha256.Size]byte]kept
}

type kept struct {
	text  string
	until time.Time
}

func (c *codes) give(text string, until time.Time) (code string) {
	code = rand.Text()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kept == nil {
		c.kept = make(map[[sha256.Size]byte]kept)
	}
	if len(c.kept) >= maxCodes {
		c.forget()
	}
	c.kept[sha256.Sum256([]byte(code))] = kept{text, until}
	return code
}

// redeem returns the text of a code, once.
func (c *codes) redeem(code string) (text string, ok bool) {
	id := sha256.Sum256([]byte(code))
	c.mu.Lock()
	defer c.mu.Unlock()
	k, ok := c.kept[id]
	delete(c.kept, id)
	return k.text, ok && time.Now().Before(k.until)
}

// forget makes room: expired codes go, or else the next to expire, which opens nothing from then on.
func (c *codes) forget() {
	now := time.Now()
	var next [sha256.Size]byte
	var soonest time.Time
	for code, k := range c.kept {
		if now.After(k.until) {
			delete(c.kept, code)
		} else if soonest.IsZero() || k.until.Before(soonest) {
			next, soonest = code, k.until
		}
	}
	if len(c.kept) >= maxCodes {
		delete(c.kept, next)
	}
}
