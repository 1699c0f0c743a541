package crossing_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/codectest"
	"github.com/mnemeproxy/mneme/codec/crossing"
)

// An agent is a client in the middle of a long task: it sends its whole history with every turn, as coding agents do,
// and adds what it got without looking into it.
type agent struct {
	surface codec.Format
	strict  bool // it would rather be refused than have something left out
	items   []string
}

var surfaces = []codec.Format{codec.Chat, codec.Responses, codec.Messages, codec.Gemini}

func newAgent(surface codec.Format) *agent {
	if surface == codec.Gemini {
		return &agent{surface: surface, items: []string{`{"role":"user","parts":[{"text":"Read all the files."}]}`}}
	}
	return &agent{surface: surface, items: []string{`{"role":"user","content":"Read all the files."}`}}
}

// body is the agent's request: many turns, tools with schemas that are not trivial, reasoning asked for.
func (a *agent) body(model string) string {
	const schema = `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{"path":{"type":"string","maxLength":500},"limit":{"type":"integer","exclusiveMinimum":0}},"required":["path"],"additionalProperties":false}`
	list := strings.Join(a.items, ",")
	switch a.surface {
	case codec.Gemini:
		return `{"systemInstruction":{"parts":[{"text":"You are an agent."}]},"generationConfig":{"thinkingConfig":{"thinkingLevel":"HIGH","includeThoughts":true}},"contents":[` + list + `],"tools":[{"functionDeclarations":[{"name":"fs.read","parametersJsonSchema":` + schema + `}]}]}`
	case codec.Chat:
		return `{"model":"` + model + `","reasoning_effort":"high","messages":[{"role":"system","content":"You are an agent."},` + list + `],"tools":[{"type":"function","function":{"name":"fs.read","parameters":` + schema + `}}]}`
	case codec.Responses:
		extra := `"prompt_cache_key":"k",`
		if a.strict { // not every provider has it
			extra = ""
		}
		return `{"model":"` + model + `","instructions":"You are an agent.","reasoning":{"effort":"high","summary":"auto"},"store":false,"include":["reasoning.encrypted_content"],` + extra + `"input":[` + list + `],"tools":[{"type":"namespace","name":"fs","tools":[{"type":"function","name":"read","parameters":` + schema + `}]},{"type":"custom","name":"patch"}]}`
	default:
		return `{"model":"` + model + `","max_tokens":32000,"thinking":{"type":"adaptive","display":"summarized"},"system":[{"type":"text","text":"x-anthropic-billing-header: cc_version=2.1;` + fmt.Sprint(len(a.items)) + `"},{"type":"text","text":"You are an agent.","cache_control":{"type":"ephemeral"}}],"messages":[` + list + `],"tools":[{"name":"fs__read","input_schema":` + schema + `}]}`
	}
}

const picture = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

