package responses

import (
	"encoding/json"
	"testing"
)

func TestASummaryIsWrittenWithoutCalls(t *testing.T) {
	const user = `{"type":"message","role":"user","content":"Hello"}`
	for body, want := range map[string]any{
		`{"tools":[{"type":"function","name":"look"}],"tool_choice":"required","input":[` + user + `]}`:                                        "none",
		`{"tool_choice":"required","input":[{"type":"additional_tools","tools":[{"type":"custom","name":"exec"}]},` + user + `]}`:              "none",
		`{"input":[` + user + `,{"type":"additional_tools","role":"developer","tools":[{"type":"namespace","name":"functions","tools":[]}]}]}`: "none",
		`{"input":[{"type":"additional_tools","tools":[]},` + user + `]}`:                                                                      nil, // OpenAI refuses a choice without tools
		`{"tools":[],"tool_choice":"auto","input":"Hello"}`:                                                                                    nil,
	} {
		request := AppendSummaryRequest(nil, []byte(body))
		var got map[string]any
		if err := json.Unmarshal(request, &got); err != nil {
			t.Fatalf("%s becomes %s: %v", body, request, err)
		}
		if got["tool_choice"] != want || !AsksForSummary(request) {
			t.Errorf("%s becomes %s, want the tool choice %v", body, request, want)
		}
	}
}
