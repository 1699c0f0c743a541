package gemini_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/gemini"
	"github.com/mnemeproxy/mneme/codec/statetoken"
)

func decodeClient(t *testing.T, body string) *codec.Request {
	t.Helper()
	r := new(codec.Request)
	r.Reset()
	if err := gemini.Client().DecodeRequest(r, []byte(body)); err != nil {
		t.Fatalf("%v, of %s", err, body)
	}
	return r
}

// told is what a request's conversation says, one line for each message.
func told(r *codec.Request) (lines []string) {
	for _, m := range r.Messages {
		line := map[codec.Role]string{codec.RoleUser: "user", codec.RoleAssistant: "model", codec.RoleTool: "tool"}[m.Role]
		for _, p := range m.Parts {
			switch p.Kind {
			case codec.PartText:
				line += fmt.Sprintf(" %q", p.Text)
			case codec.PartReasoning:
				line += fmt.Sprintf(" thought(%s|%.6s)", p.Text, p.Signature)
			case codec.PartToolCall:
				line += fmt.Sprintf(" %s=%s%s", p.CallID, p.Name, p.Arguments)
			case codec.PartToolResult:
				word := "got"
				if p.Failed {
					word = "failed"
				}
				line += fmt.Sprintf(" %s(%s", word, p.CallID)
				for _, part := range p.Parts {
					line += fmt.Sprintf(" %s%s%s", part.Text, part.MediaType, part.Data)
				}
				line += ")"
			case codec.PartImage, codec.PartDocument, codec.PartAudio:
				line += fmt.Sprintf(" media%d(%s %s%s%s)", p.Kind-codec.PartImage, p.MediaType, p.Data, p.URL, p.FileID)
			default:
				line += fmt.Sprintf(" %d(%s)", p.Kind, p.WireType)
			}
		}
		lines = append(lines, line)
	}
	return lines
}

