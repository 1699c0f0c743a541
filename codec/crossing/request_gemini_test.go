package crossing_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/mnemeproxy/mneme/codec"
)

// geminiWords are values that use the words of Gemini's requests where they belong, and where they mean nothing.
func geminiWords(depth int) *rapid.Generator[string] {
	leaf := rapid.SampledFrom([]string{`"user"`, `"model"`, `"f"`, `""`, "null", "1", "-1", "true", `"OBJECT"`, `"application/json"`, `"image/png"`, `"aGk="`, `"c3YxLmEu"`, `"ANY"`, `"HIGH"`, `"\ud83d\ude00"`})
	if depth == 0 {
		return leaf
	}
	return rapid.Custom(func(t *rapid.T) string {
		inner := geminiWords(depth - 1)
		switch rapid.IntRange(0, 3).Draw(t, "kind") {
		case 0:
			return leaf.Draw(t, "leaf")
		case 1:
			return "[" + strings.Join(rapid.SliceOfN(inner, 0, 3).Draw(t, "list"), ",") + "]"
		}
		name := rapid.SampledFrom([]string{
			"role", "parts", "text", "thought", "thoughtSignature", "functionCall", "functionResponse", "id", "name", "args", "response", "inlineData", "mimeType", "data",
			"fileData", "fileUri", "functionDeclarations", "parameters", "type", "nullable", "properties", "items", "mode", "allowedFunctionNames", "functionCallingConfig",
			"thinkingConfig", "thinkingBudget", "thinkingLevel", "maxOutputTokens", "responseMimeType", "responseSchema", "stopSequences", "output", "error", `quo\"ted`,
		})
		members := make([]string, rapid.IntRange(0, 5).Draw(t, "members"))
		for i := range members {
			members[i] = `"` + name.Draw(t, "name") + `":` + inner.Draw(t, "value")
		}
		return "{" + strings.Join(members, ",") + "}"
	})
}

func TestAnyRequestOfGeminisClientsBecomesJSONOrAnError(t *testing.T) {
	value := geminiWords(4)
	rapid.Check(t, func(t *rapid.T) {
		contents := fmt.Sprintf(`[{"role":"user","parts":[{"text":"Hi"},%s]},{"role":"model","parts":[%s,%s]},{"role":"user","parts":[%s]},{"role":"user","parts":[{"text":"Go on"}]}]`,
			value.Draw(t, "a"), value.Draw(t, "b"), value.Draw(t, "c"), value.Draw(t, "d"))
		body := fmt.Sprintf(`{"contents":%s,"systemInstruction":%s,"tools":[{"functionDeclarations":[%s]}],"toolConfig":%s,"generationConfig":%s}`,
			contents, value.Draw(t, "system"), value.Draw(t, "tool"), value.Draw(t, "config"), value.Draw(t, "generation"))
		for _, model := range []string{gpt, gpt4, claude, deepseek} {
			x, sent, err := prepare(codec.Gemini, model, body, nil)
			if err != nil {
				if e := codec.AsError(err, "no error of ours"); e.Kind != codec.KindInvalidRequest {
					t.Fatalf("%s: %v of %s", model, err, body)
				}
				continue
			}
			x.Release()
			if !json.Valid([]byte(sent)) {
				t.Fatalf("%s: %s\nof %s", model, sent, body)
			}
		}
	})
}
