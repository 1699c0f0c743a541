package messages_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/messages"
	"github.com/mnemeproxy/mneme/codec/scan"
)

// sentSchema is the input schema that a provider is sent for a tool with that schema.
func sentSchema(t *testing.T, schema string) (string, error) {
	t.Helper()
	r := new(codec.Request)
	r.Reset()
	tool := codec.Tool{Kind: codec.ToolFunction, Name: []byte("f"), Index: 3}
	if schema != "" {
		tool.Schema = []byte(schema)
	}
	r.Tools = append(r.Tools, tool)
	body, err := messages.Provider().AppendRequest(nil, r, ableTarget())
	if err != nil {
		return "", err
	}
	if !json.Valid(body) {
		t.Fatalf("not JSON: %s", body)
	}
	el := scan.Array(scan.Get(body, "tools"))
	el.Next()
	return string(scan.Get(el.Value, "input_schema")), nil
}

func TestToolSchemas(t *testing.T) {
	for _, c := range []struct{ name, schema, want string }{
		{"missing", ``, `{"type":"object","properties":{}}`},
		{
			"an object passes untouched", `{ "type":"object","properties":{"b":{"anyOf":[{"type":"null"}]},"a":{"const":1.0}} }`,
			`{ "type":"object","properties":{"b":{"anyOf":[{"type":"null"}]},"a":{"const":1.0}} }`,
		},
		{"without a type", `{"properties":{"a":{}}}`, `{"type":"object","properties":{"a":{}}}`},
		{
			"nullable", `{"type":["object","null"],"title":"T","properties":{"a":{}},"required":["a"]}`,
			`{"type":"object","title":"T","properties":{"a":{}},"required":["a"]}`,
		},
		{
			"a union of objects", `{"oneOf":[{"properties":{"a":{"type":"string"}},"required":["a"]},{"properties":{"a":{"type":"integer"},"b":{}}}],"additionalProperties":false}`,
			`{"type":"object","additionalProperties":false,"properties":{"a":{"type":"string"},"b":{}}}`,
		},
		{
			"all of", `{"type":"object","properties":{"z":{}},"required":["z"],"allOf":[{"$ref":"#/$defs/A"},{"properties":{"b":{}},"required":["b","z"]}],"$defs":{"A":{"properties":{"a":{}},"required":["a"]}}}`,
			`{"type":"object","$defs":{"A":{"properties":{"a":{}},"required":["a"]}},"properties":{"z":{},"a":{},"b":{}},"required":["z","a","b"]}`,
		},
		{
			"a cycle", `{"$ref":"#/$defs/A","$defs":{"A":{"allOf":[{"$ref":"#/$defs/A"},{"$ref":"#/$defs/A"},{"properties":{"a":{}}}]}}}`,
			`{"type":"object","$ref":"#/$defs/A","$defs":{"A":{"allOf":[{"$ref":"#/$defs/A"},{"$ref":"#/$defs/A"},{"properties":{"a":{}}}]}},"properties":{"a":{}}}`,
		},
	} {
		for range 2 { // the second time from the cache
			got, err := sentSchema(t, c.schema)
			if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.name, diff)
			}
		}
	}
}

func TestToolSchemaThatIsNoObjectIsRefused(t *testing.T) {
	for _, schema := range []string{`{"type":"string"}`, `{"type":["string","null"]}`, `true`} {
		_, err := sentSchema(t, schema)
		var e *codec.Error
		if !asError(err, &e) || e.Param != "tools[3]" {
			t.Errorf("%s: got %v", schema, err)
		}
	}
}

// P91, P92: only schemas are cleaned, not names of properties nor values; what the decoder refuses moves to the description.
func TestOutputSchemas(t *testing.T) {
	for _, c := range []struct{ name, schema, want string }{
		{
			"bounds", `{"type":"integer","description":"How \"many\".","minimum":1,"maximum":9}`,
			`{"type":"integer","description":"How \"many\". {minimum: 1, maximum: 9}"}`,
		},
		{
			"objects are closed", `{"$schema":"x","type":"object","properties":{"format":{"type":"string","format":"date"},"pattern":{"pattern":"^\"a\"$"}},"additionalProperties":{"type":"string"}}`,
			`{"type":"object","properties":{"format":{"type":"string","format":"date"},"pattern":{"description":"{pattern: \"^\\\"a\\\"$\"}"}},"additionalProperties":false}`,
		},
		{
			"unions", `{"oneOf":[{"type":"null"},{"$ref":"#/$defs/A","description":"x"}],"$defs":{"A":{"properties":{"a":{"const":1.0}}}}}`,
			`{"anyOf":[{"type":"null"},{"$ref":"#/$defs/A"}],"$defs":{"A":{"properties":{"a":{"const":1.0}},"additionalProperties":false}}}`,
		},
		{
			"arrays", `{"type":"array","minItems":2,"maxItems":3,"items":{"type":"string","format":"color","enum":["pattern"]}}`,
			`{"type":"array","items":{"type":"string","enum":["pattern"],"description":"{format: \"color\"}"},"description":"{minItems: 2, maxItems: 3}"}`,
		},
		{"a boolean", `{"type":"object","properties":{"a":true}}`, `{"type":"object","properties":{"a":true},"additionalProperties":false}`},
	} {
		r := new(codec.Request)
		r.Reset()
		r.Output = codec.OutputFormat{Kind: codec.OutputSchema, Schema: []byte(c.schema)}
		body := provide(t, r, ableTarget())
		if !json.Valid(body) {
			t.Fatalf("%s: not JSON: %s", c.name, body)
		}
		got := string(scan.Path(body, "output_config", "format", "schema"))
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

// Schemas made to be expensive are folded in bounded time, and many of them do not fill the memory.
func TestHostileSchemas(t *testing.T) {
	refs := strings.TrimSuffix(strings.Repeat(`{"$ref":"#/$defs/A"},`, 100), ",")
	deep := strings.Repeat(`{"properties":{"a":`, 500) + `{}` + strings.Repeat(`}}`, 500)
	for _, schema := range []string{
		`{"allOf":[` + refs + `],"$defs":{"A":{"anyOf":[` + refs + `]}}}`,
		deep,
	} {
		if _, err := sentSchema(t, schema); err != nil {
			t.Error(err)
		}
		r := new(codec.Request)
		r.Reset()
		r.Output = codec.OutputFormat{Kind: codec.OutputSchema, Schema: []byte(schema)}
		if body := provide(t, r, ableTarget()); !json.Valid(body) {
			t.Errorf("not JSON: %.200s", body)
		}
	}
	for i := range 2000 {
		if got, _ := sentSchema(t, fmt.Sprintf(`{"properties":{"p%d":{}}}`, i)); !strings.Contains(got, fmt.Sprintf("p%d", i)) {
			t.Fatalf("schema %d came out as %s", i, got)
		}
	}
}
