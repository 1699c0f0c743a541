package crossing_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/crossing"
	"github.com/mnemeproxy/mneme/codec/sse"
)

// An answer test says what a provider answers to a request, and what the client gets and does not get to read.
type answerTest struct {
	name    string
	surface codec.Format
	model   string
	body    string // of the request, without the model
	answer  string
	has     []string
	lacks   []string
}

func chatAnswer(message, finish string) string {
	return `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":` + message + `,"finish_reason":"` + finish + `"}],"usage":{"prompt_tokens":900,"completion_tokens":30,"total_tokens":930,"prompt_tokens_details":{"cached_tokens":768},"completion_tokens_details":{"reasoning_tokens":7}}}`
}

func messagesAnswer(content, stop string) string {
	return `{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[` + content + `],"stop_reason":"` + stop + `","stop_sequence":null,"usage":{"input_tokens":132,"cache_read_input_tokens":768,"cache_creation_input_tokens":0,"output_tokens":30}}`
}

func responsesAnswer(output string) string {
	return `{"id":"resp_1","object":"response","status":"completed","model":"m","output":[` + output + `],"usage":{"input_tokens":900,"input_tokens_details":{"cached_tokens":768},"output_tokens":30,"output_tokens_details":{"reasoning_tokens":7},"total_tokens":930}}`
}

func geminiAnswer(parts string) string {
	return `{"candidates":[{"content":{"role":"model","parts":[` + parts + `]},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":900,"cachedContentTokenCount":768,"candidatesTokenCount":23,"thoughtsTokenCount":7,"totalTokenCount":930},"modelVersion":"m","responseId":"g"}`
}

const longName = "mcp__plugin_chrome-devtools-mcp_chrome-devtools__get_console_message"

