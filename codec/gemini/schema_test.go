package gemini_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/gemini"
	"github.com/mnemeproxy/mneme/codec/scan"
)

// clean is what becomes of a tool's schema on the way up; "" when it is left out.
func clean(t interface{ Fatalf(string, ...any) }, side codec.ProviderCodec, schema string) string {
	r := request(user(text("q")))
	r.Tools = []codec.Tool{{Kind: codec.ToolFunction, Name: b("f"), Schema: b(schema)}}
	out, err := side.AppendRequest(nil, r, &second)
	if err != nil || !scan.Valid(out) {
		t.Fatalf("schema %s became %s (%v)", schema, out, err)
	}
	for e := scan.Array(scan.Get(out, "tools")); e.Next(); {
		for f := scan.Array(scan.Get(e.Value, "functionDeclarations")); f.Next(); {
			return string(scan.Get(f.Value, "parametersJsonSchema"))
		}
	}
	return ""
}

// property is the cleaned form of the schema of one property.
func property(t *testing.T, schema string) string {
	t.Helper()
	out := clean(t, gemini.Provider(), `{"type":"object","properties":{"p":`+schema+`}}`)
	return string(scan.Path(b(out), "properties", "p"))
}

func TestSchemasKeepWhatTheAPITakes(t *testing.T) {
	cases := map[string][2]string{
		"supported keywords stay":               {`{"type":"array","title":"T","description":"D","items":{"type":"string","format":"date-time","enum":["a","b"]},"minItems":1,"maxItems":3}`, `{"type":"array","title":"T","description":"D","minItems":1,"maxItems":3,"items":{"type":"string","format":"date-time","enum":["a","b"]}}`},
		"others go":                             {`{"type":"string","$comment":"c","examples":["a"],"deprecated":true,"readOnly":true,"x-order":1,"contentEncoding":"base64","default":"d","not":{"const":1},"if":{},"then":{},"else":{}}`, `{"type":"string"}`},
		"object keywords that go":               {`{"type":"object","properties":{"a":{"type":"string"}},"patternProperties":{".":{}},"propertyNames":{},"dependentRequired":{},"unevaluatedProperties":false}`, `{"type":"object","properties":{"a":{"type":"string"}}}`},
		"const becomes an enum":                 {`{"const":"v"}`, `{"enum":["v"]}`},
		"a constant truth becomes words":        {`{"type":"boolean","const":true}`, `{"type":"boolean","description":"Always true."}`},
		"an enum keeps strings and numbers":     {`{"enum":["a",null,1.5,{"b":1},true]}`, `{"enum":["a",1.5]}`},
		"an enum of nothing else goes":          {`{"type":"boolean","enum":[true,false]}`, `{"type":"boolean"}`},
		"exclusive bounds of integers":          {`{"type":"integer","exclusiveMinimum":0,"exclusiveMaximum":10}`, `{"type":"integer","minimum":1,"maximum":9}`},
		"exclusive bounds of numbers":           {`{"type":"number","exclusiveMinimum":0,"maximum":1,"exclusiveMaximum":true}`, `{"type":"number","description":"Must be greater than 0. Must be less than 1."}`},
		"constraints become words":              {`{"type":"string","description":"A name.","minLength":1,"maxLength":8,"pattern":"^\\w+$"}`, `{"type":"string","description":"A name. Minimum length: 1. Maximum length: 8. Must match the regular expression ^\\w+$."}`},
		"and more of them":                      {`{"type":"array","items":{"type":"number","multipleOf":0.5},"uniqueItems":true}`, `{"type":"array","description":"Items must be unique.","items":{"type":"number","description":"Must be a multiple of 0.5."}}`},
		"several types stay":                    {`{"type":["string","null"]}`, `{"type":["string","null"]}`},
		"nullable becomes a type":               {`{"type":"string","nullable":true}`, `{"type":["string","null"]}`},
		"unions stay":                           {`{"anyOf":[{"type":"string","default":1},true],"oneOf":[{"const":1}]}`, `{"anyOf":[{"type":"string"},{}],"oneOf":[{"enum":[1]}]}`},
		"boolean schemas":                       {`{"type":"object","properties":{"a":true,"b":false},"additionalProperties":true}`, `{"type":"object","properties":{"a":{},"b":{}},"additionalProperties":true}`},
		"tuples":                                {`{"type":"array","items":[{"type":"string"},{"type":"number"}]}`, `{"type":"array","prefixItems":[{"type":"string"},{"type":"number"}]}`},
		"types that follow":                     {`{"properties":{"a":{"items":{"type":"string"}}}}`, `{"type":"object","properties":{"a":{"type":"array","items":{"type":"string"}}}}`},
		"additionalProperties as a schema":      {`{"type":"object","additionalProperties":{"type":"string","default":1}}`, `{"type":"object","additionalProperties":{"type":"string"}}`},
		"allOf is merged":                       {`{"description":"D","allOf":[{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]},{"description":"E","properties":{"b":{"type":"number"},"a":{}},"required":["b"]}]}`, `{"type":"object","description":"D","properties":{"a":{"type":"string"},"b":{"type":"number"}},"required":["a","b"]}`},
		"required names without a property go":  {`{"type":"object","properties":{"a":{"type":"string"}},"required":["a","gone","a",7]}`, `{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}`},
		"the flag of draft 3 joins the list":    {`{"type":"object","properties":{"a":{"type":"string","required":true}}}`, `{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}`},
		"wrong types of keywords go":            {`{"type":7,"description":1,"enum":"a","required":"a","properties":[],"minimum":"x","items":false}`, `{}`},
		"a description escapes nothing again":   {`{"type":"string","description":"a \u00e9 \"b\"\n","pattern":"\\d\"\u00e9"}`, `{"type":"string","description":"a \u00e9 \"b\"\n Must match the regular expression \\d\"\u00e9."}`},
		"remote references say nothing":         {`{"$ref":"https://example.com/schema"}`, `{}`},
		"P91: names of properties are no words": {`{"type":"object","properties":{"const":{"type":"string"},"properties":{"type":"object","properties":{"$ref":{"type":"string"},"not":{"type":"string"}}},"default":{"type":"string"},"required":{"type":"array","items":{"type":"string"}}},"required":["const","default"]}`, `{"type":"object","properties":{"const":{"type":"string"},"properties":{"type":"object","properties":{"$ref":{"type":"string"},"not":{"type":"string"}}},"default":{"type":"string"},"required":{"type":"array","items":{"type":"string"}}},"required":["const","default"]}`},
		"P50: properties keep their order":      {`{"type":"object","properties":{"z":{"type":"string"},"a":{"type":"string"},"\u006d":{"type":"string"}}}`, `{"type":"object","properties":{"z":{"type":"string"},"a":{"type":"string"},"\u006d":{"type":"string"}}}`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c[1], property(t, c[0])); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRootSchemas(t *testing.T) {
	cases := map[string][2]string{
		"no properties":                  {`{"type":"object","properties":{},"additionalProperties":false}`, ``},
		"nothing at all":                 {`{}`, ``},
		"only a dialect":                 {`{"$schema":"http://json-schema.org/draft-07/schema#"}`, ``},
		"no type":                        {`{"properties":{"a":{"type":"string"}}}`, `{"type":"object","properties":{"a":{"type":"string"}}}`},
		"a bare map of properties":       {`{"path":{"type":"string"},"type":{"type":"number"}}`, `{"type":"object","properties":{"path":{"type":"string"},"type":{"type":"number"}}}`},
		"definitions, old spelling":      {`{"type":"object","properties":{"a":{"$ref":"#/definitions/A","description":"gone"}},"definitions":{"A":{"type":"string","examples":[1]}}}`, `{"type":"object","properties":{"a":{"$ref":"#/$defs/A"}},"$defs":{"A":{"type":"string"}}}`},
		"a reference that leads nowhere": {`{"type":"object","properties":{"a":{"$ref":"#/$defs/A"}}}`, `{"type":"object","properties":{"a":{}}}`},
		"a place in the schema":          {`{"type":"object","properties":{"a/b":{"type":"string","default":1},"b":{"$ref":"#/properties/a~1b"},"c":{"anyOf":[{"type":"number"},{"$ref":"#/properties/c/anyOf/0"},{"$ref":"#/properties/c"}]}},"required":["b"]}`, `{"type":"object","properties":{"a/b":{"type":"string"},"b":{"type":"string"},"c":{"anyOf":[{"type":"number"},{"type":"number"},{}]}},"required":["b"]}`},
		"a reference in an allOf":        {`{"type":"object","properties":{"a":{"description":"D","allOf":[{"$ref":"#/$defs/B"}]}},"$defs":{"A":{"type":"string","description":"E"},"B":{"$ref":"#/$defs/A"}}}`, `{"type":"object","properties":{"a":{"type":"string","description":"D"}},"$defs":{"A":{"type":"string","description":"E"},"B":{"$ref":"#/$defs/A"}}}`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c[1], clean(t, gemini.Provider(), c[0])); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// P92: a definition may lead back to itself, but only through properties that may be left out.
func TestCyclesAreOptional(t *testing.T) {
	cases := map[string][2]string{
		"itself": {
			`{"type":"object","properties":{"root":{"$ref":"#/$defs/Node"}},"required":["root"],"$defs":{"Node":{"type":"object","properties":{"name":{"type":"string"},"children":{"type":"array","items":{"$ref":"#/$defs/Node"}}},"required":["name","children"]}}}`,
			`{"type":"object","properties":{"root":{"$ref":"#/$defs/Node"}},"required":["root"],"$defs":{"Node":{"type":"object","properties":{"name":{"type":"string"},"children":{"type":"array","items":{"$ref":"#/$defs/Node"}}},"required":["name"]}}}`,
		},
		"through another": {
			`{"type":"object","properties":{"a":{"$ref":"#/$defs/A"}},"$defs":{"A":{"properties":{"b":{"$ref":"#/$defs/B"}},"required":["b"]},"B":{"properties":{"a":{"$ref":"#/$defs/A"},"c":{"$ref":"#/$defs/C"}},"required":["a","c"]},"C":{"type":"string"}}}`,
			`{"type":"object","properties":{"a":{"$ref":"#/$defs/A"}},"$defs":{"A":{"type":"object","properties":{"b":{"$ref":"#/$defs/B"}}},"B":{"type":"object","properties":{"a":{"$ref":"#/$defs/A"},"c":{"$ref":"#/$defs/C"}},"required":["c"]},"C":{"type":"string"}}}`,
		},
		"the root": {
			`{"type":"object","properties":{"next":{"$ref":"#"},"v":{"type":"string"}},"required":["next","v"]}`,
			`{"type":"object","properties":{"next":{"$ref":"#"},"v":{"type":"string"}},"required":["v"]}`,
		},
		"inside an allOf": {
			`{"type":"object","properties":{"a":{"$ref":"#/$defs/A"}},"$defs":{"A":{"type":"object","allOf":[{"$ref":"#/$defs/A"}],"properties":{"next":{"allOf":[{"$ref":"#/$defs/A"}]}}}}}`,
			`{"type":"object","properties":{"a":{"$ref":"#/$defs/A"}},"$defs":{"A":{"type":"object","properties":{"next":{"$ref":"#/$defs/A"}}}}}`,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c[1], clean(t, gemini.Provider(), c[0])); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Depth and growth are bounded: neither nesting nor definitions that double themselves cost more than a moment.
func TestHostileSchemasStaySmall(t *testing.T) {
	var doubling strings.Builder
	doubling.WriteString(`{"type":"object","properties":{"a":{"allOf":[{"$ref":"#/$defs/d0"}]}},"$defs":{`)
	for i := range 40 {
		fmt.Fprintf(&doubling, `"d%d":{"allOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]},`, i, i+1, i+1)
	}
	doubling.WriteString(`"d40":{"type":"string"}}}`)
	many := `{"type":"object","properties":{` + strings.Repeat(`"p":{"type":"string"},`, 5000) + `"q":{}},"required":[` + strings.Repeat(`"p",`, 5000) + `"q"]}`
	for name, schema := range map[string]string{
		"deep":     strings.Repeat(`{"type":"object","properties":{"a":`, 1300) + `{}` + strings.Repeat(`}}`, 1300),
		"doubling": doubling.String(),
		"many":     many,
		"loops":    `{"type":"object","properties":{"a":{"$ref":"#/properties/a"}},"required":["a"]}`,
	} {
		if out := clean(t, gemini.Provider(), schema); len(out) > 2*len(schema) {
			t.Errorf("%s: %d bytes became %d", name, len(schema), len(out))
		}
	}
}

// What is cleaned holds known keywords only, and cleaning it again changes nothing.
func TestCleaningIsDoneInOnePass(t *testing.T) {
	known := map[string]bool{}
	for _, word := range strings.Fields("$id $defs $ref $anchor type format title description enum items prefixItems minItems maxItems minimum maximum anyOf oneOf properties additionalProperties required propertyOrdering") {
		known[word] = true
	}
	rapid.Check(t, func(t *rapid.T) {
		doc, err := json.Marshal(map[string]any{"type": "object", "properties": map[string]any{"p": anySchema(3).Draw(t, "schema")}})
		if err != nil {
			t.Fatal(err)
		}
		out := clean(t, gemini.Provider(), string(doc))
		checkKeywords(t, b(out), known)
		if again := clean(t, gemini.Provider(), out); again != out {
			t.Fatalf("cleaned\n%s\nagain\n%s", out, again)
		}
	})
}

func anySchema(depth int) *rapid.Generator[any] {
	if depth == 0 {
		return rapid.SampledFrom([]any{map[string]any{"type": "string"}, true, map[string]any{}, map[string]any{"$ref": "#/$defs/x"}})
	}
	sub := rapid.Deferred(func() *rapid.Generator[any] { return anySchema(depth - 1) })
	return rapid.Custom(func(t *rapid.T) any {
		out := map[string]any{}
		for _, word := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{
			"type", "const", "enum", "minimum", "exclusiveMinimum", "pattern", "not", "items", "anyOf", "allOf", "properties", "required", "title", "default", "nullable", "x-y",
		}), 0, 6, func(s string) string { return s }).Draw(t, "words") {
			switch word {
			case "type":
				out[word] = rapid.SampledFrom([]any{"string", "integer", "object", []string{"string", "null"}, 3}).Draw(t, word)
			case "const", "default":
				out[word] = rapid.SampledFrom([]any{"a", 1, true, nil, []int{1}}).Draw(t, word)
			case "enum":
				out[word] = rapid.SliceOfN(rapid.SampledFrom([]any{"a", 1, true, nil}), 0, 3).Draw(t, word)
			case "minimum", "exclusiveMinimum":
				out[word] = rapid.SampledFrom([]any{1, 0.5, true, "x"}).Draw(t, word)
			case "not", "items":
				out[word] = sub.Draw(t, word)
			case "anyOf", "allOf":
				out[word] = rapid.SliceOfN(sub, 0, 3).Draw(t, word)
			case "properties":
				out[word] = rapid.MapOfN(rapid.SampledFrom([]string{"a", "type", "const", "$ref", "é\""}), sub, 0, 3).Draw(t, word)
			case "required":
				out[word] = rapid.SliceOfN(rapid.SampledFrom([]string{"a", "type", "b"}), 0, 3).Draw(t, word)
			default:
				out[word] = rapid.SampledFrom([]any{"w", true}).Draw(t, word)
			}
		}
		return out
	})
}

func checkKeywords(t *rapid.T, schema []byte, known map[string]bool) {
	for m := scan.Object(schema); m.Next(); {
		word := string(m.Key)
		if !known[word] {
			t.Fatalf("keyword %s in %s", word, schema)
		}
		switch word {
		case "properties", "$defs":
			for p := scan.Object(m.Value); p.Next(); {
				checkKeywords(t, p.Value, known)
			}
		case "items", "additionalProperties":
			checkKeywords(t, m.Value, known)
		case "anyOf", "oneOf", "prefixItems":
			for e := scan.Array(m.Value); e.Next(); {
				checkKeywords(t, e.Value, known)
			}
		}
	}
}

func TestTheCacheGivesTheSameToAllAtTheSameTime(t *testing.T) {
	side := gemini.Provider()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 200 {
				schema := fmt.Sprintf(`{"type":"object","properties":{"p%d":{"type":"string","default":1}}}`, i%50)
				want := fmt.Sprintf(`{"type":"object","properties":{"p%d":{"type":"string"}}}`, i%50)
				if got := clean(t, side, schema); got != want {
					t.Errorf("got %s, want %s", got, want)
				}
			}
		})
	}
	wg.Wait()
}
