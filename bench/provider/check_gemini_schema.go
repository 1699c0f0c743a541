package provider

import (
	"fmt"
	"strings"
)

// checkOpenSchema checks the OpenAPI subset.
func checkOpenSchema(value raw, path string, depth int) *fault {
	if depth > maxSchemaDepth {
		return refuse(path, "Schema at '%s' exceeds the maximum allowed nesting depth.", path)
	}
	o, refusal := protoObject(value, path, openSchema)
	if refusal != nil {
		return refusal
	}
	kind := strings.ToUpper(o.text("type"))
	properties := o.object("properties")
	switch {
	case !words("STRING NUMBER INTEGER BOOLEAN ARRAY OBJECT NULL")[kind] && !o.has("anyOf"):
		return refuse(path+".type", "Invalid value at '%s.type' (type.googleapis.com/google.ai.generativelanguage.v1beta.Type), %s", path, o.or("type", `""`))
	case kind == "OBJECT" && len(properties) == 0:
		return refuse(path, "* GenerateContentRequest.%s.properties: should be non-empty for OBJECT type", path)
	case kind == "ARRAY" && !o.has("items"):
		return refuse(path, "* GenerateContentRequest.%s.items: missing field.", path)
	}
	for i, choice := range o.list("enum") {
		if _, ok := parseString(choice); !ok {
			return refuse(path, "Invalid value at '%s.enum[%d]' (TYPE_STRING), %s", path, i, choice)
		}
	}
	for i, required := range o.list("required") {
		if name, _ := parseString(required); properties[name] == nil {
			return refuse(path, "* GenerateContentRequest.%s.required[%d]: property is not defined", path, i)
		}
	}
	for _, name := range sortedNames(properties) {
		if refusal := checkOpenSchema(properties[name], path+".properties["+name+"]", depth+1); refusal != nil {
			return refusal
		}
	}
	if o.has("items") {
		if refusal := checkOpenSchema(o["items"], path+".items", depth+1); refusal != nil {
			return refusal
		}
	}
	for i, branch := range o.list("anyOf") {
		if refusal := checkOpenSchema(branch, fmt.Sprintf("%s.any_of[%d]", path, i), depth+1); refusal != nil {
			return refusal
		}
	}
	return nil
}

// checkJSONSchemaSubset checks the JSON Schema subset: names inside properties are data, not keywords.
func checkJSONSchemaSubset(value raw, path string, depth int) *fault {
	if depth > maxSchemaDepth {
		return refuse(path, "Schema at '%s' exceeds the maximum allowed nesting depth.", path)
	}
	o, ok := parseObject(value)
	if !ok {
		return refuse(path, "Invalid JSON schema at '%s': expected an object, got %s", path, kindOf(value))
	}
	if name, strange := o.stranger(jsonSchema); strange {
		return refuse(path, "Unsupported JSON schema keyword %q at '%s'.", name, path)
	}
	if o.has("$ref") {
		for _, name := range sortedNames(o) {
			if !strings.HasPrefix(name, "$") {
				return refuse(path, "A schema with $ref at '%s' must not have other properties than those starting with $: %q", path, name)
			}
		}
	}
	for i, choice := range o.list("enum") {
		if kind := kindOf(choice); kind != "a string" && kind != "a number" {
			return refuse(path, "Invalid enum value %d at '%s': expected a string or a number, got %s", i, path, kind)
		}
	}
	inner := map[string]raw{}
	for _, name := range []string{"properties", "$defs"} {
		named := o.object(name)
		for _, key := range sortedNames(named) {
			inner[path+"."+name+"."+key] = named[key]
		}
	}
	for _, name := range []string{"anyOf", "oneOf", "prefixItems"} {
		for i, branch := range o.list(name) {
			inner[fmt.Sprintf("%s.%s[%d]", path, name, i)] = branch
		}
	}
	if o.has("items") {
		inner[path+".items"] = o["items"]
	}
	if kindOf(o["additionalProperties"]) == "an object" {
		inner[path+".additionalProperties"] = o["additionalProperties"]
	}
	for _, at := range sortedNames(inner) {
		if refusal := checkJSONSchemaSubset(inner[at], at, depth+1); refusal != nil {
			return refusal
		}
	}
	return nil
}
