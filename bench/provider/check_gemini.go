package provider

import (
	"encoding/base64"
	"fmt"
	"strings"
)

// Members of Gemini's messages, as its proto JSON names them; it takes lower_snake_case too. What exists only on
// the enterprise host is not here: the developer API does not know it.
var (
	geminiRoot = protoMembers(`contents systemInstruction tools toolConfig safetySettings generationConfig cachedContent serviceTier
		store continuationToken`)
	geminiContent = protoMembers("role parts")
	geminiPart    = protoMembers(`text inlineData fileData functionCall functionResponse executableCode codeExecutionResult toolCall
		toolResponse thought thoughtSignature videoMetadata mediaResolution mediaProcessing partMetadata`)
	geminiCall     = protoMembers("id name args")
	geminiResponse = protoMembers("id name response parts willContinue scheduling")
	geminiTool     = protoMembers(`functionDeclarations googleSearch googleSearchRetrieval codeExecution urlContext googleMaps fileSearch
		computerUse mcpServers`)
	geminiDeclaration = protoMembers("name description parameters parametersJsonSchema response responseJsonSchema behavior")
	geminiToolConfig  = protoMembers("functionCallingConfig retrievalConfig includeServerSideToolInvocations")
	geminiCalling     = protoMembers("mode allowedFunctionNames")
	geminiConfig      = protoMembers(`temperature topP topK maxOutputTokens stopSequences candidateCount seed presencePenalty
		frequencyPenalty responseMimeType responseSchema responseJsonSchema responseLogprobs logprobs responseModalities
		speechConfig imageConfig audioTranscriptionConfig mediaResolution thinkingConfig enableEnhancedCivicAnswers`)
	geminiThinking  = protoMembers("includeThoughts thinkingBudget thinkingLevel")
	geminiEmbedding = protoMembers("model content taskType title outputDimensionality")

	// The OpenAPI subset of parameters and responseSchema.
	openSchema = protoMembers(`type format title description nullable enum items minItems maxItems properties required
		minProperties maxProperties minimum maximum minLength maxLength pattern example anyOf propertyOrdering default`)
	// The JSON Schema subset of parametersJsonSchema and responseJsonSchema.
	jsonSchema = words(`$id $defs $ref $anchor type format title description enum items prefixItems minItems maxItems minimum
		maximum anyOf oneOf properties additionalProperties required propertyOrdering`)
)

// geminiData are the members of which a part has exactly one.
var geminiData = strings.Fields(`text inlineData fileData functionCall functionResponse executableCode codeExecutionResult toolCall toolResponse`)

// protoMembers is [words] with every name in both spellings.
func protoMembers(list string) map[string]bool {
	set := words(list)
	for _, name := range sortedNames(set) {
		set[snake(name)] = true
	}
	return set
}

// snake turns lowerCamelCase into lower_snake_case, as error texts spell paths.
func snake(name string) string {
	var out strings.Builder
	for i := range len(name) {
		c := name[i]
		if c >= 'A' && c <= 'Z' {
			out.WriteByte('_')
			c += 'a' - 'A'
		}
		out.WriteByte(c)
	}
	return out.String()
}

// camel merges the snake_case members of an object into their camelCase names.
func (o object) camel() object {
	for name, value := range o {
		if !strings.Contains(name, "_") {
			continue
		}
		words := strings.Split(name, "_")
		for i := 1; i < len(words); i++ {
			if words[i] != "" {
				words[i] = strings.ToUpper(words[i][:1]) + words[i][1:]
			}
		}
		if joined := strings.Join(words, ""); o[joined] == nil {
			o[joined] = value
		}
	}
	return o
}

func unknownName(name, path string) *fault {
	if path == "" {
		return refuse(name, "Invalid JSON payload received. Unknown name %q: Cannot find field.", name)
	}
	return refuse(path, "Invalid JSON payload received. Unknown name %q at '%s': Cannot find field.", name, path)
}

// protoObject parses a value that has to be an object with known members only.
func protoObject(value raw, path string, allowed map[string]bool) (object, *fault) {
	o, ok := parseObject(value)
	if !ok {
		return nil, refuse(path, "Invalid value at '%s': expected an object, got %s", path, kindOf(value))
	}
	if name, strange := o.stranger(allowed); strange {
		return nil, unknownName(name, path)
	}
	return o.camel(), nil
}

