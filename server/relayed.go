package server

import (
	"cmp"
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/mnemeproxy/mneme/router"
)

// Bounds of what is handed on of a provider's header. Providers send some twenty fields that clients read; clients give up
// at a hundred in all (Python's http.client) or at 16 KB (Node.js).
const (
	mostRelayed  = 64
	relayedBytes = 8 << 10 // names and values
)

// relayedField is one field of a provider's header.
type relayedField struct{ name, value string }

// providerHeader hands on what clients read of a provider's header. Where that is too much, what clients act on goes first.
func (x *exchange) providerHeader(header http.Header) {
	fields, size := make([]relayedField, 0, 24), 0 // on the stack
	for name, values := range header {
		if !router.PassesDownstream(name) {
			continue
		}
		for _, value := range values {
			fields = append(fields, relayedField{name, value})
			size += len(name) + len(value)
		}
	}
	if len(fields) > mostRelayed || size > relayedBytes {
		fields = withinBounds(fields)
	}
	for _, f := range fields {
		x.out.Add(x.limitAsRead(f.name, x.redactor.Known(f.value)))
	}
}

// withinBounds are the fields that are handed on of too many.
func withinBounds(fields []relayedField) (kept []relayedField) {
	slices.SortFunc(fields, func(a, b relayedField) int {
		return cmp.Or(importance(a.name)-importance(b.name), strings.Compare(a.name, b.name), strings.Compare(a.value, b.value))
	})
	size := 0
	for _, f := range fields {
		if size+len(f.name)+len(f.value) > relayedBytes {
			continue
		}
		if kept = append(kept, f); len(kept) == mostRelayed {
			break
		}
		size += len(f.name) + len(f.value)
	}
	return kept
}

// importance ranks the fields of a provider's header, the most important first.
func importance(name string) int {
	switch {
	case strings.HasSuffix(name, "Request-Id"), name == "X-Ds-Trace-Id", strings.HasPrefix(name, "Retry-After"), name == "X-Should-Retry":
		return 0
	case strings.Contains(name, "Ratelimit-"), name == "Openai-Processing-Ms", strings.HasPrefix(name, "X-Codex-"):
		return 1
	}
	return 2
}

// jsonType is the type of an answer that is JSON: the provider's own where it says so, in the encoding that JSON has.
func jsonType(header http.Header) string {
	said := header.Get("Content-Type")
	if said == "application/json" || said == "application/json; charset=utf-8" {
		return said // what providers say, as a rule
	}
	media, parameters, err := mime.ParseMediaType(said)
	if err != nil || media != "application/json" {
		return "application/json"
	}
	for name, value := range parameters {
		if name != "charset" || !strings.EqualFold(value, "utf-8") {
			return "application/json"
		}
	}
	return said
}
