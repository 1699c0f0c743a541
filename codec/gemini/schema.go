package gemini

import (
	"strconv"

	"github.com/mnemeproxy/mneme/codec/scan"
)

// cleanSchema is a JSON Schema reduced to the keywords of parametersJsonSchema and responseJsonSchema. The API refuses
// or ignores others (docs/wire/translation.md#2.4); their meaning is put into words in the description if a model can
// use it.
type cleanSchema struct {
	schema []byte
	// empty says that the root is an object without properties. A function without arguments is declared without
	// a schema.
	empty bool
}

const (
	maxSchemaDepth = 48
	// maxSchemaNodes bounds the work on one schema: merging allOf copies definitions, and copies of copies multiply.
	maxSchemaNodes = 10_000
	// maxInlined bounds how many references are inlined.
	maxInlined = 200
	// maxDefinitions is up to how many definitions are searched for cycles; beyond it each reference counts as one.
	maxDefinitions = 256
	// maxExact is up to where every reader of a schema holds whole numbers exactly.
	maxExact = 1 << 53
)

// cleanUp only examines schema nodes. The names under properties and $defs and the values of enum are data: a property
// may be called "format", "const" or "properties".
func cleanUp(raw []byte) (clean cleanSchema, size int) {
	if isPropertyMap(raw) {
		raw = append(append([]byte(`{"type":"object","properties":`), raw...), '}')
	}
	c := cleaner{root: raw}
	c.findDefinitions()
	var n schemaNode
	c.collect(&n, raw, 0)
	if n.kind == nil && n.ref == nil && n.anyOf == nil && n.oneOf == nil {
		n.kind = []byte(`"object"`)
	}
	clean = cleanSchema{
		schema: c.write(nil, &n, rootRef, 0),
		empty:  string(n.kind) == `"object"` && len(n.properties) == 0 && n.ref == nil && n.anyOf == nil && n.oneOf == nil,
	}
	return clean, len(clean.schema)
}

// isPropertyMap recognizes the properties of an object without the object around them, which some tool servers send as
// a schema: no keyword, and every member an object with a type.
func isPropertyMap(raw []byte) bool {
	members := 0
	for m := scan.Object(raw); m.Next(); {
		if !scan.IsObject(m.Value) || scan.Get(m.Value, "type") == nil {
			return false
		}
		members++
	}
	return members > 0
}

// rootRef is the reference to the whole schema.
const rootRef = "#"

type cleaner struct {
	root        []byte
	definitions map[string][]byte          // by reference: "#/$defs/name"
	reach       map[string]map[string]bool // which definitions a definition refers to, directly or not; nil if there are too many
	nodes       int
	inlined     int // references that were inlined
}

// schemaNode is one schema, including its allOf. Values are raw; nil means absent.
type schemaNode struct {
	id, anchor, ref                  []byte
	kind, title, description, format []byte
	enum, constant                   []byte
	properties                       []schemaProperty
	byName                           map[string][]byte // the same, by string body
	required                         [][]byte          // string bodies
	additional, ordering             []byte
	items, prefix                    []byte
	minItems, maxItems               []byte
	minimum, maximum                 []byte
	exclusiveMinimum                 []byte
	exclusiveMaximum                 []byte
	anyOf, oneOf                     []byte
	definitions                      [2][]byte // $defs and, in older drafts, definitions
	nullable                         bool
	hints                            []byte // string body: sentences for the description
}

type schemaProperty struct {
	name   []byte // string body
	schema []byte
}

// collect reads the members of a schema into n. If several schemas of an allOf have the same keyword, the first wins;
// properties and required add up.
func (c *cleaner) collect(n *schemaNode, schema []byte, depth int) {
	c.nodes++
	if depth > maxSchemaDepth || c.nodes > maxSchemaNodes {
		return
	}
	var all []byte
	for m := scan.Object(schema); m.Next(); {
		v := m.Value
		switch string(m.Key) {
		case "$id":
			first(&n.id, v, scan.IsString(v))
		case "$anchor":
			first(&n.anchor, v, scan.IsString(v))
		case "$ref":
			first(&n.ref, scan.Body(v), scan.IsString(v))
		case "$defs":
			first(&n.definitions[0], v, scan.IsObject(v) && depth == 0)
		case "definitions":
			first(&n.definitions[1], v, scan.IsObject(v) && depth == 0)
		case "type":
			first(&n.kind, v, scan.IsString(v) || scan.IsArray(v))
		case "title":
			first(&n.title, v, scan.IsString(v))
		case "description":
			first(&n.description, scan.Body(v), scan.IsString(v))
		case "format":
			first(&n.format, v, scan.IsString(v))
		case "enum":
			first(&n.enum, v, scan.IsArray(v))
		case "const":
			first(&n.constant, v, true)
		case "properties":
			n.addProperties(v)
		case "required":
			for e := scan.Array(v); e.Next(); {
				if name := scan.Body(e.Value); name != nil {
					n.required = append(n.required, name)
				}
			}
		case "additionalProperties":
			first(&n.additional, v, scan.IsObject(v) || scan.IsTrue(v) || scan.IsFalse(v))
		case "propertyOrdering":
			first(&n.ordering, v, scan.IsArray(v))
		case "items":
			if scan.IsArray(v) { // the spelling of tuples before prefixItems
				first(&n.prefix, v, true)
			} else {
				first(&n.items, v, !scan.IsFalse(v))
			}
		case "prefixItems":
			first(&n.prefix, v, scan.IsArray(v))
		case "minItems":
			first(&n.minItems, v, scan.IsNumber(v))
		case "maxItems":
			first(&n.maxItems, v, scan.IsNumber(v))
		case "minimum":
			first(&n.minimum, v, scan.IsNumber(v))
		case "maximum":
			first(&n.maximum, v, scan.IsNumber(v))
		case "exclusiveMinimum":
			first(&n.exclusiveMinimum, v, scan.IsNumber(v) || scan.IsTrue(v))
		case "exclusiveMaximum":
			first(&n.exclusiveMaximum, v, scan.IsNumber(v) || scan.IsTrue(v))
		case "multipleOf":
			n.hint(scan.IsNumber(v), "Must be a multiple of ", v)
		case "minLength":
			n.hint(scan.IsNumber(v), "Minimum length: ", v)
		case "maxLength":
			n.hint(scan.IsNumber(v), "Maximum length: ", v)
		case "pattern":
			n.hint(scan.IsString(v), "Must match the regular expression ", scan.Body(v))
		case "uniqueItems":
			n.hint(scan.IsTrue(v), "Items must be unique", nil)
		case "anyOf":
			first(&n.anyOf, v, scan.IsArray(v))
		case "oneOf":
			first(&n.oneOf, v, scan.IsArray(v))
		case "allOf":
			all = v
		case "nullable":
			n.nullable = n.nullable || scan.IsTrue(v)
		}
	}
	for e := scan.Array(all); e.Next(); {
		c.merge(n, e.Value, depth+1)
	}
}

