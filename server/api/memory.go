package api

import (
	"encoding/json"
	"time"

	"github.com/mnemeproxy/mneme/server/recall"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/search"
)

// NewErasure requests an erasure.
type NewErasure struct {
	record.Selection
	DryRun bool `json:"dry_run,omitempty"` // only count
}

// Erasure is the receipt of an erasure.
type Erasure struct {
	Object string `json:"object"` // "memory.erasure"
	record.Erasure
}

// NewReceipt returns the receipt of an erasure.
func NewReceipt(e *record.Erasure) Erasure { return Erasure{Object: "memory.erasure", Erasure: *e} }

// Import is the outcome of an import.
type Import struct {
	Object    string `json:"object"` // "memory.import"
	Sessions  int64  `json:"sessions"`
	Exchanges int64  `json:"exchanges"`
	Skipped   int64  `json:"skipped"` // existing sessions and exchanges

	// ErasedAfter is when retention erases the imported exchanges, whose age counts from the import; zero: not by age.
	ErasedAfter time.Time `json:"erased_after,omitzero"`
}

// Stats is the disk usage of an account's memory by kind.
type Stats struct {
	Object  string `json:"object"` // "memory.stats"
	Account string `json:"account"`
	record.Usage
	Stored int64          `json:"stored"`          // sum of the stored sizes
	Index  *search.Status `json:"index,omitempty"` // nil: there is no index
	Recall recall.Counts  `json:"recall,omitzero"` // since the server started
}

// Usage is the usage and cost of exchanges, in total and grouped as requested.
type Usage struct {
	Object string      `json:"object"` // "memory.usage"
	By     []string    `json:"by"`
	Since  time.Time   `json:"since,omitzero"`
	Until  time.Time   `json:"until,omitzero"`
	Data   []UsageLine `json:"data"` // by time, then by descending cost
	Total  UsageLine   `json:"total"`
}

// UsageLine is the usage and cost of a group of exchanges. It has those of the group's members that were requested.
type UsageLine struct {
	Hour     time.Time `json:"hour,omitzero"`
	Day      string    `json:"day,omitempty"`   // UTC, such as "2026-11-20"
	Month    string    `json:"month,omitempty"` // "2026-11"
	Account  string    `json:"account,omitempty"`
	Key      string    `json:"key,omitempty"`   // its id, or "imported"
	Label    string    `json:"label,omitempty"` // of the key, as it is now
	Project  string    `json:"project,omitempty"`
	Client   string    `json:"client,omitempty"`
	Provider string    `json:"provider,omitempty"`
	Model    string    `json:"model,omitempty"`

	record.Rollup
	CacheShare   float64 `json:"cache_share"`              // share of the prompts' tokens that came from a cache, 0 to 1
	FirstByteP50 int64   `json:"first_byte_p50,omitempty"` // in milliseconds, approximate
	FirstByteP95 int64   `json:"first_byte_p95,omitempty"`
}

// UsageBy returns the names that usage can be grouped by.
func UsageBy() []string {
	return []string{"hour", "day", "month", "account", "key", "project", "client", "provider", "model"}
}

// RecallRequest asks what earlier sessions say about a question. With Event it is the body of a client's hook, and the
// answer has the form that hooks expect.
type RecallRequest struct {
	Prompt    string `json:"prompt,omitempty"`
	Project   string `json:"project,omitempty"`    // or cwd; X-Service-Project wins
	Directory string `json:"cwd,omitempty"`        // working directory of the client
	Session   string `json:"session_id,omitempty"` // session that asks, by any of its ids: it is not told what it said itself, and nothing twice
	MaxTokens int    `json:"max_tokens,omitempty"` // 0: 400
	Asked     bool   `json:"asked,omitempty"`      // a person or a model asks: the closest records fill max_tokens, and nothing is too little
	Scope     string `json:"scope,omitempty"`      // project (default) or account

	Event  string          `json:"hook_event_name,omitempty"` // UserPromptSubmit, SessionStart or PreToolUse
	Source string          `json:"source,omitempty"`          // source of the event
	Model  string          `json:"model,omitempty"`           // that the client is going to ask, if it says so
	Tool   string          `json:"tool_name,omitempty"`       // that is about to be called
	Input  json.RawMessage `json:"tool_input,omitempty"`
}

// Recalled is the answer to a [RecallRequest].
type Recalled struct {
	Object string `json:"object"` // "memory.recall"
	recall.Recalled
}

// HookAnswer is the output of a hook of Claude Code or Codex (docs/wire/clients.md). Without a text it is an empty
// object.
type HookAnswer struct {
	Message string      `json:"systemMessage,omitempty"` // shown to the person, not to the model
	Output  *HookOutput `json:"hookSpecificOutput,omitempty"`
}

// HookOutput is the text that a hook adds to the conversation.
type HookOutput struct {
	Event   string `json:"hookEventName"`
	Context string `json:"additionalContext"`
}