func checkGemini(o object, model string, contents []raw) *fault {
	if name, ok := o.stranger(geminiRoot); ok {
		return unknownName(name, "")
	}
	o.camel()
	if !strings.HasPrefix(model, "gem") {
		return &fault{class: classNotFound, message: "models/" + model + " is not found for API version v1beta, or is not supported for generateContent. Call ListModels to see the list of available models and their supported methods."}
	}
	if len(contents) == 0 {
		return refuse("contents", "* GenerateContentRequest.contents: contents is not specified")
	}
	if o.has("systemInstruction") {
		if refusal := checkSystemInstruction(o["systemInstruction"]); refusal != nil {
			return refusal
		}
	}
	names, refusal := checkGeminiTools(o, model)
	if refusal != nil {
		return refusal
	}
	if refusal := checkGenerationConfig(o, model, len(names) > 0); refusal != nil {
		return refusal
	}
	if o.has("cachedContent") && (o.has("tools") || o.has("systemInstruction") || o.has("toolConfig")) {
		return refuse("cached_content", "CachedContent can not be used with GenerateContent request setting system_instruction, tools or tool_config.")
	}
	return checkContents(contents, model)
}

func checkSystemInstruction(value raw) *fault {
	content, refusal := protoObject(value, "system_instruction", geminiContent)
	if refusal != nil {
		return refusal
	}
	parts := content.list("parts")
	if len(parts) == 0 {
		return refuse("system_instruction", "* GenerateContentRequest.system_instruction.parts: contents.parts must not be empty.")
	}
	for i, value := range parts {
		if _, refusal := protoObject(value, fmt.Sprintf("system_instruction.parts[%d]", i), protoMembers("text")); refusal != nil {
			return refusal
		}
	}
	return nil
}

// checkGeminiTools checks declarations and the choice among them, and gives the declared names.
func checkGeminiTools(o object, model string) (map[string]bool, *fault) {
	names := map[string]bool{}
	withFunctions := 0
	for i, value := range o.list("tools") {
		path := fmt.Sprintf("tools[%d]", i)
		entry, refusal := protoObject(value, path, geminiTool)
		if refusal != nil {
			return nil, refusal
		}
		if entry.has("functionDeclarations") {
			withFunctions++
		}
		for j, value := range entry.list("functionDeclarations") {
			if refusal := checkDeclaration(value, fmt.Sprintf("%s.function_declarations[%d]", path, j), names); refusal != nil {
				return nil, refusal
			}
		}
		if len(entry) > 1 && entry.has("functionDeclarations") && !needsThoughtSignature(model) {
			return nil, refuse("tools", "Tool use with function calling is unsupported")
		}
	}
	if withFunctions > 1 {
		return nil, refuse("tools", "Multiple tools are supported only when they are all search tools.")
	}
	if len(names) > 512 {
		return nil, refuse("tools", "The number of function declarations must be at most 512")
	}
	return names, checkToolConfig(o, names)
}

func checkDeclaration(value raw, path string, names map[string]bool) *fault {
	declaration, refusal := protoObject(value, path, geminiDeclaration)
	if refusal != nil {
		return refusal
	}
	name := declaration.text("name")
	switch {
	case !isFunctionName(name):
		return refuse(path+".name", "[FIELD_INVALID] Invalid function name. Must start with a letter or an underscore. Must be alphanumeric (a-z, A-Z, 0-9), underscores (_), dots (.), colons (:), or dashes (-), with a maximum length of 64.")
	case names[name]:
		return refuse(path+".name", "Duplicate function declaration found: %s", name)
	case declaration.has("description") && declaration.text("description") == "":
		return refuse(path+".description", "* GenerateContentRequest.%s.description: must not be empty", path)
	case declaration.has("parameters") && declaration.has("parametersJsonSchema"):
		return refuse(path, "parameters and parameters_json_schema cannot both be set")
	}
	names[name] = true
	if declaration.has("parameters") {
		return checkOpenSchema(declaration["parameters"], path+".parameters", 0)
	}
	if declaration.has("parametersJsonSchema") {
		return checkJSONSchemaSubset(declaration["parametersJsonSchema"], path+".parameters_json_schema", 0)
	}
	return nil
}

func isFunctionName(name string) bool {
	if name == "" || len(name) > 64 || name[0] == '-' || name[0] >= '0' && name[0] <= '9' {
		return false
	}
	for i := range len(name) {
		if c := name[i]; !isNameByte(c) && (c != '.' && c != ':' || i == 0) {
			return false
		}
	}
	return true
}

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

