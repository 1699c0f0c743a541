package server

import (
	"slices"
	"strings"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/server/edge"
)

// surfaces are the paths of the surfaces. What is below one has its shape of errors.
var surfaces = map[string]codec.Format{
	"/v1/chat/completions": codec.Chat,
	"/v1/responses":        codec.Responses,
	"/v1/messages":         codec.Messages,
	"/v1/embeddings":       codec.Embeddings,
	"/v1beta":              codec.Gemini,
}

// errorShape returns the surface in whose shape an error is written: the path's own, Messages for other paths that
// Anthropic's clients use, else chat, which most clients read.
func errorShape(in *edge.Request) codec.Format {
	format, served := surfaceBelow(in.Path())
	if !served && (wantsAnthropic(in) || strings.HasPrefix(in.Path(), "/anthropic/")) {
		return codec.Messages
	}
	return format
}

// surfaceOfPath returns the surface of a path, or chat.
func surfaceOfPath(path string) codec.Format {
	format, _ := surfaceBelow(path)
	return format
}

func surfaceBelow(path string) (format codec.Format, served bool) {
	if format, served = surfaces[path]; served {
		return format, true
	}
	for above, format := range surfaces {
		if strings.HasPrefix(path, above) && path[len(above)] == '/' {
			return format, true
		}
	}
	return codec.Chat, false
}

// wantsAnthropic reports whether the client reads Anthropic's shape: only Anthropic's clients send a version.
func wantsAnthropic(in *edge.Request) bool {
	return in.Header("Anthropic-Version") != ""
}

// wantsGoogle reports whether a path is one of Google's API.
func wantsGoogle(in *edge.Request) bool { return strings.HasPrefix(in.Path(), "/v1beta/") }

// hasParameter reports whether a query has a parameter with one of the values, or with any.
func hasParameter(query, parameter string, values ...string) bool {
	for pair := range strings.SplitSeq(query, "&") {
		if name, value, _ := strings.Cut(pair, "="); name == parameter && (values == nil || slices.Contains(values, value)) {
			return true
		}
	}
	return false
}

// shape returns the surface in whose shape errors of the exchange are written.
func (r *request) shape() codec.Format {
	switch {
	case r.passing != nil:
		return errorShape(r.in)
	case r.addressed != nil:
		return addressedForm
	}
	return r.surface
}
