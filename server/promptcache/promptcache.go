// Package promptcache says what the prompt caches of providers were worth to recorded sessions: what broke them, what that
// cost, and, before the next prompt is sent, what that is going to cost.
//
// A prompt cache is broken by a request if it has much less of it than the request before it in its session could have
// left there. Another provider, another model and a pause are checked first: they lose the cache whatever the request
// contains.
package promptcache

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/server/api"
	"github.com/mnemeproxy/mneme/store/record"
)

const (
	leastLost = 1024      // tokens: providers cache no shorter prompt
	cacheAge  = time.Hour // the longest that any provider keeps a prompt that is not asked for
)

// Prices has the prices of models.
type Prices interface {
	Price(provider, model string, at time.Time) *router.Price // nil: unknown
}

// Archive is the record of accounts.
type Archive interface {
	Timeline(account, session string, q record.TimelineQuery) (record.TimelinePage, error)
	Exchange(account, id string) (*record.Exchange, error)
	Sessions(account string, q record.SessionQuery) (record.SessionPage, error)
}

// Caches reads from a record what prompt caches were worth.
type Caches struct {
	Archive Archive
	Prices  Prices           // nil: unknown
	Warn    record.USD       // least extra cost at which a lost cache is worth a warning; negative: never
	Clock   func() time.Time // of forecasts

	models startedModels
}

// Life returns how long a host keeps a prompt that is not asked for again; 0: unknown.
func Life(provider, format, model string) time.Duration {
	switch {
	case format == "messages":
		return 5 * time.Minute
	case provider != "openai" && provider != "azure":
		return 0
	}
	version, isGPT := strings.CutPrefix(model, "gpt-")
	version, _, _ = strings.Cut(version, "-")
	if number, err := strconv.ParseFloat(version, 64); isGPT && err == nil && number >= 5.6 {
		return 30 * time.Minute
	}
	return 10 * time.Minute
}

// lifeOf returns how long the provider keeps what a request left in a cache; 0: unknown.
func lifeOf(x *record.ExchangeInfo) time.Duration {
	if x.Usage.CacheLong > 0 {
		return cacheAge
	}
	return Life(x.Provider, x.Format, x.ModelSent)
}

// lostTokens returns how many tokens of a prompt the request before it had left in a cache, and were not read from there;
// 0 if the cache is not broken.
func lostTokens(before, now *record.ExchangeInfo) int64 {
	had := before.Usage.CacheRead + before.Usage.CacheWrite
	asked := now.Usage.InputUncached + now.Usage.CacheRead + now.Usage.CacheWrite
	if lost := min(had, asked) - now.Usage.CacheRead; lost >= leastLost && now.Usage.CacheRead < had/2 {
		return lost
	}
	return 0
}

// keptFor returns how long the provider keeps what a request left in a cache, or how long most do.
func keptFor(x *record.ExchangeInfo) time.Duration {
	switch life := lifeOf(x); {
	case life > 0:
		return life
	case x.Usage.CacheWrite > 0:
		return 5 * time.Minute
	}
	return 10 * time.Minute
}

// LossOf returns what prompt tokens of an exchange, those behind what its cache had, cost more than they would have from the
// cache; 0: nothing, or unknown. Providers first write what they did not find, at a price of its own.
func (c *Caches) LossOf(x *record.ExchangeInfo, tokens int64) record.USD {
	if c.Prices == nil {
		return 0
	}
	price := c.Prices.Price(x.Provider, x.ModelSent, x.Started)
	if price == nil {
		return 0
	}
	paid := codec.Usage{CacheWrite: min(tokens, x.Usage.CacheWrite)}
	paid.CacheLong, paid.InputUncached = min(paid.CacheWrite, x.Usage.CacheLong), tokens-paid.CacheWrite
	return record.USD(price.Bill(&paid, x.Started).Cost - price.Bill(&codec.Usage{CacheRead: tokens}, x.Started).Cost)
}

// newBreak returns the break between two requests, with the reason if their records tell it.
func (c *Caches) newBreak(before, now *record.ExchangeInfo) *api.CacheBreak {
	b := &api.CacheBreak{Exchange: now.ID, Session: now.Session, Previous: before.ID, Started: now.Started, Project: now.Project, Tokens: lostTokens(before, now)}
	if b.Tokens > 0 {
		b.Lost = c.LossOf(now, b.Tokens)
	}
	idle, kept := now.Started.Sub(before.LastByte), keptFor(before)
	switch {
	case before.Provider != now.Provider:
		b.Reason, b.Before, b.Now = api.BrokenByProvider, before.Provider, now.Provider
	case before.ModelSent != now.ModelSent:
		b.Reason, b.Before, b.Now = api.BrokenByModel, before.ModelSent, now.ModelSent
	case !before.LastByte.IsZero() && idle > kept:
		b.Reason, b.Idle, b.Kept = api.BrokenByPause, idle.Milliseconds(), kept.Milliseconds()
	}
	return b
}

// Before returns the request before an exchange in its session, whose cache it could use; nil for the first.
func (c *Caches) Before(account string, x *record.Exchange) (*record.ExchangeInfo, error) {
	if x.Session == "" {
		return nil, nil
	}
	page, err := c.Archive.Timeline(account, x.Session, record.TimelineQuery{After: x.ID, Limit: 20, Descending: true})
	if err != nil {
		return nil, err
	}
	for i := range page.Data {
		if e := &page.Data[i].Exchange; e.Auxiliary == x.Auxiliary && e.Surface == x.Surface && leavesCache(e) {
			return e, nil
		}
	}
	return nil, nil
}

// Broken returns what broke the prompt cache of an exchange; nil: nothing. It reads the request before only if there is
// something to find.
func (c *Caches) Broken(account string, x *record.Exchange) *api.CacheBreak {
	before, err := c.Before(account, x)
	if err != nil || before == nil || !leavesCache(&x.ExchangeInfo) || lostTokens(before, &x.ExchangeInfo) == 0 {
		return nil
	}
	b := c.newBreak(before, &x.ExchangeInfo)
	if b.Reason == "" {
		c.compare(account, b, x)
	}
	b.Reason = cmp.Or(b.Reason, api.BrokenUnread)
	return b
}

// Explained returns the break between two requests whose blocks and difference are known; nil if nothing was lost.
func (c *Caches) Explained(before, now *record.ExchangeInfo, was, is []Block, differs *api.ContextBreak) *api.CacheBreak {
	if lostTokens(before, now) == 0 {
		return nil
	}
	b := c.newBreak(before, now)
	explain(b, was, is, differs)
	return b
}
