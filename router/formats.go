package router

import (
	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/crossing"
)

// formatList is the formats that a provider speaks.
type formatList []codec.Format

// only is the one format of an author in which a model answers, if it is spoken.
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

// best is the format with the highest score; those without any are out of the question.
func (l formatList) best(score func(*codec.HTTPTraits) int) codec.Format {
	best, highest := codec.FormatUnknown, 0
	for _, f := range l {
		if n := score(&crossing.Traits(f).HTTP); n > highest {
			best, highest = f, n
		}
	}
	return best
}

// forVectors is the format in which to ask for embeddings.
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

// forListing is the format in which to ask for the list of models.
func (l formatList) forListing() codec.Format {
	return l.best(func(t *codec.HTTPTraits) int { return t.ListRank })
}
