package router

import (
	"strings"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/crossing"
	"github.com/mnemeproxy/mneme/codec/embeddings"
)

// Model returns what is known about the model of a placement.
func (r *Router) Model(p Placement) Model { return *r.models.model(p.Provider.knownAs(p.Model)) }

// Target returns what an encoder needs to know to write a request for a placement.
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
	// The host requires it, but only for models that reason (docs/wire/fourth-provider.md#2.4).
	t.Dialect.ReplayReasoning = row.Chat.ReplayReasoning && m.ReplayReasoning
	return t
}

// ReplaysReasoning reports whether a placement wants the reasoning text of its answers in format f back, and returns
// the family of its models.
func (r *Router) ReplaysReasoning(p Placement, f codec.Format) (codec.Family, bool) {
	if row := p.Provider.dialect; !row.Chat.ReplayReasoning {
		return row.Family, false
	}
	t := r.Target(p)
	return t.Family, crossing.Takes(f, &t).ReasoningText
}

// An Embedder is what is needed to ask a placed model for vectors: the arguments of [embeddings.NewPlan].
type Embedder struct {
	Format  codec.Format // the upstream format
	Model   embeddings.Model
	Dialect embeddings.Dialect
}

// Embedder returns how to ask for vectors, or [codec.KindInvalidRequest] if the provider has none.
func (r *Router) Embedder(p Placement) (Embedder, *codec.Error) {
	format := p.Provider.formats.forVectors()
	if format == codec.FormatUnknown {
		return Embedder{}, r.noEmbeddings(p)
	}
	e := Embedder{Model: r.models.model(p.Model).Embedding, Dialect: p.Provider.dialect.Embeddings, Format: format}
	e.Dialect.Batch = crossing.Traits(format).HTTP.BatchEmbed
	return e, nil
}

// noEmbeddings returns the error that names the providers with embeddings.
func (r *Router) noEmbeddings(p Placement) *codec.Error {
	var have []string
	for _, name := range r.names {
		if r.providers[name].formats.forVectors() != codec.FormatUnknown {
			have = append(have, name)
		}
	}
	hint := "No configured provider has them."
	if len(have) > 0 {
		hint = "Providers that have them: " + strings.Join(have, ", ") + "."
	}
	err := codec.Invalid("model", "Model %s belongs to provider %s, which has no embeddings. %s", p.Asked, p.Provider.name, hint)
	err.Code = "model_has_no_embeddings"
	return err
}