var answerTests = []answerTest{
	{
		"a long name comes back whole", codec.Messages, gpt, messagesHi + `,"tools":[{"name":"` + longName + `","input_schema":{"type":"object"}}]`,
		`TOOL`,
		[]string{`"type":"tool_use"`, `"name":"` + longName + `"`, `"stop_reason":"tool_use"`},
		nil,
	},
	{
		"a namespace is put together again", codec.Responses, claude, `"input":"hi","tools":[{"type":"namespace","name":"clock","tools":[{"type":"function","name":"sleep","parameters":{"type":"object"}}]}]`,
		messagesAnswer(`{"type":"tool_use","id":"toolu_1","name":"clock__sleep","input":{"ms":5}}`, "tool_use"),
		[]string{`"type":"function_call"`, `"name":"sleep"`, `"namespace":"clock"`},
		[]string{`"clock__sleep"`},
	},
	{
		"a freeform call comes out of its wrapper", codec.Responses, claude, `"input":"hi","tools":[{"type":"custom","name":"patch"}]`,
		messagesAnswer(`{"type":"tool_use","id":"toolu_1","name":"patch","input":{"input":"*** \"x\"\n"}}`, "tool_use"),
		[]string{`"type":"custom_tool_call"`, `"input":"*** \"x\"\n"`},
		[]string{`function_call`},
	},
	{
		"arguments that are no wrapper are the input", codec.Responses, own, `"input":"hi","tools":[{"type":"custom","name":"patch"}]`,
		chatAnswer(`{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"patch","arguments":"*** raw"}}]}`, "tool_calls"),
		[]string{`"type":"custom_tool_call"`, `"input":"*** raw"`},
		nil,
	},
	{
		"a call that stands for a schema is the answer", codec.Chat, "claude-sonnet-4-20250514", `"response_format":{"type":"json_schema","json_schema":{"name":"s","schema":{"type":"object"}}},` + hi,
		messagesAnswer(`{"type":"tool_use","id":"toolu_1","name":"json_response","input":{"a":1}}`, "tool_use"),
		[]string{`"content":"{\"a\":1}"`, `"finish_reason":"stop"`},
		[]string{"tool_calls", "json_response"},
	},
	{
		"the client's own tool of that name stays a tool", codec.Chat, "claude-sonnet-4-20250514", `"response_format":{"type":"json_schema","json_schema":{"name":"s","schema":{"type":"object"}}},"tools":[{"type":"function","function":{"name":"json_response"}}],` + hi,
		messagesAnswer(`{"type":"tool_use","id":"toolu_1","name":"json_response","input":{"a":1}}`, "tool_use"),
		[]string{`"name":"json_response"`, `"finish_reason":"tool_calls"`},
		nil,
	},
	{
		"an emulated stop sequence ends the answer", codec.Messages, gpt, `"stop_sequences":["END"],` + messagesHi,
		responsesAnswer(`{"type":"message","id":"msg_1","role":"assistant","status":"completed","content":[{"type":"output_text","text":"up to EN or END and more","annotations":[]}]}`),
		[]string{`"text":"up to EN or "`, `"stop_reason":"stop_sequence"`, `"stop_sequence":"END"`},
		[]string{"more"},
	},
	{
		"an id that the client cannot take is made again", codec.Messages, own, messagesHi + `,` + messagesTool,
		chatAnswer(`{"role":"assistant","content":null,"tool_calls":[{"id":"functions.f:0","type":"function","function":{"name":"f","arguments":"{}"}}]}`, "tool_calls"),
		[]string{`"id":"toolu_`},
		[]string{"functions.f"},
	},
	{
		"P13 P36 a call without an id gets one, and is a call although Gemini says STOP", codec.Chat, gemini2, chatTool + `,` + hi,
		geminiAnswer(`{"functionCall":{"name":"f","args":{}}}`),
		[]string{`"id":"call_`, `"finish_reason":"tool_calls"`},
		nil,
	},
	{
		"P95 calls decide the reason for stopping", codec.Messages, own, messagesHi + `,` + messagesTool,
		chatAnswer(`{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]}`, "stop"),
		[]string{`"stop_reason":"tool_use"`},
		nil,
	},
	{
		"P95 and none decide it too", codec.Messages, own, messagesHi,
		chatAnswer(`{"role":"assistant","content":"a"}`, "tool_calls"),
		[]string{`"stop_reason":"end_turn"`},
		nil,
	},
	{
		"an answer that was cut off for whatever reason does not look finished", codec.Messages, gpt, messagesHi,
		`{"id":"resp_1","object":"response","status":"incomplete","incomplete_details":{"reason":"steered"},"model":"m","output":[{"type":"message","id":"msg_1","role":"assistant","status":"incomplete","content":[{"type":"output_text","text":"half","annotations":[]}]}]}`,
		[]string{`"text":"half"`, `"stop_reason":"max_tokens"`},
		nil,
	},
	{
		"a call's signature travels in front of it", codec.Messages, gemini, messagesHi + `,` + messagesTool,
		geminiAnswer(`{"functionCall":{"name":"f","args":{}},"thoughtSignature":"Q2lF"}`),
		[]string{`"type":"thinking"`, `"thinking":""`, `"signature":"sv1.g.`, `"type":"tool_use"`},
		[]string{"Q2lF"},
	},
	{
		"and in Google's own member for chat", codec.Chat, gemini, chatTool + `,` + hi,
		geminiAnswer(`{"functionCall":{"name":"f","args":{}},"thoughtSignature":"Q2lF"}`),
		[]string{`"thought_signature":"Q2lF"`},
		[]string{"sv1."},
	},
	{
		"reasoning without a proof bears an empty carrier", codec.Messages, deepseek, messagesHi,
		chatAnswer(`{"role":"assistant","content":"a","reasoning_content":"b"}`, "stop"),
		[]string{`"thinking":"b"`, `"signature":"sv1.x.`},
		nil,
	},
	{
		"P97 P98 usage says the same in another style", codec.Messages, gpt, messagesHi,
		responsesAnswer(`{"type":"message","id":"msg_1","role":"assistant","status":"completed","content":[{"type":"output_text","text":"a","annotations":[]}]}`),
		[]string{`"input_tokens":132`, `"cache_read_input_tokens":768`, `"output_tokens":30`},
		nil,
	},
	{
		"P97 and back", codec.Chat, claude, hi, messagesAnswer(`{"type":"text","text":"a"}`, "end_turn"),
		[]string{`"prompt_tokens":900`, `"cached_tokens":768`},
		nil,
	},
	{
		"P100 thoughts are output", codec.Chat, gemini, hi, geminiAnswer(`{"text":"a"}`), []string{`"completion_tokens":30`, `"reasoning_tokens":7`}, nil,
	},
	{
		"a text without citations has a list of none, which every client reads", codec.Messages, own, messagesHi,
		chatAnswer(`{"role":"assistant","content":"whole"}`, "stop"),
		[]string{`{"type":"text","text":"whole","citations":[]}`},
		[]string{`"citations":null`},
	},
	{
		"P12 a call without a name can be answered", codec.Messages, own, messagesHi + `,` + messagesTool,
		chatAnswer(`{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"","arguments":"{}"}}]}`, "tool_calls"),
		[]string{`"name":"unnamed"`},
		nil,
	},
}

