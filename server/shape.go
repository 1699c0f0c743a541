package server

import (
	"slices"
	"strings"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/server/edge"
	"github.com/mnemeproxy/mneme/server/resource"
)

// surfaces are the paths of the surfaces. What is below one has its shape of errors.
var surfaces = map[string]codec.Format{
	"/v1/chat/completions": codec.Chat,
	"/v1/responses":        codec.Responses,
	"/v1/messages":         codec.Messages,
	"/v1/embeddings":       codec.Embeddings,
	"/v1beta":              codec.Gemini,
}

// errorShape returns the surface in whose shape an error is written: the surface of the path. On other paths the client
// decides, and chat is for unknown ones, because most clients read it.
func errorShape(in *edge.Request) codec.Format {
	format, served := surfaceBelow(in.Path())
	if served {
		return format
	}
	return [...]codec.Format{resource.OpenAI: codec.Chat, resource.Anthropic: codec.Messages, resource.Google: codec.Gemini}[speaks(in)]
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

// speaks returns whose API a client speaks, by its path and by what only their own clients send. Google's newer ones have
// paths below /v1, as the others.
func speaks(in *edge.Request) resource.Owner {
	switch path := in.Path(); {
	case resource.IsGoogles(path):
		return resource.Google
	case in.Header("Anthropic-Version") != "" || strings.HasPrefix(path, "/anthropic/"):
		return resource.Anthropic
	case in.Header("X-Goog-Api-Key") != "" || in.Header("X-Goog-Api-Client") != "":
		return resource.Google
	}
	return resource.OpenAI
}

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
