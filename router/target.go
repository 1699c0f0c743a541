package router

import "github.com/mnemeproxy/mneme/codec"

// Model is what is known about the model of a placement.
func (r *Router) Model(p Placement) Model { return *r.models.model(p.Model) }

// Target is what an encoder has to know to write a request for a placement in format f.
func (r *Router) Target(p Placement, f codec.Format) codec.Target {
	m := r.models.model(p.Model)
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
		ImagesInResults:  takesImagesInResults(f, row.Family, m),
		NeedsSignature:   m.NeedsSignature,
		MidThinkingState: m.BoundThinking,
		CallIDs:          m.CallIDs,
		Breakpoints:      r.breakpoints && f == codec.Messages && row.Family == codec.FamilyAnthropic,

		Dialect: row.Chat,
	}
	// The host demands it, but only of models that reason (docs/wire/fourth-provider.md#2.4).
	t.Dialect.ReplayReasoning = row.Chat.ReplayReasoning && m.ReplayReasoning
	return t
}

// ReplaysReasoning reports whether a placement wants the reasoning text of its answers in format f back, and names the
// family that its models belong to.
func (r *Router) ReplaysReasoning(p Placement, f codec.Format) (codec.Family, bool) {
	row := p.Provider.dialect
	return row.Family, f == codec.Chat && row.Chat.ReplayReasoning && r.models.model(p.Model).ReplayReasoning
}

// takesImagesInResults is a matter of the format everywhere but at Google: Chat has only text in tool messages.
func takesImagesInResults(f codec.Format, family codec.Family, m *Model) bool {
	switch f {
	case codec.Responses:
		return true
	case codec.Messages:
		return family == codec.FamilyAnthropic
	case codec.Gemini:
		return m.ImagesInResults
	default:
		return false
	}
}