func checkToolConfig(o object, names map[string]bool) *fault {
	if !o.has("toolConfig") {
		return nil
	}
	config, refusal := protoObject(o["toolConfig"], "tool_config", geminiToolConfig)
	if refusal != nil || !config.has("functionCallingConfig") {
		return refusal
	}
	calling, refusal := protoObject(config["functionCallingConfig"], "tool_config.function_calling_config", geminiCalling)
	if refusal != nil {
		return refusal
	}
	mode := calling.text("mode")
	allowed := calling.list("allowedFunctionNames")
	switch {
	case !words("AUTO ANY NONE VALIDATED MODE_UNSPECIFIED")[mode] && calling.has("mode"):
		return refuse("tool_config.function_calling_config.mode", "Invalid value at 'tool_config.function_calling_config.mode' (type.googleapis.com/google.ai.generativelanguage.v1beta.FunctionCallingConfig.Mode), %q", mode)
	case len(allowed) > 0 && mode != "ANY" && mode != "VALIDATED":
		return refuse("tool_config.function_calling_config", "Allowed function names should only be set when the function calling mode is ANY or VALIDATED.")
	case (mode == "ANY" || mode == "VALIDATED") && len(names) == 0:
		return refuse("tool_config.function_calling_config", "Function calling config is set without function_declarations.")
	}
	for _, value := range allowed {
		if name, _ := parseString(value); !names[name] {
			return refuse("tool_config.function_calling_config.allowed_function_names", "The allowed function name '%s' is not declared.", name)
		}
	}
	return nil
}

func checkGenerationConfig(o object, model string, withFunctions bool) *fault {
	if !o.has("generationConfig") {
		return nil
	}
	config, refusal := protoObject(o["generationConfig"], "generation_config", geminiConfig)
	if refusal != nil {
		return refusal
	}
	bounds := []bound{
		{"temperature", 0, 2, false},
		{"topP", 0, 1, false},
		{"maxOutputTokens", 1, 1 << 31, true},
		{"candidateCount", 1, 8, true},
		{"presencePenalty", -2, 2, false},
		{"frequencyPenalty", -2, 2, false},
		{"logprobs", 0, 20, true},
		{"seed", -1 << 31, 1<<31 - 1, true},
	}
	for _, b := range bounds {
		if n, ok := config.number(b.name); config.has(b.name) && (!ok || n < b.low || n > b.high || b.whole && n != float64(int64(n))) {
			return refuse("generation_config", "* GenerateContentRequest.generation_config.%s: %s must be in the range [%v, %v].", snake(b.name), snake(b.name), b.low, b.high)
		}
	}
	if n := len(config.list("stopSequences")); n > 5 {
		return refuse("generation_config", "* GenerateContentRequest.generation_config.stop_sequences: the number of stop_sequences must not be more than 5, got %d.", n)
	}
	if refusal := checkResponseSchema(config, model, withFunctions); refusal != nil {
		return refusal
	}
	if !config.has("thinkingConfig") {
		return nil
	}
	thinking, refusal := protoObject(config["thinkingConfig"], "generation_config.thinking_config", geminiThinking)
	if refusal != nil {
		return refusal
	}
	return checkThinkingConfig(thinking, model)
}

func checkResponseSchema(config object, model string, withFunctions bool) *fault {
	mime := config.text("responseMimeType")
	structured := config.has("responseSchema") || config.has("responseJsonSchema")
	switch {
	case mime != "" && !words("text/plain application/json text/x.enum")[mime]:
		return refuse("generation_config", "* GenerateContentRequest.generation_config.response_mime_type: allowed mimetypes are `text/plain`, `application/json`, `application/xml`, `application/yaml` and `text/x.enum`.")
	case structured && mime != "application/json" && mime != "text/x.enum":
		return refuse("generation_config", "response_schema is set, but response_mime_type is not application/json.")
	case config.has("responseSchema") && config.has("responseJsonSchema"):
		return refuse("generation_config", "response_schema and response_json_schema cannot both be set.")
	case mime == "application/json" && withFunctions && !needsThoughtSignature(model):
		return refuse("generation_config", "Function calling with a response mime type: 'application/json' is unsupported")
	case config.has("responseSchema"):
		return checkOpenSchema(config["responseSchema"], "generation_config.response_schema", 0)
	case config.has("responseJsonSchema"):
		return checkJSONSchemaSubset(config["responseJsonSchema"], "generation_config.response_json_schema", 0)
	}
	return nil
}

