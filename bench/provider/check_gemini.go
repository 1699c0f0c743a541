package provider

import (
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
