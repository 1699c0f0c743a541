package identity

import (
	"slices"
	"strings"

	"github.com/mnemeproxy/mneme/codec"
)

// Models are the names that a key may ask for, as its callers write them: whole, or with a * at the end for any suffix.
// An empty list allows every name.
type Models []string

const (
	mostModels    = 200 // per key
	maxModelBytes = 200
)

// Allows reports whether a name is allowed.
func (m Models) Allows(name string) bool {
	return len(m) == 0 || slices.ContainsFunc(m, func(allowed string) bool {
		if start, open := strings.CutSuffix(allowed, "*"); open {
			return strings.HasPrefix(name, start)
		}
		return name == allowed
	})
}

// Includes reports whether m allows everything that other allows.
func (m Models) Includes(other Models) bool {
	if len(other) == 0 {
		return m.Allows("*")
	}
	return !slices.ContainsFunc(other, func(name string) bool { return !m.Allows(name) })
}

// ParseModels reads names separated by commas; "all" is the empty list.
func ParseModels(text string) (Models, error) {
	if text == "all" {
		return Models{}, nil
	}
	var m Models
	for name := range strings.SplitSeq(text, ",") {
		m = append(m, strings.TrimSpace(name))
	}
	return m, m.check()
}

func (m Models) check() error {
	if len(m) > mostModels {
		return codec.Invalid("models", "a key allows at most %d names of models; use * for those with one beginning", mostModels)
	}
	for _, name := range m {
		start := strings.TrimSuffix(name, "*")
		if name == "" || len(name) > maxModelBytes || strings.ContainsAny(start, "*, \t\r\n") {
			return codec.Invalid("models", "%q is not the name of a model; write it as clients do, or its beginning and a *, such as claude-*", name)
		}
	}
	return nil
}