// hear takes an answer into the history and answers its calls; every third result is a picture where the format has those.
func (a *agent) hear(answer []byte, turn int) {
	object := func(b []byte) map[string]json.RawMessage {
		var m map[string]json.RawMessage
		_ = json.Unmarshal(b, &m)
		return m
	}
	list := func(b []byte) (l []json.RawMessage) {
		_ = json.Unmarshal(b, &l)
		return l
	}
	text := fmt.Sprintf("package main // %d\\n", turn)
	switch a.surface {
	case codec.Gemini:
		content := object(list(object(answer)["candidates"])[0])["content"]
		var kept, results []string
		for _, part := range list(object(content)["parts"]) {
			if object(part)["thought"] == nil { // most clients drop thoughts
				kept = append(kept, string(part))
			}
			call := object(object(part)["functionCall"])
			if call == nil {
				continue
			}
			media := ""
			if turn%3 == 0 {
				media = `,"parts":[{"inlineData":{"mimeType":"image/png","data":"` + picture + `"}}]`
			}
			results = append(results, `{"functionResponse":{"id":`+string(call["id"])+`,"name":`+string(call["name"])+`,"response":{"output":"`+text+`"}`+media+`}}`)
		}
		a.items = append(a.items, `{"role":"model","parts":[`+strings.Join(kept, ",")+`]}`, `{"role":"user","parts":[`+strings.Join(results, ",")+`]}`)
	case codec.Chat:
		message := object(object(list(object(answer)["choices"])[0])["message"])
		raw, _ := json.Marshal(message)
		a.items = append(a.items, string(raw))
		for _, call := range list(message["tool_calls"]) {
			a.items = append(a.items, `{"role":"tool","tool_call_id":`+string(object(call)["id"])+`,"content":"`+text+`"}`)
		}
	case codec.Responses:
		var results []string
		for _, item := range list(object(answer)["output"]) {
			a.items = append(a.items, string(item))
			if id := object(item)["call_id"]; id != nil {
				output := `"` + text + `"`
				if turn%3 == 0 {
					output = `[{"type":"input_text","text":"` + text + `"},{"type":"input_image","image_url":"data:image/png;base64,` + picture + `"}]`
				}
				kind := strings.Trim(string(object(item)["type"]), `"`) + "_output"
				results = append(results, `{"type":"`+kind+`","call_id":`+string(id)+`,"output":`+output+`}`)
			}
		}
		a.items = append(a.items, results...)
	default:
		content := object(answer)["content"]
		a.items = append(a.items, `{"role":"assistant","content":`+string(content)+`}`)
		var results []string
		for _, block := range list(content) {
			if string(object(block)["type"]) != `"tool_use"` {
				continue
			}
			output := `"` + text + `"`
			if turn%3 == 0 {
				output = `[{"type":"text","text":"` + text + `"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + picture + `"}}]`
			}
			results = append(results, `{"type":"tool_result","tool_use_id":`+string(object(block)["id"])+`,"content":`+output+`,"is_error":false}`)
		}
		a.items = append(a.items, `{"role":"user","content":[`+strings.Join(results, ",")+`]}`, `{"role":"system","content":"<total_tokens>`+fmt.Sprint(1000-turn)+`</total_tokens>"}`)
	}
	switch {
	case turn%10 != 9:
	case a.surface == codec.Gemini:
		a.items = append(a.items, `{"role":"user","parts":[{"text":"Go on, please."}]}`)
	default: // now and then a person says something
		a.items = append(a.items, `{"role":"user","content":"Go on, please."}`)
	}
}

// Opaque state as each family hands it out, unmistakable.
const (
	stateOfAnthropic = "EqQBCkYIBxgCKkBhbnRocm9waWMtc2lnbmF0dXJlLW9mLWEtdHVybg"
	stateOfOpenAI    = "gAAAAABoLW9wZW5haS1lbmNyeXB0ZWQtY29udGVudC1vZi1hLXR1cm4"
	stateOfGoogle    = "Z29vZ2xlLXRob3VnaHQtc2lnbmF0dXJlLW9mLWEtdHVybg"
)

