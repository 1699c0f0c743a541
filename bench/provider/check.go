package provider

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// The request checker refuses what the real providers refuse. Where the sheets leave a rule open, it takes the
// stricter reading: a request that passes here has the better chance out there. Wordings are the providers' own
// where they are known, because clients match on them.

// words makes a set of the words in a list.
func words(list ...string) map[string]bool {
	set := make(map[string]bool)
	for _, line := range list {
		for _, word := range strings.Fields(line) {
			set[word] = true
		}
	}
	return set
}

// stranger returns the first member in alphabetical order that is not in the set.
func (o object) stranger(allowed map[string]bool) (string, bool) {
	var strangers []string
	for name := range o {
		if !allowed[name] {
			strangers = append(strangers, name)
		}
	}
	if len(strangers) == 0 {
		return "", false
	}
	return slices.Min(strangers), true
}

// isName reports whether s has 1 to limit characters of [a-zA-Z0-9_-].
func isName(s string, limit int) bool {
	for i := range len(s) {
		if !isNameByte(s[i]) {
			return false
		}
	}
	return s != "" && len(s) <= limit
}

func isNameByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-'
}

func kindOf(value raw) string {
	if len(value) == 0 {
		return "nothing"
	}
	switch value[0] {
	case '"':
		return "a string"
	case '{':
		return "an object"
	case '[':
		return "an array"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return "a number"
}

// Nesting that the checkers follow; deeper schemas are refused, as the real providers do at 5 to 10 levels more
// or less, so that no request can exhaust the stack.
const maxSchemaDepth = 64

// strictSchema checks what OpenAI demands of a schema with strict set: every object closed, every property
// required. It gives the complaint, "" for none.
func strictSchema(schema raw, context string, depth int) string {
	if depth > maxSchemaDepth {
		return "the schema is nested too deeply."
	}
	o, ok := parseObject(schema)
	if !ok {
		return ""
	}
	if properties := o.object("properties"); properties != nil || o.text("type") == "object" {
		if string(o["additionalProperties"]) != "false" {
			return fmt.Sprintf("In context=(%s), 'additionalProperties' is required to be supplied and to be false.", context)
		}
		required := map[string]bool{}
		for _, value := range o.list("required") {
			name, _ := parseString(value)
			required[name] = true
		}
		for _, name := range sortedNames(properties) {
			if !required[name] {
				return fmt.Sprintf("In context=(%s), 'required' is required to be supplied and to be an array including every key in properties. Missing '%s'.", context, name)
			}
			if complaint := strictSchema(properties[name], joinContext(context, "'properties', '"+name+"'"), depth+1); complaint != "" {
				return complaint
			}
		}
	}
	if complaint := strictSchema(o["items"], joinContext(context, "'items'"), depth+1); complaint != "" {
		return complaint
	}
	for _, name := range []string{"anyOf", "oneOf", "allOf"} {
		if name != "anyOf" && o.has(name) {
			return fmt.Sprintf("In context=(%s), '%s' is not permitted.", context, name)
		}
		for i, branch := range o.list(name) {
			if complaint := strictSchema(branch, joinContext(context, fmt.Sprintf("'%s', '%d'", name, i)), depth+1); complaint != "" {
				return complaint
			}
		}
	}
	for _, name := range []string{"$defs", "definitions"} {
		definitions := o.object(name)
		for _, key := range sortedNames(definitions) {
			if complaint := strictSchema(definitions[key], joinContext(context, "'"+name+"', '"+key+"'"), depth+1); complaint != "" {
				return complaint
			}
		}
	}
	return ""
}

func joinContext(context, more string) string {
	if context == "" {
		return more
	}
	return context + ", " + more
}

func sortedNames[V any](set map[string]V) []string {
	return slices.Sorted(maps.Keys(set))
}
