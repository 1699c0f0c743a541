package api

import (
	"time"

	"github.com/mnemeproxy/mneme/store/record"
)

// Forecast is what the next prompt of a session is going to cost, by the size of its last one.
type Forecast struct {
	Object  string     `json:"object"` // "memory.forecast"
	Session string     `json:"session"`
	Reason  string     `json:"reason,omitempty"`    // why the prompt cache is lost, as in a [CacheBreak]; "": it is not
	Before  string     `json:"before,omitempty"`    // model
	Now     string     `json:"now,omitempty"`       // model
	Idle    int64      `json:"idle_ms,omitempty"`   // since the last answer
	Kept    int64      `json:"kept_ms,omitempty"`   // how long the provider keeps a cache; absent: unknown
	Ends    time.Time  `json:"ends,omitzero"`       // of the cache, if nothing is asked before
	Tokens  int64      `json:"tokens"`              // of the next prompt
	Warm    record.USD `json:"warm_usd,omitempty"`  // what the next request costs with the cache; absent: the price is unknown
	Cold    record.USD `json:"cold_usd,omitempty"`  // without it
	Fresh   record.USD `json:"fresh_usd,omitempty"` // in a new session that begins with a handoff; absent: no less
	Text    string     `json:"text,omitempty"`      // the warning; "": nothing is worth one
}