// merge adds one schema of an allOf. A reference is replaced by its target. A reference that leads back to itself has
// no finite form: it replaces the whole node if there is nothing else, and is left out otherwise.
func (c *cleaner) merge(n *schemaNode, schema []byte, depth int) {
	if depth > maxSchemaDepth {
		return
	}
	before := n.ref
	c.collect(n, schema, depth)
	n.ref = before

	ref := scan.Body(scan.Get(schema, "$ref"))
	if ref == nil {
		return
	}
	name := canonicalRef(ref)
	if target := c.definitions[name]; target != nil && !c.leadsTo(name, name) {
		c.merge(n, target, depth+1)
		return
	}
	first(&n.ref, ref, n.kind == nil && len(n.properties) == 0 && n.anyOf == nil && n.oneOf == nil)
}

func first(slot *[]byte, value []byte, legal bool) {
	if legal && *slot == nil {
		*slot = value
	}
}

func (n *schemaNode) addProperties(object []byte) {
	for m := scan.Object(object); m.Next(); {
		name := scan.Body(object[m.Start:scan.Skip(object, m.Start)])
		if _, known := n.byName[string(name)]; known {
			continue
		}
		if n.byName == nil {
			n.byName = map[string][]byte{}
		}
		n.byName[string(name)] = m.Value
		n.properties = append(n.properties, schemaProperty{name: name, schema: m.Value})
		if scan.IsTrue(scan.Get(m.Value, "required")) { // the old form, still met in hand-written tools
			n.required = append(n.required, name)
		}
	}
}

// hint adds a sentence for the description. value is the body of a string.
func (n *schemaNode) hint(legal bool, words string, value []byte) {
	if !legal {
		return
	}
	if len(n.hints) > 0 {
		n.hints = append(n.hints, ' ')
	}
	n.hints = append(n.hints, words...)
	n.hints = append(n.hints, value...)
	n.hints = append(n.hints, '.')
}

// settleBounds turns exclusive bounds into inclusive ones if that is exact, and into words otherwise.
func (n *schemaNode) settleBounds() {
	n.minimum = n.inclusive(n.minimum, n.exclusiveMinimum, +1, "Must be greater than ")
	n.maximum = n.inclusive(n.maximum, n.exclusiveMaximum, -1, "Must be less than ")
}

func (n *schemaNode) inclusive(bound, exclusive []byte, step int64, words string) []byte {
	if exclusive == nil {
		return bound
	}
	if scan.IsTrue(exclusive) { // draft 4: a flag next to the bound
		if bound == nil {
			return nil
		}
		exclusive, bound = bound, nil
	}
	if whole, ok := scan.Int(exclusive); ok && bound == nil && string(n.kind) == `"integer"` && whole > -maxExact && whole < maxExact {
		return strconv.AppendInt(nil, whole+step, 10)
	}
	n.hint(true, words, exclusive)
	return bound
}

// settleEnum keeps the enum values that the API accepts: strings and numbers.
func (n *schemaNode) settleEnum() {
	if n.constant != nil {
		if !scan.IsString(n.constant) && !scan.IsNumber(n.constant) {
			n.hint(scan.IsTrue(n.constant) || scan.IsFalse(n.constant), "Always ", n.constant)
			n.constant = nil
		} else if n.enum == nil {
			n.enum = append(append([]byte{'['}, n.constant...), ']')
		}
	}
	if n.enum == nil {
		return
	}
	kept := []byte{'['}
	for e := scan.Array(n.enum); e.Next(); {
		if scan.IsString(e.Value) || scan.IsNumber(e.Value) {
			kept = append(appendComma(kept), e.Value...)
		}
	}
	n.enum = nil
	if len(kept) > 1 {
		n.enum = append(kept, ']')
	}
}

// settleKind sets the type if it follows from the rest, and expresses OpenAPI's null flag in the type.
func (n *schemaNode) settleKind() {
	switch {
	case n.kind != nil:
	case len(n.properties) > 0:
		n.kind = []byte(`"object"`)
	case n.items != nil || n.prefix != nil:
		n.kind = []byte(`"array"`)
	}
	if n.nullable && scan.IsString(n.kind) && string(n.kind) != `"null"` {
		n.kind = append(append([]byte{'['}, n.kind...), `,"null"]`...)
	}
}