func TestAClientsConversationIsRead(t *testing.T) {
	cases := map[string]struct {
		contents string
		want     []string
	}{
		"text without a role":        {`[{"parts":[{"text":"Hi"},{"text":"there"}]}]`, []string{`user "Hi" "there"`}},
		"one part without a list":    {`[{"role":"user","parts":{"text":"Hi"}}]`, []string{`user "Hi"`}},
		"one content without a list": {`{"role":"user","parts":{"text":"Hi"}}`, []string{`user "Hi"`}},
		"media in the URL alphabet, as the SDK for Python writes it, and without padding": {
			`[{"role":"user","parts":[{"inlineData":{"mimeType":"image/png","data":"ab-_"}},{"inlineData":{"mimeType":"image/png","data":"ab-_cd"}},{"inlineData":{"mimeType":"image/png","data":"abc"}},
			  {"inlineData":{"mimeType":"image/png","data":"ab+\/cd\u003d="}}]}]`,
			[]string{`user media0(image/png ab+/) media0(image/png ab+/cd==) media0(image/png abc=) media0(image/png ab+\/cd\u003d=)`},
		},
		"a file in a bucket of Google's": {
			`[{"role":"user","parts":[{"fileData":{"mimeType":"image/png","fileUri":"gs://b/a.png"}}]}]`, []string{`user media0(image/png gs://b/a.png)`},
		},
		"calls and results with ids": {
			`[{"role":"model","parts":[{"functionCall":{"id":"a","name":"f","args":{"x":1}}},{"functionCall":{"id":"b","name":"f","args":{}}}]},
			  {"role":"user","parts":[{"functionResponse":{"id":"b","name":"f","response":{"output":"two"}}},{"functionResponse":{"id":"a","name":"f","response":{"result":"one"}}},{"text":"Go on"}]}]`,
			[]string{`model a=f{"x":1} b=f{}`, `tool got(b two) got(a one)`, `user "Go on"`},
		},
		"calls without ids are numbered, results find them by name": {
			`[{"role":"model","parts":[{"functionCall":{"name":"f"}},{"functionCall":{"name":"g"}},{"functionCall":{"name":"f"}}]},
			  {"role":"function","parts":[{"functionResponse":{"name":"g","response":{"a":1,"b":[2]}}},{"functionResponse":{"name":"f","response":{"error":"no"}}},{"functionResponse":{"name":"f","response":{}}}]},
			  {"role":"model","parts":[{"functionCall":{"name":"f"}}]},{"role":"user","parts":[{"functionResponse":{"name":"f","response":{"output":{"n":1}}}}]}]`,
			[]string{`model call_fn_1=f call_fn_2=g call_fn_3=f`, `tool got(call_fn_2 {\"a\":1,\"b\":[2]}) failed(call_fn_1 no) got(call_fn_3 {})`, `model call_fn_4=f`, `tool got(call_fn_4 {\"n\":1})`},
		},
		"a result without an id belongs to the call that has one": {
			`[{"role":"model","parts":[{"functionCall":{"id":"a","name":"f"}}]},{"role":"user","parts":[{"functionResponse":{"name":"f","response":{"output":"1"}}}]}]`,
			[]string{`model a=f`, `tool got(a 1)`},
		},
		"a turn in pieces, as streams are kept": {
			`[{"role":"model","parts":[{"text":"I "}]},{"role":"model","parts":[{"text":"look."}]},{"role":"model","parts":[{"functionCall":{"id":"a","name":"f"}}]},{"role":"model","parts":[{"functionCall":{"id":"b","name":"g"}}]},{"role":"model","parts":[{"text":""}]},
			  {"role":"user","parts":[{"functionResponse":{"name":"f","response":{"output":"1"}}}]},{"role":"user","parts":[{"functionResponse":{"name":"g","response":{"output":"2"}}}]}]`,
			[]string{`model "I look." a=f b=g`, `tool got(a 1) got(b 2)`},
		},
		"media, in both spellings": {
			`[{"role":"user","parts":[{"inlineData":{"mimeType":"image/png","data":"aaaa"}},{"inline_data":{"mime_type":"application/pdf","data":"bbbb"}},{"inlineData":{"mimeType":"audio/wav","data":"cccc"}},
			  {"fileData":{"mimeType":"image/png","fileUri":"https://example.com/a.png"}},{"fileData":{"fileUri":"https://generativelanguage.googleapis.com/v1beta/files/x"}}]}]`,
			[]string{`user media0(image/png aaaa) media1(application/pdf bbbb) media2(audio/wav cccc) media0(image/png https://example.com/a.png) media1( v1beta/files/x)`},
		},
		"a picture among what a function returned": {
			`[{"role":"model","parts":[{"functionCall":{"id":"a","name":"f"}}]},{"role":"user","parts":[{"functionResponse":{"id":"a","name":"f","response":{"output":"see"},"parts":[{"inlineData":{"mimeType":"image/png","data":"aaaa"}}]}}]}]`,
			[]string{`model a=f`, `tool got(a see image/pngaaaa)`},
		},
		"what only Google has": {
			`[{"role":"model","parts":[{"executableCode":{"language":"PYTHON","code":"1"}},{"novelty":{}}]}]`,
			[]string{fmt.Sprintf(`model %d(executableCode) %d(novelty)`, codec.PartServerTool, codec.PartOpaque)},
		},
		"the signature of another provider's call is none": {
			`[{"role":"model","parts":[{"functionCall":{"id":"a","name":"f"},"thoughtSignature":"skip_thought_signature_validator"}]}]`,
			[]string{`model a=f`},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := told(decodeClient(t, `{"contents":`+c.contents+`}`)); !reflect.DeepEqual(got, c.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

func TestAClientsSettingsAreReadInBothSpellings(t *testing.T) {
	for _, body := range []string{
		`{"contents":[],"systemInstruction":{"parts":[{"text":"Be brief"}]},"toolConfig":{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["f"]}},
		  "generationConfig":{"maxOutputTokens":7,"temperature":0.5,"topP":0.25,"topK":3,"seed":4,"stopSequences":["x"],"candidateCount":2,"responseMimeType":"application/json",
		  "responseSchema":{"type":"OBJECT","properties":{"n":{"type":"STRING","nullable":true,"maxLength":"9"}},"propertyOrdering":["n"]},"thinkingConfig":{"thinkingLevel":"HIGH","includeThoughts":true}},
		  "tools":[{"functionDeclarations":[{"name":"f","description":"d","parameters":{"type":"OBJECT","properties":{"a":{"type":"ARRAY","items":{"type":"INTEGER"}}}}}]},{"googleSearch":{}}]}`,
		`{"contents":[],"system_instruction":{"parts":[{"text":"Be brief"}]},"tool_config":{"function_calling_config":{"mode":"ANY","allowed_function_names":["f"]}},
		  "generation_config":{"max_output_tokens":7,"temperature":0.5,"top_p":0.25,"top_k":3,"seed":4,"stop_sequences":["x"],"candidate_count":2,"response_mime_type":"application/json",
		  "response_schema":{"type":"OBJECT","properties":{"n":{"type":"STRING","nullable":true,"max_length":"9"}},"property_ordering":["n"]},"thinking_config":{"thinking_level":"HIGH","include_thoughts":true}},
		  "tools":[{"function_declarations":[{"name":"f","description":"d","parameters":{"type":"OBJECT","properties":{"a":{"type":"ARRAY","items":{"type":"INTEGER"}}}}}]},{"google_search":{}}]}`,
	} {
		r := decodeClient(t, body)
		got := fmt.Sprintf("%s %d %s %s %s %s %s %d|%d %s|%s %v|%d %s|%d %s %s|%d", r.Instructions[0].Text, r.MaxOutput, r.Temperature, r.TopP, r.TopK, r.Seed, r.Stop[0], r.N,
			r.Output.Kind, r.Output.Schema, r.Reasoning.Effort, r.Reasoning.Visible == codec.True, r.ToolChoice.Mode, r.ToolChoice.Name,
			len(r.Tools), r.Tools[0].Name, r.Tools[0].Schema, r.Tools[1].Kind)
		want := fmt.Sprintf(`Be brief 7 0.5 0.25 3 4 x 2|%d {"type":"object","properties":{"n":{"type":["string","null"],"maxLength":9}}}|high true|%d f|2 f {"type":"object","properties":{"a":{"type":"array","items":{"type":"integer"}}}}|%d`,
			codec.OutputSchema, codec.ChoiceTool, codec.ToolWebSearch)
		if got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		if len(r.Notes.Dropped) > 0 {
			t.Errorf("dropped: %v", r.Notes.Dropped)
		}
	}
}

func TestFilesThatGoogleKeepsAreNoAddresses(t *testing.T) {
	for _, uri := range []string{"https://generativelanguage.googleapis.com/v1beta/files/x", "gs://bucket/a.png"} {
		r := decodeClient(t, `{"contents":[{"parts":[{"fileData":{"mimeType":"image/png","fileUri":"`+uri+`"}}]}]}`)
		if p := r.Messages[0].Parts[0]; len(p.FileID) == 0 || len(p.URL) > 0 {
			t.Errorf("%s is the file %q at %q", uri, p.FileID, p.URL)
		}
	}
}

// Google's own examples write one element without its list.
func TestOneElementIsAListOfOne(t *testing.T) {
	r := decodeClient(t, `{"contents":{"parts":{"text":"Hi"}},"systemInstruction":{"text":"Be brief"},"tools":{"functionDeclarations":{"name":"f"}},"toolConfig":{"functionCallingConfig":{"mode":"any"}}}`)
	if len(r.Messages) != 1 || len(r.Instructions) != 1 || string(r.Instructions[0].Text) != "Be brief" || len(r.Tools) != 1 || string(r.Tools[0].Name) != "f" || r.ToolChoice.Mode != codec.ChoiceRequired {
		t.Errorf("messages %v, instructions %v, tools %v, choice %v", told(r), r.Instructions, r.Tools, r.ToolChoice)
	}
}

func TestAnUnreadableRequestNamesTheMember(t *testing.T) {
	for body, param := range map[string]string{
		`[]`:                                    "",
		`{}`:                                    "contents",
		`{"contents":"Hi"}`:                     "contents",
		`{"contents":["Hi"]}`:                   "contents[0]",
		`{"contents":[{"role":"system"}]}`:      "contents[0].role",
		`{"contents":[],"systemInstruction":7}`: "systemInstruction",
		`{"contents":[],"generationConfig":[]}`: "generationConfig",
		`{"contents":[],"generationConfig":{"maxOutputTokens":-1}}`: "generationConfig.maxOutputTokens",
		`{"contents":[],"generationConfig":{"topP":"high"}}`:        "generationConfig.topP",
	} {
		r := new(codec.Request)
		r.Reset()
		err := gemini.Client().DecodeRequest(r, []byte(body))
		if e := codec.AsError(err, ""); err == nil || e.Kind != codec.KindInvalidRequest || e.Param != param {
			t.Errorf("%s: %v, want an error about %q", body, err, param)
		}
	}
}

// anAnswer says everything that an answer can say, once.
func anAnswer(token []byte) []codec.Event {
	b := func(s string) []byte { return []byte(s) }
	return []codec.Event{
		{Kind: codec.EventStart},
		{Kind: codec.EventItemOpen, Type: codec.ItemReasoning},
		{Kind: codec.EventReasoning, Raw: b("Hm")},
		{Kind: codec.EventReasoning, Raw: b("so"), Sub: 1},
		{Kind: codec.EventSignature, Raw: token},
		{Kind: codec.EventItemClose, Type: codec.ItemReasoning},
		{Kind: codec.EventItemOpen, Type: codec.ItemText, Item: 1},
		{Kind: codec.EventText, Item: 1, Raw: b(`A \"q`)},
		{Kind: codec.EventText, Item: 1, Raw: b(`\"`)},
		{Kind: codec.EventAnnotation, Item: 1, Raw: b(`{"type":"url_citation","url":"https://example.com","title":"T"}`), Origin: codec.Responses},
		{Kind: codec.EventItemClose, Type: codec.ItemText, Item: 1},
		{Kind: codec.EventItemOpen, Type: codec.ItemToolCall, Item: 2, CallID: b("c1"), Name: b("f")},
		{Kind: codec.EventItemOpen, Type: codec.ItemToolCall, Item: 3, CallID: b("c2"), Name: b("g")},
		{Kind: codec.EventArguments, Item: 3, Raw: b(`{}`)},
		{Kind: codec.EventItemClose, Type: codec.ItemToolCall, Item: 3},
		{Kind: codec.EventArguments, Item: 2, Raw: b(`{\"x\":`)},
		{Kind: codec.EventArguments, Item: 2, Raw: b(`1}`)},
		{Kind: codec.EventItemClose, Type: codec.ItemToolCall, Item: 2},
		{Kind: codec.EventItemOpen, Type: codec.ItemImage, Item: 4, Name: b("image/png")},
		{Kind: codec.EventItemClose, Type: codec.ItemImage, Item: 4, Raw: b("aaaa")},
		{Kind: codec.EventFinish, Finish: codec.FinishToolCalls},
		{Kind: codec.EventUsage, Usage: codec.Usage{InputUncached: 5, CacheRead: 3, CacheWrite: 1, Output: 10, Reasoning: 4}},
		{Kind: codec.EventEnd, End: codec.EndTerminal},
	}
}

func token(kind statetoken.Kind) []byte {
	return (&statetoken.Token{Family: codec.FamilyAnthropic, Kind: kind, Raw: []byte("proof")}).Append(nil, "acme")
}

// joinedFrames folds a stream as an SDK does: the parts one after the other, neighboring texts of a kind as one.
func joinedFrames(t *testing.T, stream string) (parts []map[string]any, last map[string]any) {
	t.Helper()
	for frame := range strings.SplitSeq(strings.TrimSuffix(stream, "\n\n"), "\n\n") {
		last = nil
		if err := json.Unmarshal([]byte(strings.TrimPrefix(frame, "data: ")), &last); err != nil {
			t.Fatalf("%v: %s", err, frame)
		}
		content := last["candidates"].([]any)[0].(map[string]any)["content"].(map[string]any)
		for _, part := range content["parts"].([]any) {
			part := part.(map[string]any)
			if text, said := part["text"].(string); said && len(parts) > 0 {
				before := parts[len(parts)-1]
				if earlier, too := before["text"].(string); too && before["thought"] == part["thought"] || text == "" {
					if text != "" {
						before["text"] = earlier + text
					}
					continue
				}
			}
			parts = append(parts, part)
		}
	}
	return parts, last
}

func TestAWholeAnswerIsWhatItsStreamAddsUpTo(t *testing.T) {
	o := &codec.AnswerOptions{ID: "xyz", Model: "claude", ShowReasoning: true}
	var answer codec.Answer
	var stream []byte
	encoder := gemini.Client().NewEncoder(o)
	for _, ev := range anAnswer(token(statetoken.Reasoning)) {
		answer.Add(&ev)
		stream = encoder.Append(stream, &ev)
	}
	parts, last := joinedFrames(t, string(stream))
	var whole map[string]any
	if err := json.Unmarshal(gemini.Client().AppendAnswer(nil, &answer, o), &whole); err != nil {
		t.Fatal(err)
	}
	candidate := whole["candidates"].([]any)[0].(map[string]any)
	got := []any{}
	for _, part := range parts {
		got = append(got, part)
	}
	if want := candidate["content"].(map[string]any)["parts"]; !reflect.DeepEqual(got, want) {
		t.Errorf("streamed %v\nwhole    %v", got, want)
	}
	lastCandidate := last["candidates"].([]any)[0].(map[string]any)
	delete(lastCandidate, "content")
	delete(candidate, "content")
	if !reflect.DeepEqual(last, whole) {
		t.Errorf("the last frame says %v, the whole answer %v", last, whole)
	}
	const counts = `map[cachedContentTokenCount:3 candidatesTokenCount:6 promptTokenCount:9 thoughtsTokenCount:4 totalTokenCount:19]`
	if fmt.Sprint(whole["usageMetadata"]) != counts || candidate["finishReason"] != "STOP" || whole["modelVersion"] != "claude" || whole["responseId"] != "xyz" {
		t.Errorf("the answer ends with %v", whole)
	}
	if calls := fmt.Sprint(got[2], got[3]); !strings.Contains(calls, "args:map[x:1]") || !strings.Contains(fmt.Sprint(got[2]), "id:c1") {
		t.Errorf("the calls are not in their order: %v", calls)
	}
}

func TestProofsOfOtherProvidersComeBackWithWhatFollowedThem(t *testing.T) {
	o := &codec.AnswerOptions{ID: "xyz", Model: "claude", ShowReasoning: true}
	proof := token(statetoken.Reasoning)
	var answer codec.Answer
	answer.Fold(anAnswer(proof))
	var sent struct {
		Candidates []struct {
			Content struct {
				Parts []json.RawMessage `json:"parts"`
			} `json:"content"`
		} `json:"candidates"`
	}
	if err := json.Unmarshal(gemini.Client().AppendAnswer(nil, &answer, o), &sent); err != nil {
		t.Fatal(err)
	}
	kept := sent.Candidates[0].Content.Parts
	for name, parts := range map[string][]json.RawMessage{"with thoughts": kept, "without thoughts, as most clients": kept[1:]} {
		body, _ := json.Marshal(map[string]any{"contents": []any{map[string]any{"role": "model", "parts": parts}}})
		for _, spelled := range []string{string(body), urlAlphabet(string(body))} {
			m := decodeClient(t, spelled).Messages[0]
			if first := m.Parts[0]; first.Kind != codec.PartReasoning || !bytes.Equal(first.Signature, proof) {
				t.Errorf("%s: the turn begins with %d %q, want reasoning with its proof", name, first.Kind, first.Signature)
			}
			for _, p := range m.Parts[1:] {
				if p.Signature != nil {
					t.Errorf("%s: part %d has the signature %q", name, p.Kind, p.Signature)
				}
			}
		}
	}
}

// urlAlphabet spells signatures as SDKs do that keep them as bytes.
func urlAlphabet(body string) string {
	return strings.NewReplacer("+", "-").Replace(body)
}

func TestTokensAreRemovedBeforeGoogleSeesThem(t *testing.T) {
	proof := token(statetoken.Reasoning)
	var answer codec.Answer
	answer.Fold(anAnswer(proof))
	o := &codec.AnswerOptions{ID: "xyz", Model: "claude", ShowReasoning: true}
	whole := gemini.Client().AppendAnswer(nil, &answer, o)
	parts := string(whole[bytes.Index(whole, []byte(`[{"text"`)) : bytes.Index(whole, []byte(`],"role"`))+1])
	body := `{"contents":[{"parts":[{"text":"x"}],"role":"user"}, {"role":"model","parts":` + parts + `}],"labels":{}}`
	c := &codec.Cleaner{Target: &codec.Target{NeedsSignature: true}}
	cleaned := string(gemini.Definition().Clean(c, []byte(body)))
	if !c.Changed || strings.Contains(cleaned, "c3Yx") || !strings.Contains(cleaned, `"text":"A \"q\""}`) || !strings.HasSuffix(cleaned, `"labels":{}}`) {
		t.Errorf("%v: %s", c.Changed, cleaned)
	}
	if mark := string(gemini.Definition().Marks[0]); !strings.Contains(body, mark) {
		t.Errorf("the mark %s is not in the body", mark)
	}
}

func TestAnErrorSaysWhatGooglesClientsRead(t *testing.T) {
	client := gemini.Client()
	for kind, want := range map[codec.Kind]string{
		codec.KindAuthentication: "401 UNAUTHENTICATED", codec.KindPermission: "403 PERMISSION_DENIED", codec.KindInvalidRequest: "400 INVALID_ARGUMENT",
		codec.KindNotFound: "404 NOT_FOUND", codec.KindRateLimited: "429 RESOURCE_EXHAUSTED", codec.KindQuota: "429 RESOURCE_EXHAUSTED",
		codec.KindOverloaded: "503 UNAVAILABLE", codec.KindUpstream: "502 INTERNAL", codec.KindTimeout: "504 DEADLINE_EXCEEDED", codec.Kind(200): "500 INTERNAL",
	} {
		e := &codec.Error{Kind: kind, Message: "m", Code: "some_code", Param: "contents[1]", RetryAfter: 1500 * time.Millisecond}
		var body struct {
			Error struct {
				Code    int
				Message string
				Status  string
				Details []map[string]any
			}
		}
		if err := json.Unmarshal(client.AppendError(nil, e, nil), &body); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%d %s", body.Error.Code, body.Error.Status); got != want || client.Status(e) != body.Error.Code {
			t.Errorf("%s: %s with HTTP %d, want %s", kind, got, client.Status(e), want)
		}
		if said := fmt.Sprint(body.Error.Details); body.Error.Message != "contents[1]: m" || !strings.Contains(said, "SOME_CODE") || !strings.Contains(said, "1.5s") || !strings.Contains(said, "contents[1]") {
			t.Errorf("%s: %+v", kind, body.Error)
		}
	}
	// What this side reads of Google's errors it reads of its own.
	for _, kind := range []codec.Kind{codec.KindQuota, codec.KindRateLimited, codec.KindContextTooLong, codec.KindOverloaded} {
		e := &codec.Error{Kind: kind, Message: "it does not fit", RetryAfter: 2 * time.Second}
		if read := gemini.Provider().DecodeError(client.Status(e), 0, client.AppendError(nil, e, nil)); read.Kind != kind || read.RetryAfter != e.RetryAfter {
			t.Errorf("%s is read back as %s, after %v", kind, read.Kind, read.RetryAfter)
		}
	}
}

func TestAStreamThatBreaksOffEndsWithAnError(t *testing.T) {
	for _, end := range []codec.Event{{Kind: codec.EventEnd, End: codec.EndEOF}, {Kind: codec.EventError, Err: codec.Errorf(codec.KindUpstream, "gone")}} {
		encoder := gemini.Client().NewEncoder(&codec.AnswerOptions{ID: "x", Model: "m"})
		stream := encoder.Append(nil, &codec.Event{Kind: codec.EventItemOpen, Type: codec.ItemText})
		stream = encoder.Append(stream, &codec.Event{Kind: codec.EventText, Raw: []byte("Hel")})
		stream = encoder.Append(stream, &end)
		stream = encoder.Append(stream, &codec.Event{Kind: codec.EventEnd, End: codec.EndTerminal})
		if got := string(stream); strings.Count(got, "data: ") != 2 || !strings.Contains(got, `data: {"error":{"code":502`) || strings.Contains(got, "finishReason") {
			t.Errorf("the stream is %s", got)
		}
	}
}

func TestAPieceOfTextAllocatesNothing(t *testing.T) {
	encoder := gemini.Client().NewEncoder(&codec.AnswerOptions{ID: "x", Model: "m"})
	dst := encoder.Append(make([]byte, 0, 4096), &codec.Event{Kind: codec.EventItemOpen, Type: codec.ItemText})
	piece := codec.Event{Kind: codec.EventText, Raw: []byte("Hello")}
	if n := testing.AllocsPerRun(100, func() { dst = encoder.Append(dst[:0], &piece) }); n > 0 {
		t.Errorf("a piece of text allocates %v times", n)
	}
}

// SDKs that keep each chunk of a stream as a content of its own send thousands; a search through all calls for each result, or a
// copy of the turn for each chunk, would take hours.
func TestATurnInThousandsOfPiecesIsReadOnce(t *testing.T) {
	const pieces = 20_000
	var body strings.Builder
	body.WriteString(`{"contents":[{"role":"model","parts":[{"text":"Hm","thought":true}`)
	body.WriteString(strings.Repeat(`,{"text":"m","thought":true}`, pieces))
	body.WriteString(`]},`)
	for n := range pieces {
		fmt.Fprintf(&body, `{"role":"model","parts":[{"text":" %d"}]},`, n%10)
	}
	for n := range pieces {
		fmt.Fprintf(&body, `{"role":"model","parts":[{"functionCall":{"name":"f%d"}}]},`, n)
	}
	for n := range pieces {
		fmt.Fprintf(&body, `{"role":"user","parts":[{"functionResponse":{"name":"f%d","response":{}}}]},`, pieces-1-n)
	}
	whole := strings.TrimSuffix(body.String(), ",") + `]}`
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r := decodeClient(t, whole)
	runtime.ReadMemStats(&after)
	if taken := after.TotalAlloc - before.TotalAlloc; taken > 60*uint64(len(whole)) {
		t.Errorf("%d bytes are allocated for a body of %d", taken, len(whole))
	}
	if len(r.Messages) != 2 || len(r.Messages[0].Parts) != 2+pieces || len(r.Messages[0].Parts[0].Text) != 2+pieces || len(r.Messages[0].Parts[1].Text) != 2*pieces {
		t.Fatalf("%d messages, the first of %d parts", len(r.Messages), len(r.Messages[0].Parts))
	}
	if first, last := r.Messages[1].Parts[0], r.Messages[0].Parts[1+pieces]; !bytes.Equal(first.CallID, last.CallID) {
		t.Errorf("the first result is of %s, the last call is %s", first.CallID, last.CallID)
	}
}

func TestTheBodyStaysAsItCameWhenPiecesAreJoined(t *testing.T) {
	body := []byte(`{"contents":[{"role":"model","parts":[{"text":"one"}]},{"role":"model","parts":[{"text":" two"}]},{"role":"user","parts":[{"text":"Hi"}]}]}`)
	before := string(body)
	r := new(codec.Request)
	r.Reset()
	if err := gemini.Client().DecodeRequest(r, body); err != nil || string(body) != before || string(r.Messages[0].Parts[0].Text) != "one two" {
		t.Errorf("%v, %s, %s", err, body, r.Messages[0].Parts[0].Text)
	}
}

func TestAnAnswerWithoutEndIsGivenUp(t *testing.T) {
	for name, feed := range map[string]func(codec.StreamEncoder) []byte{
		"arguments": func(e codec.StreamEncoder) (out []byte) {
			e.Append(nil, &codec.Event{Kind: codec.EventItemOpen, Type: codec.ItemToolCall, Name: []byte("f")})
			piece := codec.Event{Kind: codec.EventArguments, Raw: make([]byte, 1<<20)}
			for range 40 {
				out = e.Append(out, &piece)
			}
			return out
		},
		"items": func(e codec.StreamEncoder) (out []byte) {
			for n := range int32(1 << 17) {
				out = e.Append(out, &codec.Event{Kind: codec.EventItemOpen, Type: codec.ItemText, Item: n})
			}
			return out
		},
	} {
		if got := string(feed(gemini.Client().NewEncoder(&codec.AnswerOptions{Model: "m"}))); !strings.HasPrefix(got, `data: {"error":`) || strings.Count(got, "data: ") != 1 {
			t.Errorf("%s: %.200s", name, got)
		}
	}
}

// inBothForms returns the stream of events and the complete answer.
func inBothForms(events []codec.Event) [2]string {
	o := &codec.AnswerOptions{ID: "xyz", Model: "m"}
	encoder := gemini.Client().NewEncoder(o)
	var stream []byte
	var answer codec.Answer
	answer.Fold(events)
	for i := range events {
		stream = encoder.Append(stream, &events[i])
	}
	return [2]string{string(stream), string(gemini.Client().AppendAnswer(nil, &answer, o))}
}

// Clients run every call that they get (P96), so a call is written when it cannot have been cut off.
func TestACallThatWasCutOffIsNotWritten(t *testing.T) {
	for name, c := range map[string]struct {
		arguments string
		finish    codec.FinishReason
		calls     int
		has       string
	}{
		"the limit, in the middle":       {`{\"path\":\"a`, codec.FinishLength, 1, `"finishReason":"MAX_TOKENS"`},
		"the context, in the middle":     {`{`, codec.FinishContext, 1, `"finishReason":"MAX_TOKENS"`},
		"a filter, in the middle":        {`{\"path\":`, codec.FinishFilter, 1, `"finishReason":"SAFETY"`},
		"the limit, after the arguments": {`{\"path\":\"a}\"}`, codec.FinishLength, 2, `"args":{"path":"a}"}`},
		"the limit, without arguments":   {``, codec.FinishLength, 2, `"args":{}`},
		"the model's own mistake":        {`{\"path\":`, codec.FinishToolCalls, 2, `"args":{"_raw":"{\"path\":"}`},
	} {
		events := []codec.Event{
			{Kind: codec.EventStart},
			{Kind: codec.EventItemOpen, Type: codec.ItemToolCall, Item: 0, CallID: []byte("c0"), Name: []byte("f")},
			{Kind: codec.EventItemClose, Type: codec.ItemToolCall, Item: 0},
			{Kind: codec.EventItemOpen, Type: codec.ItemToolCall, Item: 1, CallID: []byte("c1"), Name: []byte("f")},
			{Kind: codec.EventArguments, Item: 1, Raw: []byte(c.arguments)},
			{Kind: codec.EventItemClose, Type: codec.ItemToolCall, Item: 1},
			{Kind: codec.EventFinish, Finish: c.finish},
			{Kind: codec.EventEnd, End: codec.EndTerminal},
		}
		for form, sent := range inBothForms(events) {
			if strings.Count(sent, `"functionCall"`) != c.calls || !strings.Contains(sent, c.has) {
				t.Errorf("%s, form %d: want %d calls and %s in %s", name, form, c.calls, c.has, sent)
			}
		}
	}
}

func TestARefusalInWordsDoesNotEndLikeAnAnswer(t *testing.T) {
	refusal := []codec.Event{
		{Kind: codec.EventStart},
		{Kind: codec.EventItemOpen, Type: codec.ItemRefusal, Item: 0},
		{Kind: codec.EventRefusal, Item: 0, Raw: []byte("No.")},
		{Kind: codec.EventItemClose, Type: codec.ItemRefusal, Item: 0},
		{Kind: codec.EventFinish, Finish: codec.FinishEnd},
		{Kind: codec.EventEnd, End: codec.EndTerminal},
	}
	for form, sent := range inBothForms(refusal) {
		if !strings.Contains(sent, `"text":"No."`) || !strings.Contains(sent, `"finishReason":"SAFETY"`) {
			t.Errorf("form %d: %s", form, sent)
		}
	}
}
