package crossing_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/codec"
)

// State that a host passes on for the models of others, in reasoning_details, comes back to that host as it was
// (docs/wire/translation.md#5.3), and goes nowhere else.
func TestAHostGetsTheReasoningDetailsBackThatItSent(t *testing.T) {
	const (
		thought   = `{"type":"reasoning.text","text":"T","format":"google-gemini-v1","index":0}`
		encrypted = `{"type":"reasoning.encrypted","data":"ENC+/=","id":"call_1","format":"google-gemini-v1","index":1}`
		signed    = `{"type":"reasoning.text","text":"T","signature":"S1G","format":"anthropic-claude-v1","index":0}`
		summary   = `{"type":"reasoning.summary","summary":"T","format":"openai-responses-v1","index":0}`
		openai    = `{"type":"reasoning.encrypted","data":"gAAAA","id":"rs_1","format":"openai-responses-v1","index":0}`
	)
	call := `"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"f","arguments":"{\"path\":\"a\"}"}}]`
	for name, c := range map[string]struct {
		deltas []string
		whole  string // reasoning_details of the whole answer
		want   []string
	}{
		"Gemini": {
			[]string{`{"reasoning_details":[` + thought + `]}`, `{"reasoning_details":[` + encrypted + `],` + call + `}`},
			thought + `,` + encrypted,
			[]string{thought, encrypted},
		},
		"Claude": {
			[]string{`{"reasoning":"T","reasoning_details":[{"type":"reasoning.text","text":"T","format":"anthropic-claude-v1","index":0}]}`, `{"reasoning_details":[{"type":"reasoning.text","signature":"S1G","format":"anthropic-claude-v1","index":0}]}`, `{` + call + `}`},
			signed,
			[]string{signed},
		},
		"GPT": {
			[]string{`{"reasoning_details":[` + summary + `]}`, `{"reasoning_details":[` + openai + `]}`, `{` + call + `}`},
			summary + `,` + openai,
			[]string{summary, openai},
		},
	} {
		for _, surface := range []codec.Format{codec.Messages, codec.Responses} {
			t.Run(name+" for "+surface.String(), func(t *testing.T) {
				body := strings.Replace(askForCalls[surface], "HISTORY", "", 1)
				if surface == codec.Responses {
					body += `,"include":["reasoning.encrypted_content"]`
				}
				x, _, err := prepare(surface, own, `{"model":"own-model",`+body+`}`, nil)
				if err != nil {
					t.Fatal(err)
				}
				whole, _, err := x.Answer(nil, []byte(chatAnswer(`{"role":"assistant","content":null,"reasoning_details":[`+c.whole+`],`+strings.Replace(call, `"index":0,`, "", 1)+`}`, "tool_calls")))
				x.Release()
				if err != nil {
					t.Fatal(err)
				}
				streamed := heard(t, surface, own, body, chatFrames("tool_calls", c.deltas...)...)
				for form, answer := range map[string]string{"whole": string(whole), "streamed": foldOf(t, surface, streamed)} {
					again := strings.Replace(askForCalls[surface], "HISTORY", echo(t, surface, answer), 1)
					x, sent, err := prepare(surface, own, `{"model":"own-model",`+again+`}`, nil)
					if err != nil {
						t.Fatal(err)
					}
					if got := detailsIn(t, sent); !sameJSON(t, got, c.want) {
						t.Errorf("%s: the host gets back %s\ninstead of %s\n%s", form, got, c.want, sent)
					}
					if strings.Contains(x.Notes(), "dropped") {
						t.Errorf("%s: %s", form, x.Notes())
					}
					x.Release()
					for _, other := range []string{claude, gemini, gpt, deepseek, "own-model-2"} {
						if _, format := targetOf(other); format == surface {
							continue
						}
						x, sent, err := prepare(surface, other, `{"model":"`+other+`",`+again+`}`, nil)
						if err != nil {
							t.Fatal(err)
						}
						x.Release()
						for _, state := range []string{"ENC+", "S1G", "gAAAA", "reasoning_details"} {
							if strings.Contains(sent, state) {
								t.Errorf("%s: %s gets %s:\n%s", form, other, state, sent)
							}
						}
					}
				}
			})
		}
	}
}

// foldOf is the complete answer that a stream makes, as far as echo needs it.
func foldOf(t *testing.T, surface codec.Format, stream string) string {
	t.Helper()
	var blocks []json.RawMessage
	for line := range strings.Lines(stream) {
		data, isData := strings.CutPrefix(line, "data: ")
		if !isData {
			continue
		}
		var frame struct {
			Type  string
			Index int
			Block map[string]any `json:"content_block"`
			Delta any
			Item  json.RawMessage
		}
		if err := json.Unmarshal([]byte(data), &frame); err != nil {
			t.Fatal(err)
		}
		switch frame.Type {
		case "response.output_item.done":
			blocks = append(blocks, frame.Item)
		case "content_block_start":
			raw, _ := json.Marshal(frame.Block)
			blocks = append(blocks, raw)
		case "content_block_delta":
			var block map[string]any
			_ = json.Unmarshal(blocks[frame.Index], &block)
			delta, _ := frame.Delta.(map[string]any)
			for name, value := range delta {
				if text, isText := value.(string); isText && name != "type" && name != "partial_json" {
					before, _ := block[name].(string)
					block[name] = before + text
				}
			}
			blocks[frame.Index], _ = json.Marshal(block)
		}
	}
	list, _ := json.Marshal(blocks)
	if surface == codec.Responses {
		return `{"output":` + string(list) + `}`
	}
	return `{"content":` + string(list) + `}`
}

// echo is the history that a client makes of an answer with the call call_1.
func echo(t *testing.T, surface codec.Format, answer string) string {
	t.Helper()
	var said struct{ Content, Output []json.RawMessage }
	if err := json.Unmarshal([]byte(answer), &said); err != nil {
		t.Fatalf("%v: %s", err, answer)
	}
	list, _ := json.Marshal(append(said.Content, said.Output...))
	if surface == codec.Responses {
		return `,` + strings.Trim(string(list), "[]") + `,{"type":"function_call_output","call_id":"call_1","output":"r"}`
	}
	return `,{"role":"assistant","content":` + string(list) + `},{"role":"user","content":[{"type":"tool_result","tool_use_id":"call_1","content":"r"}]}`
}

func detailsIn(t *testing.T, body string) (elements []string) {
	t.Helper()
	var sent struct {
		Messages []struct {
			Details []json.RawMessage `json:"reasoning_details"`
		}
	}
	if err := json.Unmarshal([]byte(body), &sent); err != nil {
		t.Fatal(err)
	}
	for _, m := range sent.Messages {
		for _, element := range m.Details {
			elements = append(elements, string(element))
		}
	}
	return elements
}

func sameJSON(t *testing.T, got, want []string) bool {
	t.Helper()
	if len(got) != len(want) {
		return false
	}
	for i := range got {
		var a, b map[string]any
		if json.Unmarshal([]byte(got[i]), &a) != nil || json.Unmarshal([]byte(want[i]), &b) != nil {
			return false
		}
		one, _ := json.Marshal(a)
		two, _ := json.Marshal(b)
		if !bytes.Equal(one, two) {
			return false
		}
	}
	return true
}
