package gemini

import (
	"github.com/mnemeproxy/mneme/codec/scan"
)

// write appends the node. within is the definition that contains it.
func (c *cleaner) write(dst []byte, n *schemaNode, within string, depth int) []byte {
	if n.ref != nil {
		return c.writeRef(dst, n, within, depth)
	}
	n.settleBounds()
	n.settleEnum()
	n.settleKind()

	dst = append(dst, '{')
	dst = appendRaw(dst, "$id", n.id)
	dst = appendRaw(dst, "$anchor", n.anchor)
	dst = appendRaw(dst, "type", n.kind)
	dst = appendRaw(dst, "title", n.title)
	dst = n.appendDescription(dst)
	dst = appendRaw(dst, "format", n.format)
	dst = appendRaw(dst, "enum", n.enum)
	dst = appendRaw(dst, "minimum", n.minimum)
	dst = appendRaw(dst, "maximum", n.maximum)
	dst = appendRaw(dst, "minItems", n.minItems)
	dst = appendRaw(dst, "maxItems", n.maxItems)
	dst = c.appendList(dst, "prefixItems", n.prefix, within, depth)
	dst = c.appendSchema(dst, "items", n.items, within, depth)
	dst = c.appendList(dst, "anyOf", n.anyOf, within, depth)
	dst = c.appendList(dst, "oneOf", n.oneOf, within, depth)
	dst = c.appendProperties(dst, n, within, depth)
	dst = c.appendAdditional(dst, n.additional, within, depth)
	dst = appendRaw(dst, "propertyOrdering", n.ordering)
	dst = c.appendDefinitions(dst, n, depth)
	return append(dst, '}')
}

// writeRef appends a reference to a definition or to the root; its only neighbors may be members that begin with "$".
// A reference to another place in the schema, which generators use for repetitions, is inlined. A reference that leads
// nowhere, or out of the schema, becomes an empty schema: nothing is fetched.
func (c *cleaner) writeRef(dst []byte, n *schemaNode, within string, depth int) []byte {
	name := canonicalRef(n.ref)
	if name != rootRef && c.definitions[name] == nil {
		if place := c.place(n.ref); place != nil && c.inlined < maxInlined {
			c.inlined++
			return c.schema(dst, place, within, depth+1)
		}
		return append(dst, `{}`...)
	}
	dst = append(dst, `{"$ref":"`...)
	dst = append(dst, name...)
	dst = append(dst, '"')
	dst = c.appendDefinitions(dst, n, depth)
	return append(dst, '}')
}

func (c *cleaner) schema(dst, schema []byte, within string, depth int) []byte {
	if !scan.IsObject(schema) || depth > maxSchemaDepth || c.nodes > maxSchemaNodes {
		return append(dst, `{}`...) // boolean schemas too: everything is allowed
	}
	var n schemaNode
	c.collect(&n, schema, depth)
	return c.write(dst, &n, within, depth)
}

func (c *cleaner) appendSchema(dst []byte, name string, schema []byte, within string, depth int) []byte {
	if schema == nil {
		return dst
	}
	return c.schema(appendName(dst, name), schema, within, depth+1)
}

func (c *cleaner) appendList(dst []byte, name string, list []byte, within string, depth int) []byte {
	if scan.Count(list) == 0 {
		return dst
	}
	dst = append(appendName(dst, name), '[')
	for e := scan.Array(list); e.Next(); {
		dst = appendComma(dst)
		dst = c.schema(dst, e.Value, within, depth+1)
	}
	return append(dst, ']')
}

func (c *cleaner) appendProperties(dst []byte, n *schemaNode, within string, depth int) []byte {
	if len(n.properties) == 0 {
		return dst
	}
	dst = append(appendName(dst, "properties"), '{')
	for _, p := range n.properties {
		dst = appendComma(dst)
		dst = append(scan.QuoteBody(dst, p.name), ':')
		dst = c.schema(dst, p.schema, within, depth+1)
	}
	dst = append(dst, '}')

	before := len(dst)
	dst = append(appendName(dst, "required"), '[')
	empty := len(dst)
	written := map[string]bool{}
	for _, p := range n.required {
		if written[string(p)] || !c.mayRequire(n, p, within) {
			continue
		}
		written[string(p)] = true
		dst = scan.QuoteBody(appendComma(dst), p)
	}
	if len(dst) == empty {
		return dst[:before]
	}
	return append(dst, ']')
}

// mayRequire excludes names without a property, which are refused, and properties that lead back to their own
// definition: cycles are allowed only in optional properties.
func (c *cleaner) mayRequire(n *schemaNode, name []byte, within string) bool {
	schema, known := n.byName[string(name)]
	loops := false
	eachRef(schema, func(ref []byte) {
		loops = loops || c.leadsTo(canonicalOwner(ref), within)
	})
	return known && !loops
}

func (c *cleaner) appendAdditional(dst, additional []byte, within string, depth int) []byte {
	if scan.IsObject(additional) {
		return c.appendSchema(dst, "additionalProperties", additional, within, depth)
	}
	return appendRaw(dst, "additionalProperties", additional)
}

// appendDefinitions writes both spellings under the API's one.
func (c *cleaner) appendDefinitions(dst []byte, n *schemaNode, depth int) []byte {
	if scan.Count(n.definitions[0])+scan.Count(n.definitions[1]) == 0 {
		return dst
	}
	dst = append(appendName(dst, "$defs"), '{')
	for _, definitions := range n.definitions {
		for m := scan.Object(definitions); m.Next(); {
			name := scan.Body(definitions[m.Start:scan.Skip(definitions, m.Start)])
			dst = appendComma(dst)
			dst = append(scan.QuoteBody(dst, name), ':')
			dst = c.schema(dst, m.Value, definitionRef+string(name), depth+1)
		}
	}
	return append(dst, '}')
}

func (n *schemaNode) appendDescription(dst []byte) []byte {
	if len(n.description) == 0 && len(n.hints) == 0 {
		return dst
	}
	dst = append(appendName(dst, "description"), '"')
	dst = append(dst, n.description...)
	if len(n.description) > 0 && len(n.hints) > 0 {
		dst = append(dst, ' ')
	}
	dst = append(dst, n.hints...)
	return append(dst, '"')
}
