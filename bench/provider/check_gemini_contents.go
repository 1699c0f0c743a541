package provider

import (
	"encoding/base64"
	"fmt"
	"strings"
)

// A checkedContent is what the order rules need to know of one content.
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
	checked = joinModels(checked)
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

// joinModels joins neighboring contents of the model: Google's SDKs keep each piece of a streamed turn as one.
func joinModels(checked []checkedContent) []checkedContent {
	joined := checked[:1]
	for _, next := range checked[1:] {
		last := &joined[len(joined)-1]
		if last.user || next.user {
			joined = append(joined, next)
			continue
		}
		last.calls, last.signed = append(last.calls, next.calls...), append(last.signed, next.signed...)
		last.responses, last.other = append(last.responses, next.responses...), last.other+next.other
	}
	return joined
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

// checkContentOrder checks that calls and their responses stand in neighboring contents, equal in number and order.
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

// checkThoughtSignatures checks the current turn, which is everything after the last content that a user wrote:
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
