package api

import (
	"time"

	"github.com/mnemeproxy/mneme/store/record"
)

// Reasons why a request could not read what the request before it had left in a prompt cache.
const (
	BrokenByModel          = "model"     // another model was asked
	BrokenByProvider       = "provider"  // another provider was asked
	BrokenByPause          = "idle"      // the provider keeps a cache for less time
	BrokenByTools          = "tools"     // other tools were offered
	BrokenByOrder          = "reordered" // the same tools were offered in another order
	BrokenByBlock          = "block"     // a block differs
	BrokenByProviderItself = "evicted"   // nothing differs: the provider had not kept it
	BrokenUnread           = "unknown"   // the requests are not on record as they were sent, or were not compared
)

// CacheBreak is a request that could not read what the request before it had left in a prompt cache.
type CacheBreak struct {
	Exchange string     `json:"exchange"`
	Session  string     `json:"session"`
	Previous string     `json:"previous"` // the request before it
	Started  time.Time  `json:"started"`
	Reason   string     `json:"reason"`
	Before   string     `json:"before,omitempty"`  // provider or model
	Now      string     `json:"now,omitempty"`     // provider or model
	Idle     int64      `json:"idle_ms,omitempty"` // between the requests
	Kept     int64      `json:"kept_ms,omitempty"` // how long the provider keeps a cache
	Kind     string     `json:"kind,omitempty"`    // of the block: system, messages
	Index    int        `json:"index,omitempty"`   // of the block in its kind, from 0
	Names    []string   `json:"names,omitempty"`   // tools that differ, at most 12; several of one MCP server are "3 of mcp__server"
	Project  string     `json:"-"`                 // that the request belongs to
	Tokens   int64      `json:"tokens"`            // paid for again
	Lost     record.USD `json:"usd,omitempty"`     // what they cost more than from a cache
}

// CacheReason sums up the breaks with a reason.
type CacheReason struct {
	Reason  string     `json:"reason"`
	Project string     `json:"project,omitempty"` // in sums by project
	Count   int64      `json:"count"`
	Tokens  int64      `json:"tokens"`
	Lost    record.USD `json:"usd,omitempty"`
}

// CacheReport says what prompt caches were worth, and what broke them.
type CacheReport struct {
	Object    string         `json:"object"` // "memory.cache"
	Since     time.Time      `json:"since,omitzero"`
	Until     time.Time      `json:"until,omitzero"`
	Complete  bool           `json:"complete"` // false: only the newest exchanges were looked at
	Exchanges int64          `json:"exchanges"`
	Read      int64          `json:"cache_read"` // tokens
	Tokens    int64          `json:"tokens"`     // paid for again
	Lost      record.USD     `json:"usd,omitempty"`
	Reasons   []*CacheReason `json:"reasons"`            // the most expensive first
	Projects  []*CacheReason `json:"projects,omitempty"` // the same by project, at most 20
	Breaks    []*CacheBreak  `json:"breaks"`             // the most expensive first, at most 100
}
