package gemini

import (
	"bytes"

	"github.com/mnemeproxy/mneme/codec/scan"
)

// toJSONSchema converts a schema in the API's older dialect, a subset of OpenAPI, to JSON Schema: types are spelled in
// small letters, nullable is a type, and numbers may be strings. A schema that is JSON Schema already stays what it is.
func toJSONSchema(schema []byte) (made []byte, size int) {
	made = appendJSONSchema(make([]byte, 0, len(schema)), schema, 0)
	return made, len(made)
}

func appendJSONSchema(dst, schema []byte, depth int) []byte {
	if !scan.IsObject(schema) || depth > maxSchemaDepth {
		return append(dst, `{}`...)
	}
	nullable := false
	for m := scan.Object(schema); m.Next(); {
		nullable = nullable || string(m.Key) == "nullable" && scan.IsTrue(m.Value)
	}
	var spelled [48]byte
	dst = append(dst, '{')
	for m := scan.Object(schema); m.Next(); {
		key := string(name(&spelled, m.Key))
		switch key {
		case "nullable", "propertyOrdering", "example":
		case "format":
			if string(scan.Body(m.Value)) != "enum" {
				dst = appendRaw(dst, key, m.Value)
			}
		case "type":
			dst = appendType(appendName(dst, key), m.Value, nullable)
		case "minItems", "maxItems", "minProperties", "maxProperties", "minLength", "maxLength":
			value := m.Value
			if scan.IsString(value) && scan.IsNumber(scan.Body(value)) {
				value = scan.Body(value)
			}
			dst = appendRaw(dst, key, value)
		case "items", "additionalProperties", "not":
			if !scan.IsObject(m.Value) {
				dst = appendRaw(dst, key, m.Value)
				continue
			}
			dst = appendJSONSchema(appendName(dst, key), m.Value, depth+1)
		case "anyOf", "oneOf", "allOf", "prefixItems":
			dst = append(appendName(dst, key), '[')
			for e := scan.Array(m.Value); e.Next(); {
				dst = appendJSONSchema(appendComma(dst), e.Value, depth+1)
			}
			dst = append(dst, ']')
		case "properties", "$defs", "defs", "definitions":
			dst = append(append(appendKey(appendComma(dst), m.Key), ':'), '{')
			for p := scan.Object(m.Value); p.Next(); {
				dst = append(appendKey(appendComma(dst), p.Key), ':')
				dst = appendJSONSchema(dst, p.Value, depth+1)
			}
			dst = append(dst, '}')
		default:
			dst = append(append(appendKey(appendComma(dst), m.Key), ':'), m.Value...)
		}
	}
	return append(dst, '}')
}

// appendType writes a type in small letters, with null if the value may be that.
func appendType(dst, v []byte, nullable bool) []byte {
	if !scan.IsString(v) {
		return append(dst, v...)
	}
	if !nullable {
		return append(dst, bytes.ToLower(v)...)
	}
	return append(append(append(dst, '['), bytes.ToLower(v)...), `,"null"]`...)
}

// appendKey writes the name of a member, which a walk returns without its escapes.
func appendKey(dst, key []byte) []byte {
	return append(scan.Escape(append(dst, '"'), key), '"')
}
