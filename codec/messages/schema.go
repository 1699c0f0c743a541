package messages

import (
	"bytes"

	"github.com/mnemeproxy/mneme/codec/internal/schemacache"
	"github.com/mnemeproxy/mneme/codec/scan"
)

// appendInputSchema writes the schema of a tool's arguments. The format requires an object without unions at the root;
// below the root everything is unchanged (docs/wire/translation.md#2.4). ok is false if the schema is not for an
// object.
func appendInputSchema(dst, schema []byte) (out []byte, ok bool) {
	if scan.IsNull(schema) {
		return append(dst, `{"type":"object","properties":{}}`...), true
	}
	if !scan.IsObject(schema) {
		return dst, false
	}
	var typ []byte
	union := false
	for m := scan.Object(schema); m.Next(); {
		switch string(m.Key) {
		case "type":
			typ = m.Value
		case "anyOf", "oneOf", "allOf":
			union = true
		}
	}
	switch {
	case string(typ) == `"object"` && !union:
		return append(dst, schema...), true
	case scan.IsString(typ) && string(typ) != `"object"`:
		return dst, false
	case scan.IsArray(typ) && !hasElement(typ, `"object"`):
		return dst, false
	}
	return append(dst, foldedSchemas.Get(schema)...), true
}

func hasElement(array []byte, value string) bool {
	for el := scan.Array(array); el.Next(); {
		if string(el.Value) == value {
			return true
		}
	}
	return false
}

var foldedSchemas = schemacache.New(func(schema []byte) ([]byte, int) {
	folded := foldRoot(schema)
	return folded, len(folded)
})

// foldRoot converts a root that is a union to one object: the properties of all branches, and those required names that
// apply to every answer, which are the root's own and those of allOf.
func foldRoot(schema []byte) []byte {
	f := fold{root: schema}
	f.branch(schema, true, 0)
	dst := append(make([]byte, 0, len(schema)+64), `{"type":"object"`...)
	for m := scan.Object(schema); m.Next(); {
		switch string(m.Key) {
		case "type", "properties", "required", "anyOf", "oneOf", "allOf":
			continue
		}
		dst = append(dst, ',')
		dst = append(dst, schema[m.Start:m.End]...)
	}
	dst = append(dst, `,"properties":{`...)
	dst = append(dst, bytes.Join(f.properties, []byte{','})...)
	dst = append(dst, '}')
	if len(f.required) > 0 {
		dst = append(dst, `,"required":[`...)
		dst = append(dst, bytes.Join(f.required, []byte{','})...)
		dst = append(dst, ']')
	}
	return append(dst, '}')
}

// fold collects the properties of a root and its branches.
type fold struct {
	root       []byte
	properties [][]byte // whole members, the first of each name
	required   [][]byte // string values
	known      map[string]bool
	needed     map[string]bool
	branches   int
}

// Bounds for nested unions and for circular references.
const (
	maxFoldDepth    = 8
	maxFoldBranches = 256
)

// branch adds one schema; always means that its required names apply to every answer.
func (f *fold) branch(schema []byte, always bool, depth int) {
	f.branches++
	if depth > maxFoldDepth || f.branches > maxFoldBranches || !scan.IsObject(schema) {
		return
	}
	for m := scan.Object(schema); m.Next(); {
		switch string(m.Key) {
		case "$ref":
			f.branch(f.resolve(scan.String(m.Value)), always, depth+1)
		case "properties":
			f.takeProperties(m.Value)
		case "required":
			if always {
				f.takeRequired(m.Value)
			}
		case "allOf":
			for el := scan.Array(m.Value); el.Next(); {
				f.branch(el.Value, always, depth+1)
			}
		case "anyOf", "oneOf":
			for el := scan.Array(m.Value); el.Next(); {
				f.branch(el.Value, false, depth+1)
			}
		}
	}
}

func (f *fold) takeProperties(properties []byte) {
	if f.known == nil {
		f.known = map[string]bool{}
	}
	for m := scan.Object(properties); m.Next(); {
		if !f.known[string(m.Key)] {
			f.known[string(m.Key)] = true
			f.properties = append(f.properties, properties[m.Start:m.End])
		}
	}
}

func (f *fold) takeRequired(names []byte) {
	if f.needed == nil {
		f.needed = map[string]bool{}
	}
	for el := scan.Array(names); el.Next(); {
		if scan.IsString(el.Value) && !f.needed[string(el.Value)] {
			f.needed[string(el.Value)] = true
			f.required = append(f.required, el.Value)
		}
	}
}

// resolve finds a definition of the same document: #/$defs/name or #/definitions/name.
func (f *fold) resolve(ref string) []byte {
	for _, table := range [...]string{"$defs", "definitions"} {
		prefix := "#/" + table + "/"
		if len(ref) > len(prefix) && ref[:len(prefix)] == prefix {
			return scan.Path(f.root, table, ref[len(prefix):])
		}
	}
	return nil
}
