package messages

import (
	"github.com/mnemeproxy/mneme/codec/internal/schemacache"
	"github.com/mnemeproxy/mneme/codec/scan"
)

// appendOutputSchema writes the schema of a structured answer in the form that the format's constrained decoder accepts
// (docs/wire/messages.md#2.10): objects are closed, oneOf becomes anyOf, and keywords that it refuses are moved to the
// description, for the model to follow.
func appendOutputSchema(dst, schema []byte) []byte {
	return append(dst, outputSchemas.Get(schema)...)
}

var outputSchemas = schemacache.New(func(schema []byte) ([]byte, int) {
	clean := appendOutputNode(make([]byte, 0, len(schema)+len(schema)/4), schema, 0)
	return clean, len(clean)
})

// maxSchemaDepth is how deep a schema is cleaned; no provider accepts deeper ones, and each level is read once more.
const maxSchemaDepth = 64

// appendOutputNode cleans one schema. Only schemas are cleaned: names under properties and values under enum, const
// and default are data (P91).
func appendOutputNode(dst, schema []byte, depth int) []byte {
	if !scan.IsObject(schema) || depth > maxSchemaDepth {
		return append(dst, schema...)
	}
	n := outputNode{dst: append(dst, '{'), depth: depth}
	referenced := scan.Get(schema, "$ref") != nil
	for m := scan.Object(schema); m.Next(); {
		n.keyword(string(m.Key), m.Value, schema[m.Start:m.End], referenced)
	}
	if n.object && !referenced {
		n.comma()
		n.dst = append(n.dst, `"additionalProperties":false`...)
	}
	if !referenced && (len(n.description) > 0 || len(n.refused) > 0) {
		n.describe()
	}
	return append(n.dst, '}')
}

type outputNode struct {
	dst         []byte
	depth       int
	any         bool // a member has been written
	object      bool
	description []byte // string body
	refused     []byte // string body: keywords for the description
}

func (n *outputNode) comma() {
	if n.any {
		n.dst = append(n.dst, ',')
	}
	n.any = true
}

// keyword adds one member. A node that is a reference may contain nothing else but definitions.
func (n *outputNode) keyword(name string, value, member []byte, referenced bool) {
	switch name {
	case "$defs", "definitions":
		n.schemas(name, value)
		return
	case "$ref":
		n.copy(member)
		return
	case "$schema":
		return
	}
	if referenced {
		return
	}
	switch name {
	case "description":
		n.description = scan.Body(value)
	case "type":
		n.object = n.object || string(value) == `"object"` || hasElement(value, `"object"`)
		n.copy(member)
	case "enum", "const", "default", "title", "required":
		n.copy(member)
	case "properties":
		n.object = true
		n.schemas(name, value)
	case "items":
		n.name(name)
		n.dst = appendOutputNode(n.dst, value, n.depth+1)
	case "anyOf", "allOf":
		n.list(name, value)
	case "oneOf":
		n.list("anyOf", value)
	case "format":
		if outputFormats[string(scan.Body(value))] {
			n.copy(member)
			return
		}
		n.refuse(name, value)
	case "minItems":
		if string(value) == "0" || string(value) == "1" {
			n.copy(member)
			return
		}
		n.refuse(name, value)
	case "additionalProperties":
	default:
		n.refuse(name, value)
	}
}

var outputFormats = map[string]bool{
	"date-time": true, "time": true, "date": true, "duration": true, "email": true, "hostname": true, "uri": true,
	"ipv4": true, "ipv6": true, "uuid": true,
}

func (n *outputNode) name(name string) {
	n.comma()
	n.dst = appendQuoted(n.dst, name)
	n.dst = append(n.dst, ':')
}

func (n *outputNode) copy(member []byte) {
	n.comma()
	n.dst = append(n.dst, member...)
}

// schemas cleans the values of an object that maps names to schemas.
func (n *outputNode) schemas(name string, table []byte) {
	n.name(name)
	n.dst = append(n.dst, '{')
	first := true
	for m := scan.Object(table); m.Next(); {
		if !first {
			n.dst = append(n.dst, ',')
		}
		first = false
		n.dst = append(n.dst, table[m.Start:m.End-len(m.Value)]...)
		n.dst = appendOutputNode(n.dst, m.Value, n.depth+1)
	}
	n.dst = append(n.dst, '}')
}

func (n *outputNode) list(name string, schemas []byte) {
	n.name(name)
	n.dst = append(n.dst, '[')
	first := true
	for el := scan.Array(schemas); el.Next(); {
		if !first {
			n.dst = append(n.dst, ',')
		}
		first = false
		n.dst = appendOutputNode(n.dst, el.Value, n.depth+1)
	}
	n.dst = append(n.dst, ']')
}

func (n *outputNode) refuse(name string, value []byte) {
	if len(n.refused) > 0 {
		n.refused = append(n.refused, ", "...)
	}
	n.refused = scan.Escape(n.refused, []byte(name))
	n.refused = append(n.refused, ": "...)
	n.refused = scan.Escape(n.refused, value)
}

// describe writes the description followed by the refused keywords, as in "How many. {minimum: 1, maximum: 9}".
func (n *outputNode) describe() {
	n.name("description")
	n.dst = append(n.dst, '"')
	n.dst = append(n.dst, n.description...)
	if len(n.refused) > 0 {
		if len(n.description) > 0 {
			n.dst = append(n.dst, ' ')
		}
		n.dst = append(n.dst, '{')
		n.dst = append(n.dst, n.refused...)
		n.dst = append(n.dst, '}')
	}
	n.dst = append(n.dst, '"')
}
