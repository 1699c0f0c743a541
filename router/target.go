package router

import (
	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/crossing"
)

// Model is what is known about the model of a placement.
func (r *Router) Model(p Placement) Model { return *r.models.model(p.Provider.knownAs(p.Model)) }

// Target is what an encoder has to know to write a request for a placement.
func (r *Router) Target(p Placement) codec.Target {
	m := r.models.model(p.Provider.knownAs(p.Model))
	row := p.Provider.dialect
	t := codec.Target{
		Provider: p.Provider.name,
		Family:   row.Family,
		Model:    p.Model,

		DefaultMaxOutput: m.DefaultMaxOutput,
		MaxOutput:        m.MaxOutput,

		Thinking:       m.Thinking,
		Efforts:        m.Efforts,
		MinBudget:      m.MinBudget,
		MaxBudget:      m.MaxBudget,
		CanDisable:     m.CanDisable,
		ReasoningModel: m.Reasoning,
		SearchModel:    m.SearchModel,

		SystemInMessages: m.SystemInMessages,
		Prefill:          m.Prefill,
		ForcedTools:      m.ForcedTools,
		Sampling:         m.Sampling,
		StructuredOutput: m.StructuredOutput,
		ImagesInResults:  m.ImagesInResults,
		Breakpoints:      r.breakpoints && row.Family == codec.FamilyAnthropic,
		NeedsSignature:   m.NeedsSignature,
		MidThinkingState: m.BoundThinking,
		CallIDs:          m.CallIDs,

		Dialect: row.Chat,
	}
	// The host demands it, but only of models that reason (docs/wire/fourth-provider.md#2.4).
	t.Dialect.ReplayReasoning = row.Chat.ReplayReasoning && m.ReplayReasoning
	return t
}

// ReplaysReasoning reports whether a placement wants the reasoning text of its answers in format f back, and names the
// family that its models belong to.
func (r *Router) ReplaysReasoning(p Placement, f codec.Format) (codec.Family, bool) {
	if row := p.Provider.dialect; !row.Chat.ReplayReasoning {
		return row.Family, false
	}
	t := r.Target(p)
	return t.Family, crossing.Takes(f, &t).ReasoningText
}
