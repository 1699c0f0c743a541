package provider

import (
	"fmt"
	"strings"
)

// Refusals that all formats of OpenAI share.

func unknownParameter(path string) *fault {
	return refuse(path, "Unknown parameter: '%s'.", path).coded("unknown_parameter")
}

func missingParameter(path string) *fault {
	return refuse(path, "Missing required parameter: '%s'.", path).coded("missing_required_parameter")
}

func unsupportedParameter(path, advice string) *fault {
	return refuse(path, "Unsupported parameter: '%s' is not supported with this model.%s", path, advice).coded("unsupported_parameter")
}

func invalidValue(path, value, supported string) *fault {
	return refuse(path, "Invalid value: '%s'. Supported values are: %s.", value, supported).coded("invalid_value")
}

func invalidType(path, expected string, value raw) *fault {
	return refuse(path, "Invalid type for '%s': expected %s, but got %s instead.", path, expected, kindOf(value)).coded("invalid_type")
}

func emptyArray(path string) *fault {
	return refuse(path, "Invalid '%s': empty array. Expected an array with minimum length 1, but got an empty array instead.", path).coded("empty_array")
}

func tooLong(path string, limit, length int) *fault {
	return refuse(path, "Invalid '%s': string too long. Expected a string with maximum length %d, but got a string with length %d instead.", path, limit, length).coded("string_above_max_length")
}

// isReasoningModel tells the models that refuse sampling settings.
func isReasoningModel(model string) bool {
	if strings.HasPrefix(model, "gpt-5") || strings.HasPrefix(model, "gpt-6") {
		return !strings.Contains(model, "-chat")
	}
	return isOSeries(model) || strings.HasPrefix(model, "codex")
}

// checkName checks a tool name.
func checkName(path, name string, limit int) *fault {
	switch {
	case len(name) > limit:
		return tooLong(path, limit, len(name))
	case !isName(name, limit):
		return refuse(path, "Invalid '%s': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.", path).coded("invalid_value")
	}
	return nil
}

// checkFunctionSchema checks the parameters of a function tool.
func checkFunctionSchema(path, name string, parameters raw, strict bool) *fault {
	if len(parameters) == 0 || string(parameters) == "null" {
		return nil
	}
	o, ok := parseObject(parameters)
	if !ok {
		return invalidType(path, "an object", parameters)
	}
	complaint := ""
	switch kind := o.text("type"); {
	case kind == "":
		complaint = `schema must be a JSON Schema of 'type: "object"', got 'type: "None"'.`
	case kind != "object":
		complaint = fmt.Sprintf(`schema must be a JSON Schema of 'type: "object"', got 'type: "%s"'.`, kind)
	case strict:
		complaint = strictSchema(parameters, "", 0)
	}
	if complaint != "" {
		return refuse(path, "Invalid schema for function '%s': %s", name, complaint).coded("invalid_function_parameters")
	}
	return nil
}

// A bound is the legal range of a number.
type bound struct {
	name      string
	low, high float64
	whole     bool
}

func checkBounds(o object, bounds []bound) *fault {
	for _, b := range bounds {
		if !o.has(b.name) {
			continue
		}
		n, ok := o.number(b.name)
		kind := "decimal"
		if b.whole {
			kind = "integer"
		}
		switch {
		case !ok || b.whole && n != float64(int64(n)):
			return invalidType(b.name, "a number", o[b.name])
		case n < b.low:
			return refuse(b.name, "Invalid '%s': %s below minimum value. Expected a value >= %v, but got %s instead.", b.name, kind, b.low, o[b.name]).coded(kind + "_below_min_value")
		case n > b.high:
			return refuse(b.name, "Invalid '%s': %s above maximum value. Expected a value <= %v, but got %s instead.", b.name, kind, b.high, o[b.name]).coded(kind + "_above_max_value")
		}
	}
	return nil
}

// checkBookkeeping checks the members that chat and responses have in common and that change no answer.
func checkBookkeeping(o object) *fault {
	for name, limit := range map[string]int{"prompt_cache_key": 64, "safety_identifier": 128} {
		if o.has(name) {
			s, ok := parseString(o[name])
			if !ok {
				return invalidType(name, "a string", o[name])
			}
			if len(s) > limit {
				return tooLong(name, limit, len(s))
			}
		}
	}
	metadata := o.object("metadata")
	if len(metadata) > 16 {
		return refuse("metadata", "Invalid 'metadata': object has too many properties. Expected an object with at most 16 properties, but got %d.", len(metadata)).coded("object_above_max_properties")
	}
	for _, name := range sortedNames(metadata) {
		value, ok := parseString(metadata[name])
		path := "metadata." + name
		switch {
		case !ok:
			return invalidType(path, "a string", metadata[name])
		case len(name) > 64:
			return tooLong("metadata", 64, len(name))
		case len(value) > 512:
			return tooLong(path, 512, len(value))
		}
	}
	if o.has("stream_options") && !o.flag("stream") {
		return refuse("stream_options", "The 'stream_options' parameter is only allowed when 'stream' is enabled.")
	}
	return nil
}

var effortWords = words("none minimal low medium high xhigh max")

func checkEffort(path, effort string) *fault {
	if effort != "" && !effortWords[effort] {
		return invalidValue(path, effort, "'none', 'minimal', 'low', 'medium', 'high', 'xhigh', and 'max'")
	}
	return nil
}

// checkJSONSchema checks the schema of structured output; path is the object that holds name, schema and strict.
func checkJSONSchema(path string, o object) *fault {
	if !o.has("name") {
		return missingParameter(path + ".name")
	}
	if refusal := checkName(path+".name", o.text("name"), 64); refusal != nil {
		return refusal
	}
	schema, ok := parseObject(o["schema"])
	if !ok {
		return missingParameter(path + ".schema")
	}
	complaint := ""
	if schema.text("type") != "object" {
		complaint = `schema must be a JSON Schema of 'type: "object"'.`
	} else if o.flag("strict") {
		complaint = strictSchema(o["schema"], "", 0)
	}
	if complaint != "" {
		return refuse(path, "Invalid schema for response_format '%s': %s", o.text("name"), complaint)
	}
	return nil
}

var embeddingMembers = map[string]map[string]bool{
	"":        words("input model encoding_format dimensions user"),
	"voyage":  words("input model input_type truncation output_dimension output_dtype encoding_format"),
	"mistral": words("input model output_dimension output_dtype encoding_format metadata"),
}

func checkEmbeddings(o object, model string) *fault {
	host := ""
	switch {
	case strings.HasPrefix(model, "voyage-"):
		host = "voyage"
	case strings.HasPrefix(model, "mistral-"), strings.HasPrefix(model, "codestral-"):
		host = "mistral"
	case model == "":
		return refuse("", "you must provide a model parameter")
	case !strings.Contains(model, "embed"):
		return &fault{class: classPermission, message: "You are not allowed to generate embeddings from this model", code: "invalid_request_error"}
	}
	if name, ok := o.stranger(embeddingMembers[host]); ok {
		return unknownParameter(name)
	}
	if host != "" && strings.ContainsAny(string(o["input"][:1]), "[") {
		for _, value := range o.list("input") {
			if value[0] != '"' {
				return invalidType("input", "an array of strings", value)
			}
		}
	}
	if o.has("encoding_format") {
		if format := o.text("encoding_format"); format != "float" && format != "base64" {
			return invalidValue("encoding_format", format, "'float' and 'base64'")
		}
	}
	return nil
}