// answerOf is a provider's answer: reasoning with its state, a word, and a call of the tool as the provider knows it.
func answerOf(format codec.Format, tool string, turn int) string {
	arguments := fmt.Sprintf(`{"path":"%d.go","limit": 10}`, turn)
	escaped := strings.ReplaceAll(arguments, `"`, `\"`)
	switch format {
	case codec.Chat:
		return fmt.Sprintf(`{"id":"c%d","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Next.","reasoning_content":"Hm %d.","tool_calls":[{"id":"call_%d","type":"function","function":{"name":"%s","arguments":"%s"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":9,"completion_tokens":9,"total_tokens":18}}`, turn, turn, turn, tool, escaped)
	case codec.Responses:
		return fmt.Sprintf(`{"id":"resp_%d","object":"response","status":"completed","model":"m","output":[{"type":"reasoning","id":"rs_%d","summary":[{"type":"summary_text","text":"Hm %d."}],"encrypted_content":"%s%02d"},{"type":"message","id":"msg_%d","role":"assistant","status":"completed","content":[{"type":"output_text","text":"Next.","annotations":[]}]},{"type":"function_call","id":"fc_%d","call_id":"call_%d","name":"%s","arguments":"%s","status":"completed"}],"usage":{"input_tokens":9,"output_tokens":9,"total_tokens":18}}`, turn, turn, turn, stateOfOpenAI, turn, turn, turn, turn, tool, escaped)
	case codec.Messages:
		return fmt.Sprintf(`{"id":"msg_%d","type":"message","role":"assistant","model":"m","content":[{"type":"thinking","thinking":"Hm %d.","signature":"%s%02d"},{"type":"text","text":"Next."},{"type":"tool_use","id":"toolu_%d","name":"%s","input":%s}],"stop_reason":"tool_use","stop_sequence":null,"usage":{"input_tokens":9,"output_tokens":9}}`, turn, turn, stateOfAnthropic, turn, turn, tool, arguments)
	default:
		return fmt.Sprintf(`{"candidates":[{"content":{"role":"model","parts":[{"text":"Hm %d.","thought":true},{"text":"Next."},{"functionCall":{"name":"%s","args":%s},"thoughtSignature":"%s%02d"}]},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":9,"totalTokenCount":18},"modelVersion":"m","responseId":"g%d"}`, turn, tool, arguments, stateOfGoogle, turn, turn)
	}
}

// The tool's name as the provider got it.
var toolName = regexp.MustCompile(`"name":"(fs[^"]*read)"`)

// failing is what tests and laws have in common.
type failing interface {
	Helper()
	Fatalf(format string, args ...any)
}

// turn sends the history to a model, has it answer, and gives what the provider got to read.
func (a *agent) turn(t failing, model string, n int, ledger crossing.Ledger) string {
	t.Helper()
	_, format := targetOf(model)
	x, sent, err := prepare(a.surface, model, a.body(model), func(s *crossing.Settings) {
		s.Answer.ID = fmt.Sprintf("%026d", n)
		s.Ledger, s.Strict = ledger, a.strict
	})
	if err != nil {
		t.Fatalf("turn %d to %s: %v", n, model, err)
	}
	defer x.Release()
	if !json.Valid([]byte(sent)) {
		t.Fatalf("turn %d to %s is not JSON: %s", n, model, sent)
	}
	tool := toolName.FindStringSubmatch(sent)
	if tool == nil {
		t.Fatalf("turn %d to %s declares no tool: %s", n, model, sent)
	}
	answer, _, err := x.Answer(nil, []byte(answerOf(format, tool[1], n)))
	if err != nil {
		t.Fatalf("turn %d of %s: %v", n, model, err)
	}
	a.hear(answer, n)
	return sent
}

var breakpoint = regexp.MustCompile(`,"cache_control":\{"type":"ephemeral"\}`)

// Law 8, P50, P51 and P62: what a provider has read once it reads again, byte for byte, before what is new, or its
// prompt cache never hits. Breakpoints move with the newest turns; they are not part of what is cached.
func TestEveryTurnBeginsWithTheOneBefore(t *testing.T) {
	for _, surface := range surfaces {
		for _, model := range []string{gpt, gpt4, claude, claude45, gemini, gemini2, deepseek, own, "mistral-large"} {
			if _, format := targetOf(model); format == surface {
				continue
			}
			t.Run(surface.String()+" to "+model, func(t *testing.T) {
				a := newAgent(surface)
				before := ""
				for n := range 30 {
					sent := breakpoint.ReplaceAllString(a.turn(t, model, n, nil), "")
					if prefix := strings.TrimRight(before, `]}`); !strings.HasPrefix(sent, prefix) {
						at := 0
						for at < len(prefix) && at < len(sent) && prefix[at] == sent[at] {
							at++
						}
						t.Fatalf("turn %d differs from the one before at byte %d of %d:\n%.300s\n%.300s", n, at, len(prefix), prefix[max(at-60, 0):], sent[max(at-60, 0):])
					}
					before = sent
				}
			})
		}
	}
}

