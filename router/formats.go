package router

import (
	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/crossing"
)

// formatList is the formats of a provider.
type formatList []codec.Format

// only returns the one format of an author in which a model answers, if the provider has it.
func (l formatList) only(m *Model, author codec.Family) codec.Format {
	if !m.ResponsesOnly && !m.SearchModel {
		return codec.FormatUnknown
	}
	for _, f := range l {
		t := crossing.Traits(f)
		if t.Author == author && (m.ResponsesOnly && t.HTTP.KeepsReasoning || m.SearchModel && t.HTTP.SearchModels) {
			return f
		}
	}
	return codec.FormatUnknown
}

// best returns the format with the highest score; formats without a score are excluded.
func (l formatList) best(score func(*codec.HTTPTraits) int) codec.Format {
	best, highest := codec.FormatUnknown, 0
	for _, f := range l {
		if n := score(&crossing.Traits(f).HTTP); n > highest {
			best, highest = f, n
		}
	}
	return best
}

// forVectors returns the format for embeddings.
func (l formatList) forVectors() codec.Format {
	return l.best(func(t *codec.HTTPTraits) int {
		switch {
		case t.Embed.Path == "":
			return 0
		case t.BatchEmbed:
			return 1
		}
		return 2
	})
}

// forListing returns the format for the list of models.
func (l formatList) forListing() codec.Format {
	return l.best(func(t *codec.HTTPTraits) int { return t.ListRank })
}
