package provider

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// names and values that requests of all formats are made of, right and wrong ones mixed.
var (
	lawNames = strings.Fields(`model messages input contents system systemInstruction tools tool_choice toolConfig role content parts
		type text name id call_id tool_use_id tool_call_id function functionCall functionResponse functionDeclarations arguments args
		response output summary encrypted_content thinking signature thoughtSignature input_schema parameters parametersJsonSchema
		properties required items anyOf enum $ref max_tokens stream stream_options generationConfig thinkingConfig source data
		output_config format schema response_format json_schema json_schema reasoning effort metadata requests embeddings input_image
		image_url url tool_calls custom functionCallingConfig mode allowedFunctionNames previous_response_id continuationToken`)
	lawTexts = strings.Fields(`user assistant system developer tool model text thinking redacted_thinking tool_use tool_result image
		function custom function_call function_call_output custom_tool_call reasoning message item_reference object OBJECT array string
		input_text output_text input_image image_url base64 auto any ANY json_schema json_object gpt-5.5 claude-opus-5 deepseek-v4-pro
		gemini-3-pro data:image/png;base64,aaaa toolu_1 call_1 rs_1 f adaptive enabled`)
)

func drawJSON(t *rapid.T, depth int) string {
	kind := rapid.IntRange(0, 7).Draw(t, "kind")
	if depth == 0 {
		kind = 0
	}
	switch kind {
	case 1, 2, 3:
		var members []string
		for range rapid.IntRange(0, 5).Draw(t, "members") {
			members = append(members, quote(rapid.SampledFrom(lawNames).Draw(t, "name"))+":"+drawJSON(t, depth-1))
		}
		return "{" + strings.Join(members, ",") + "}"
	case 4, 5:
		var items []string
		for range rapid.IntRange(0, 3).Draw(t, "items") {
			items = append(items, drawJSON(t, depth-1))
		}
		return "[" + strings.Join(items, ",") + "]"
	}
	return rapid.OneOf(
		rapid.Map(rapid.SampledFrom(lawTexts), quote),
		rapid.SampledFrom([]string{"null", "true", "false", "0", "5", "-1", "1.5", "2000", `""`, `" "`, "[]", "{}"}),
	).Draw(t, "value")
}

// Whatever a request holds, the answer is a status, never a panic, and an error has the body of its format.
func TestNoRequestPanics(t *testing.T) {
	s, err := Start(Options{Strict: true, Keep: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	paths := map[string]string{
		"/v1/chat/completions": `"model":"gpt-5.5","messages":%s`,
		"/chat/completions":    `"model":"deepseek-v4-pro","messages":%s`,
		"/v1/responses":        `"model":"gpt-5.5","input":%s`,
		"/v1/messages":         `"model":"claude-opus-4-5","max_tokens":2000,"messages":%s`,
		"/v1beta/models/gemini-3-pro:generateContent":      `"contents":%s`,
		"/v1beta/models/gemini-embedding-001:embedContent": `"content":%s`,
		"/v1/embeddings": `"model":"text-embedding-3-small","input":%s`,
	}
	for path, required := range paths {
		t.Run(path, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				more := drawJSON(t, 4)
				body := "{" + fmt.Sprintf(required, drawJSON(t, 5)) + "}"
				if len(more) > 2 && more[0] == '{' {
					body = body[:len(body)-1] + "," + more[1:]
				}
				r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
				for _, name := range []string{"Authorization", "X-Goog-Api-Key", "X-Api-Key"} {
					r.Header.Set(name, "Bearer x")
				}
				r.Header.Set("Anthropic-Version", "2023-06-01")
				w := httptest.NewRecorder()
				s.http.Handler.ServeHTTP(w, r)
				if w.Code >= 400 && !strings.Contains(w.Body.String(), `"error":{`) {
					t.Fatalf("%d %s", w.Code, w.Body)
				}
			})
		})
	}
}
