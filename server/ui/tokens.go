package ui

import (
	"crypto/rand"
	"crypto/sha256"
	"sync"
	"time"
)

// maxTokens bounds each set of tokens.
const maxTokens = 1000

// tokens are a set of secrets kept for some time, by their hashes.
type tokens struct {
	mu   sync.Mutex
	kept map[[sha256.Size]byte]kept
}

type kept struct {
	text  string
	until time.Time
}

// codes are single-use secrets, each standing for a text.
type codes struct{ tokens }

func (c *codes) give(text string, until time.Time) (code string) {
	code = rand.Text()
	c.keep(code, text, until)
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

// revoked are cookies that were signed out before they expired.
type revoked struct{ tokens }

func (r *revoked) give(cookie string, until time.Time) { r.keep(cookie, "", until) }

func (r *revoked) has(cookie string) bool {
	id := sha256.Sum256([]byte(cookie))
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.kept[id]
	return ok
}

func (t *tokens) keep(token, text string, until time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.kept == nil {
		t.kept = make(map[[sha256.Size]byte]kept)
	}
	if len(t.kept) >= maxTokens {
		t.forget()
	}
	t.kept[sha256.Sum256([]byte(token))] = kept{text, until}
}

// forget makes room: expired tokens go, or else the next to expire.
func (t *tokens) forget() {
	now := time.Now()
	var next [sha256.Size]byte
	var soonest time.Time
	for token, k := range t.kept {
		if now.After(k.until) {
			delete(t.kept, token)
		} else if soonest.IsZero() || k.until.Before(soonest) {
			next, soonest = token, k.until
		}
	}
	if len(t.kept) >= maxTokens {
		delete(t.kept, next)
	}
}