func checkThinkingConfig(thinking object, model string) *fault {
	budget, budgeted := thinking.number("thinkingBudget")
	level := thinking.text("thinkingLevel")
	old := strings.HasPrefix(model, "gemini-2.5")
	highest := 24576.0
	if strings.HasPrefix(model, "gemini-2.5-pro") {
		highest = 32768
	}
	switch {
	case budgeted && level != "":
		return refuse("generation_config", "You can only set one of thinking budget and thinking level.")
	case strings.HasPrefix(model, "gemini-2.0"), strings.HasPrefix(model, "gemini-1"):
		return refuse("generation_config", "Thinking is not supported for this model.")
	case level != "" && old:
		return refuse("generation_config", "Thinking level is not supported for this model.")
	case level != "" && !words("MINIMAL LOW MEDIUM HIGH")[strings.ToUpper(level)]:
		return refuse("generation_config", "Invalid value at 'generation_config.thinking_config.thinking_level' (type.googleapis.com/google.ai.generativelanguage.v1beta.ThinkingConfig.ThinkingLevel), %q", level)
	case budgeted && old && (budget < -1 || budget > highest):
		return refuse("generation_config", "The thinking budget %v is invalid. Please choose a value between 0 and %v.", budget, highest)
	case budgeted && strings.HasPrefix(model, "gemini-2.5-pro") && budget >= 0 && budget < 128:
		return refuse("generation_config", "Budget %v is invalid. This model only works in thinking mode.", budget)
	}
	return nil
}

// A geminiTurn is what the order rules need to know of one content.
type checkedContent struct {
	user      bool
	calls     []object
	responses []object
	other     int      // parts that are neither
	signed    []string // thoughtSignature of each call, "" for none
}

func checkContents(contents []raw, model string) *fault {
	checked := make([]checkedContent, len(contents))
	for i, value := range contents {
		refusal := checkContent(value, fmt.Sprintf("contents[%d]", i), &checked[i])
		if refusal != nil {
			return refusal
		}
	}
	if !checked[0].user {
		return refuse("contents", "Please ensure that single turn requests end with a user role or the role field is empty, and that the conversation starts with a user turn.")
	}
	for i := range checked {
		if refusal := checkContentOrder(checked, i); refusal != nil {
			return refusal
		}
	}
	if needsThoughtSignature(model) {
		return checkThoughtSignatures(checked)
	}
	return nil
}

func checkContent(value raw, path string, out *checkedContent) *fault {
	content, refusal := protoObject(value, path, geminiContent)
	if refusal != nil {
		return refusal
	}
	role := content.text("role")
	if role != "" && role != "user" && role != "model" {
		return refuse(path+".role", "Please use a valid role: user, model.")
	}
	out.user = role != "model"
	parts := content.list("parts")
	if len(parts) == 0 {
		return refuse(path+".parts", "* GenerateContentRequest.%s.parts: contents.parts must not be empty.", path)
	}
	for j, value := range parts {
		at := fmt.Sprintf("%s.parts[%d]", path, j)
		part, refusal := protoObject(value, at, geminiPart)
		if refusal != nil {
			return refusal
		}
		data := 0
		for _, name := range geminiData {
			if part.has(name) {
				data++
			}
		}
		if data != 1 {
			return refuse(at, "* GenerateContentRequest.%s.data: required oneof field 'data' must have one initialized field", at)
		}
		if refusal := checkPart(part, at, out); refusal != nil {
			return refusal
		}
	}
	return nil
}

func checkPart(part object, path string, out *checkedContent) *fault {
	signature := part.text("thoughtSignature")
	if signature != "" && signature != skipThoughtSignature && !isOpaque(stateThought, signature) {
		if _, err := base64.StdEncoding.DecodeString(signature); err != nil {
			return refuse(path+".thought_signature", "Invalid value at '%s.thought_signature' (TYPE_BYTES), Base64 decoding failed for %q", path, firstCharacters(signature, 20))
		}
		return refuse(path+".thought_signature", "Corrupted thought signature.")
	}
	switch {
	case part.has("functionCall"):
		call, refusal := protoObject(part["functionCall"], path+".function_call", geminiCall)
		if refusal != nil {
			return refusal
		}
		if call.text("name") == "" {
			return refuse(path, "* GenerateContentRequest.%s.function_call.name: Name cannot be empty.", path)
		}
		if call.has("args") && call.object("args") == nil {
			return refuse(path, "Invalid value at '%s.function_call.args' (type.googleapis.com/google.protobuf.Struct), %s", path, firstCharacters(string(call["args"]), 40))
		}
		out.calls = append(out.calls, call)
		out.signed = append(out.signed, signature)
	case part.has("functionResponse"):
		response, refusal := protoObject(part["functionResponse"], path+".function_response", geminiResponse)
		if refusal != nil {
			return refusal
		}
		if response.text("name") == "" {
			return refuse(path, "* GenerateContentRequest.%s.function_response.name: Name cannot be empty.", path)
		}
		if response.object("response") == nil {
			return refuse(path, "Invalid value at '%s.function_response.response' (type.googleapis.com/google.protobuf.Struct), %s", path, firstCharacters(string(response["response"]), 40))
		}
		out.responses = append(out.responses, response)
	default:
		out.other++
		if part.has("inlineData") {
			return checkInlineData(part["inlineData"], path+".inline_data")
		}
	}
	return nil
}