func TestAnswersAreRestored(t *testing.T) {
	for _, c := range answerTests {
		t.Run(c.name+" ("+c.model+" to "+c.surface.String()+")", func(t *testing.T) {
			x, sent, err := prepare(c.surface, c.model, `{"model":"`+c.model+`",`+c.body+`}`, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer x.Release()
			answer := c.answer
			if answer == "TOOL" { // calls the first tool by the name that it was declared with
				_, rest, _ := strings.Cut(sent, `"tools":[{"type":"function","name":"`)
				name, _, _ := strings.Cut(rest, `"`)
				if len(name) != 64 {
					t.Fatalf("the tool was declared as %q", name)
				}
				answer = responsesAnswer(`{"type":"function_call","id":"fc_1","call_id":"call_1","name":"` + name + `","arguments":"{}","status":"completed"}`)
			}
			heard, _, err := x.Answer(nil, []byte(answer))
			if err != nil {
				t.Fatal(err)
			}
			if !json.Valid(heard) {
				t.Fatalf("not JSON: %s", heard)
			}
			at := 0
			for _, want := range c.has {
				i := strings.Index(string(heard[at:]), want)
				if i < 0 {
					t.Errorf("there is no (further) %s in\n%s", want, heard)
					continue
				}
				at += i + len(want)
			}
			for _, unwanted := range c.lacks {
				if strings.Contains(string(heard), unwanted) {
					t.Errorf("there is %s in\n%s", unwanted, heard)
				}
			}
		})
	}
}

// The digest takes a translated answer as it was written instead of reading it again, which must not make a difference.
func TestATranslatedTextIsReadAsItWasWritten(t *testing.T) {
	bodies := map[codec.Format]string{codec.Chat: hi, codec.Messages: messagesHi, codec.Responses: `"input":"hi"`}
	for surface, body := range bodies {
		for _, text := range []string{``, ` `, `All \"is\" well.\n`, `\ud83d\ude00 \ud83d`, `é😀`} {
			for model, answer := range map[string]string{
				own:    chatAnswer(`{"role":"assistant","content":"`+text+`"}`, "stop"),
				claude: messagesAnswer(`{"type":"text","text":"`+text+`"}`, "refusal"),
				gpt:    responsesAnswer(`{"type":"message","id":"msg_1","role":"assistant","status":"completed","content":[{"type":"output_text","text":"` + text + `","annotations":[]}]}`),
				gemini: geminiAnswer(`{"text":"` + text + `","thoughtSignature":"c2lnbg=="}`),
			} {
				x, _, err := prepare(surface, model, `{"model":"`+model+`",`+body+`}`, nil)
				if err != nil {
					t.Fatal(err)
				}
				heard, seen, err := x.Answer(nil, []byte(answer))
				if err != nil {
					t.Fatal(err)
				}
				if said, read := textOf(seen.Answer), textOf(crossing.Fold(surface, heard)); said != read || seen.Answer == nil && text != "" {
					t.Errorf("%s to %s: %q was said, and %q is read of\n%s", model, surface, said, read, heard)
				}
				x.Release()
			}
		}
	}
}

func textOf(a *codec.Answer) (text string) {
	if a == nil {
		return ""
	}
	for i := range a.Items {
		text += string(a.Items[i].Text)
	}
	return text
}

// Everything else is read again: formats differ in how they write it.
func TestATranslatedAnswerOfSeveralPartsIsReadAgain(t *testing.T) {
	x, _, err := prepare(codec.Chat, claude, `{"model":"`+claude+`",`+hi+`}`, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Release()
	_, seen, err := x.Answer(nil, []byte(messagesAnswer(`{"type":"thinking","thinking":"Hm.","signature":"s"},{"type":"text","text":"Well."}`, "end_turn")))
	if err != nil || seen.Answer != nil {
		t.Errorf("%+v is not read again (%v)", seen.Answer, err)
	}
}

// A freeform tool whose joined name another tool bears is sent under a third name, and comes back as what it is.
func TestAFreeformToolOfANamespaceComesBackUnderAnyName(t *testing.T) {
	x, sent, err := prepare(codec.Responses, claude, `{"model":"claude-opus-4-8","input":"hi","tools":[{"type":"function","name":"fs__patch","parameters":{"type":"object"}},{"type":"namespace","name":"fs","tools":[{"type":"custom","name":"patch"}]}]}`, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Release()
	names := regexp.MustCompile(`"name":"(fs__patch_[^"]+)"`).FindStringSubmatch(sent)
	if names == nil {
		t.Fatalf("the name is not told from the other tool's: %s", sent)
	}
	heard, _, err := x.Answer(nil, []byte(messagesAnswer(`{"type":"tool_use","id":"toolu_1","name":"`+names[1]+`","input":{"input":"*** x"}}`, "tool_use")))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"type":"custom_tool_call"`, `"name":"patch"`, `"namespace":"fs"`, `"input":"*** x"`} {
		if !strings.Contains(string(heard), want) {
			t.Errorf("there is no %s in\n%s", want, heard)
		}
	}
}

// The same request makes the same ids, so that a retry changes nothing; the next turn makes others, although the provider
// counts its calls from 0 in each (docs/wire/translation.md#4.2).
func TestMadeIDsAreStableAndUnique(t *testing.T) {
	id := func(history string) string {
		x, _, err := prepare(codec.Chat, gemini2, `{"model":"gemini-2.5-pro","messages":[{"role":"user","content":"a"}`+history+`],`+chatTool+`}`, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer x.Release()
		heard, _, err := x.Answer(nil, []byte(geminiAnswer(`{"functionCall":{"name":"f","args":{}}},{"functionCall":{"name":"f","args":{}}}`)))
		if err != nil {
			t.Fatal(err)
		}
		var answer struct {
			Choices []struct {
				Message struct {
					Calls []struct{ ID string } `json:"tool_calls"`
				}
			}
		}
		if err := json.Unmarshal(heard, &answer); err != nil {
			t.Fatal(err)
		}
		calls := answer.Choices[0].Message.Calls
		if len(calls) != 2 || calls[0].ID == calls[1].ID {
			t.Fatalf("the calls are %v", calls)
		}
		return calls[0].ID
	}
	first := id("")
	if again := id(""); again != first {
		t.Errorf("the same request makes %s and then %s", first, again)
	}
	if next := id(`,` + chatCall(first) + `,` + chatResult(first, "r")); next == first {
		t.Errorf("two turns make the same id %s", next)
	}
}

// A stream that an emulated stop sequence ends says so at once, wherever the deltas are cut, and nothing follows.
func TestAStreamStopsAtItsSequence(t *testing.T) {
	for cut := range len("one END two") {
		x, _, err := prepare(codec.Messages, gpt, `{"model":"gpt-5.5","stream":true,"stop_sequences":["END"],`+messagesHi+`}`, nil)
		if err != nil {
			t.Fatal(err)
		}
		stream := x.Stream()
		before, _ := deltas(t, codec.Responses, false)
		var out []byte
		var sign codec.FrameKind
		frames := before
		for _, piece := range []string{"one END two"[:cut], "one END two"[cut:]} {
			frames = append(frames, fmt.Sprintf(`{"type":"response.output_text.delta","item_id":"msg","output_index":0,"content_index":0,"delta":"%s"}`, piece))
		}
		for _, frame := range append(frames, `{"type":"response.output_text.delta","item_id":"msg","output_index":0,"content_index":0,"delta":"three"}`) {
			if out, sign = stream.Frame(out, &sse.Frame{Data: []byte(frame)}); sign == codec.FrameTerminal {
				break
			}
		}
		text := string(out)
		var heard strings.Builder
		for _, piece := range strings.Split(text, `"type":"text_delta","text":"`)[1:] {
			heard.WriteString(piece[:strings.IndexByte(piece, '"')])
		}
		if sign != codec.FrameTerminal || heard.String() != "one " || !strings.Contains(text, `"stop_sequence":"END"`) || strings.Contains(text, "three") {
			t.Errorf("cut at %d: %q, sign %d\n%s", cut, heard.String(), sign, text)
		}
		x.Release()
	}
}

// What is no answer is an error of the provider's, never an empty success (docs/wire/translation.md#3.1, rule d).
func TestAFailureInACompleteAnswerIsAnError(t *testing.T) {
	x, _, err := prepare(codec.Chat, gemini, `{"model":"gemini-3.8-flash",`+hi+`}`, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Release()
	for _, answer := range []string{
		`{"candidates":[{"finishReason":"MALFORMED_FUNCTION_CALL","index":0}]}`, `{"error":{"code":503,"message":"busy","status":"UNAVAILABLE"}}`, `{}`, `<html>`, ``,
	} {
		_, _, err := x.Answer(nil, []byte(answer))
		var e *codec.Error
		if !errors.As(err, &e) || e.Kind == codec.KindInvalidRequest {
			t.Errorf("%q: %v", answer, err)
		}
	}
}
