package api

import (
	"cmp"
	"time"

	"github.com/mnemeproxy/mneme/store/record"
)

// Cause is what tokens of an exchange were for. Members that do not apply are empty.
type Cause struct {
	Part     string `json:"part,omitempty"`     // tools (their definitions), system, user, assistant, calls, results, reasoning, media, woven (put in by the client), answer, answer_calls, answer_reasoning, other
	Tool     string `json:"tool,omitempty"`     // that is defined, called or answers
	Server   string `json:"server,omitempty"`   // the MCP server of the tool
	Skill    string `json:"skill,omitempty"`    // that is called or read
	Subagent string `json:"subagent,omitempty"` // whose exchange it is, by the client's id
	Age      string `json:"age,omitempty"`      // fixed (tools and system), history, new (since the last answer, and the answer)
}

// CostLine is what a cause has used and cost.
type CostLine struct {
	Cause
	Input  int64      `json:"input"`  // tokens
	Output int64      `json:"output"` // tokens
	USD    record.USD `json:"usd"`
}

// ToolCost is what the definition of a tool has cost.
type ToolCost struct {
	Name   string     `json:"name"`
	Called bool       `json:"called"` // by the model, in one of the exchanges
	Input  int64      `json:"input"`  // tokens
	USD    record.USD `json:"usd"`
}

// Costs is what exchanges cost, by cause. The lines add up to the total, and the total to the costs on record.
type Costs struct {
	Object    string     `json:"object"` // "memory.costs"
	By        []string   `json:"by"`
	Since     time.Time  `json:"since,omitzero"`
	Until     time.Time  `json:"until,omitzero"`
	Exchanges int64      `json:"exchanges"`
	Unpriced  int64      `json:"unpriced,omitempty"` // with tokens but no price
	Data      []CostLine `json:"data"`               // the costliest first
	Total     CostLine   `json:"total"`
	Tools     []ToolCost `json:"tools"` // definitions, the costliest first
	HasMore   bool       `json:"has_more"`
	LastID    string     `json:"last_id,omitempty"` // continue after it
}

// CostsBy returns the names that [Costs] can be grouped by.
func CostsBy() []string { return []string{"part", "tool", "server", "skill", "subagent", "age"} }

// By returns the member with a name of [CostsBy]; nil for any other.
func (c *Cause) By(name string) *string {
	switch name {
	case "part":
		return &c.Part
	case "tool":
		return &c.Tool
	case "server":
		return &c.Server
	case "skill":
		return &c.Skill
	case "subagent":
		return &c.Subagent
	case "age":
		return &c.Age
	}
	return nil
}

// Compare orders causes by their members, in the order of [CostsBy].
func (c *Cause) Compare(other *Cause) int {
	for _, name := range CostsBy() {
		if order := cmp.Compare(*c.By(name), *other.By(name)); order != 0 {
			return order
		}
	}
	return 0
}