func checkInlineData(value raw, path string) *fault {
	data, refusal := protoObject(value, path, protoMembers("mimeType data displayName"))
	if refusal != nil {
		return refusal
	}
	if !strings.Contains(data.text("mimeType"), "/") {
		return refuse(path, "* GenerateContentRequest.%s.mime_type: must be specified", path)
	}
	if _, err := base64.StdEncoding.DecodeString(data.text("data")); err != nil {
		return refuse(path, "Invalid value at '%s.data' (TYPE_BYTES), Base64 decoding failed", path)
	}
	return nil
}

// checkContentOrder checks that calls and their responses stand in neighbouring contents, equal in number and order.
func checkContentOrder(checked []checkedContent, i int) *fault {
	this := &checked[i]
	switch {
	case len(this.calls) > 0 && this.user, len(this.responses) > 0 && !this.user:
		return refuse("contents", "Please ensure that function call turns have the role 'model' and function response turns the role 'user'.")
	case len(this.responses) > 0 && this.other > 0:
		return refuse("contents", "Please ensure that a function response turn contains function response parts only.")
	case len(this.responses) > 0 && (i == 0 || len(checked[i-1].calls) == 0):
		return refuse("contents", "Please ensure that function response turn comes immediately after a function call turn.")
	}
	if len(this.calls) == 0 {
		return nil
	}
	if i == 0 || !checked[i-1].user {
		return refuse("contents", "Please ensure that function call turn comes immediately after a user turn or after a function response turn.")
	}
	if i+1 == len(checked) {
		return refuse("contents", "Please ensure that the conversation does not end with a function call turn.")
	}
	next := &checked[i+1]
	if len(next.responses) != len(this.calls) {
		return refuse("contents", "Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn.")
	}
	for j, call := range this.calls {
		response := next.responses[j]
		if call.text("name") != response.text("name") || call.text("id") != response.text("id") {
			return refuse("contents", "Please ensure that function response parts have the names and ids of the function call parts, in the same order: %q, %q.", call.text("name"), response.text("name"))
		}
	}
	return nil
}

// skipThoughtSignature is the documented way to replay calls that another model made.
const skipThoughtSignature = "skip_thought_signature_validator"

// checkThoughtSignatures checks the current turn, which is everything behind the last content that a user wrote:
// the first call of each step carries its signature.
func checkThoughtSignatures(checked []checkedContent) *fault {
	start := 0
	for i := range checked {
		if checked[i].user && len(checked[i].responses) == 0 {
			start = i
		}
	}
	for i := start; i < len(checked); i++ {
		if len(checked[i].calls) > 0 && checked[i].signed[0] == "" {
			return refuse("contents", "Function call is missing a thought_signature in functionCall parts. This is required for tools to work correctly, and missing thought_signature may lead to degraded model performance. Additional data, function call `default_api:%s` , position %d. Please refer to https://ai.google.dev/gemini-api/docs/thought-signatures for more details.", checked[i].calls[0].text("name"), i+1)
		}
	}
	return nil
}

func checkGeminiEmbedding(request object, model string) *fault {
	if name, ok := request.stranger(geminiEmbedding); ok {
		return unknownName(name, "")
	}
	request.camel()
	if named := request.text("model"); named != "" && named != "models/"+model {
		return refuse("model", "* EmbedContentRequest.model: the model %q does not match the model of the URL", named)
	}
	if request.has("title") && request.text("taskType") != "RETRIEVAL_DOCUMENT" {
		return refuse("title", "* EmbedContentRequest.title: title is only supported with task type RETRIEVAL_DOCUMENT")
	}
	return nil
}