// Conversations share pools, templates and caches, and go on as if each were alone.
func TestConversationsAtTheSameTimeCrossAsOneAlone(t *testing.T) {
	atOnce := func(name string, alone []string, again func(*testing.T) []string) {
		for n := range 2 {
			t.Run(fmt.Sprintf("%s/%d", name, n), func(t *testing.T) {
				t.Parallel()
				if now := again(t); !slices.Equal(now, alone) {
					t.Error(cmp.Diff(alone, now))
				}
			})
		}
	}
	for name, recorded := range codectest.All(t, "transcripts") {
		atOnce("stream "+name, []string{recorded}, func(t *testing.T) []string { return []string{replay(t, name, recorded)} })
	}
	for _, surface := range surfaces {
		for _, model := range []string{gpt, gpt4, claude, gemini, deepseek} {
			if _, format := targetOf(model); format == surface {
				continue
			}
			converse := func(t *testing.T) (sent []string) {
				a := newAgent(surface)
				for n := range 4 {
					sent = append(sent, a.turn(t, model, n, nil))
				}
				return sent
			}
			atOnce(surface.String()+" to "+model, converse(t), converse)
		}
	}
}

// Law 9: whatever models a conversation wanders through, no provider reads a carrier, or state of another family; and
// its own state comes back to it.
func TestStateReachesNobodyElse(t *testing.T) {
	states := map[codec.Family]string{
		codec.FamilyAnthropic: stateOfAnthropic, codec.FamilyOpenAI: stateOfOpenAI, codec.FamilyGoogle: stateOfGoogle,
	}
	rapid.Check(t, func(t *rapid.T) {
		surface := rapid.SampledFrom(surfaces).Draw(t, "surface")
		var models []string
		for _, model := range []string{gpt, claude, gemini, deepseek, own} {
			if _, format := targetOf(model); format != surface {
				models = append(models, model)
			}
		}
		a := newAgent(surface)
		visited := make(map[string]int)
		for n := range rapid.IntRange(2, 6).Draw(t, "turns") {
			model := rapid.SampledFrom(models).Draw(t, "model")
			target, format := targetOf(model)
			sent := a.turn(t, model, n, nil)
			if strings.Contains(sent, "sv1.") {
				t.Fatalf("a carrier reaches %s: %s", model, sent)
			}
			for family, state := range states {
				got := strings.Count(sent, state)
				if family != target.Family && got > 0 {
					t.Fatalf("state of %s reaches %s: %s", family, model, sent)
				}
				if family == target.Family && format != codec.Chat && got != visited[model] {
					t.Fatalf("%d of %d pieces of its own state come back to %s: %s", got, visited[model], model, sent)
				}
			}
			visited[model]++
		}
	})
}

// Gemini proves a turn on its call, not on the thoughts before it, and does not want these back: leaving them out is no
// loss that a strict client has to be told of. What another family thought is.
func TestAStrictClientGoesOnWithWhatGeminiThought(t *testing.T) {
	for _, surface := range []codec.Format{codec.Messages, codec.Responses} {
		a := newAgent(surface)
		a.strict = true
		for n := range 4 {
			a.turn(t, gemini, n, nil)
		}
		x, _, err := prepare(surface, gemini, strings.Replace(a.body(gemini), "Hm 1.", "Ho 1.", 1), nil)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(x.Notes(), "dropped") {
			t.Errorf("%s: own thoughts are called dropped: %s", surface, x.Notes())
		}
		x.Release()

		a.strict = false
		a.turn(t, claude, 4, nil)
		x, _, err = prepare(surface, gemini, a.body(gemini), nil)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(x.Notes(), "dropped=") {
			t.Errorf("%s: what Claude thought is not called dropped: %s", surface, x.Notes())
		}
		x.Release()
	}
}
