package fuzz_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/chat"
	"github.com/mnemeproxy/mneme/codec/gemini"
	"github.com/mnemeproxy/mneme/codec/scan"
	"github.com/mnemeproxy/mneme/fuzz/mutant"
)

// geminiTargets are the two generations of models.
var geminiTargets = []codec.Target{
	{Provider: "gemini", Family: codec.FamilyGoogle, Thinking: codec.ThinkingBudget},
	{Provider: "gemini", Family: codec.FamilyGoogle, Thinking: codec.ThinkingLevel, NeedsSignature: true, ImagesInResults: true, CallIDs: true},
}

// Any request of a client becomes JSON, the same each time, with contents that the API accepts: none is empty, and
// results of tools are alone in theirs.
func FuzzGeminiEncodeRequest(f *testing.F) {
	f.Add([]byte(`{"messages":[{"role":"system","content":"s"},{"role":"user","content":"hi"}],"max_tokens":5,"temperature":0,"stop":"x"}`))
	f.Add([]byte(`{"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"a":{"$ref":"#/$defs/A"}},"$defs":{"A":{"type":"string"}}}}}],` +
		`"tool_choice":"required","messages":[{"role":"user","content":[{"type":"text","text":"q"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AA=="}}]},` +
		`{"role":"assistant","content":"t","tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{\"a\":1.0}"}},{"id":"2","type":"function","function":{"name":"f","arguments":"{"}}]},` +
		`{"role":"tool","tool_call_id":"1","content":"r"},{"role":"tool","tool_call_id":"2","content":[{"type":"text","text":"x"}]},{"role":"user","content":"and?"}]}`))
	f.Add([]byte(`{"messages":[{"role":"assistant","content":""},{"role":"assistant","refusal":"no"},{"role":"developer","content":"d"}],"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object"}}}}`))
	client, provider := chat.Client(), gemini.Provider()
	var r codec.Request
	f.Fuzz(mutant.Each(1000, func(t *testing.T, body []byte) {
		if !scan.Valid(body) {
			return
		}
		for i := range geminiTargets {
			r.Reset()
			if err := client.DecodeRequest(&r, body); err != nil {
				return
			}
			sent, err := written(t, provider, &r, &geminiTargets[i])
			if err != nil {
				return
			}
			checkGeminiContents(t, sent)
		}
	}))
}

func checkGeminiContents(t *testing.T, body []byte) {
	t.Helper()
	before := ""
	for e := scan.Array(scan.Get(body, "contents")); e.Next(); {
		parts, results := 0, 0
		for p := scan.Array(scan.Get(e.Value, "parts")); p.Next(); parts++ {
			if scan.Get(p.Value, "functionResponse") != nil {
				results++
			}
		}
		kind := scan.String(scan.Get(e.Value, "role"))
		if results > 0 {
			kind = "results"
		}
		if parts == 0 || results > 0 && results != parts || kind == before || before == "" && kind == "model" {
			t.Fatalf("a content of %d parts, %d of them results, after %q: %s", parts, results, before, body)
		}
		before = kind
	}
	if before == "" {
		t.Fatalf("no contents: %s", body)
	}
}

// Any schema of a tool becomes JSON that is not much larger, and cleaning that again changes nothing.
func FuzzGeminiSchema(f *testing.F) {
	f.Add([]byte(`{"type":"object","properties":{"a":{"$ref":"#/$defs/A"},"properties":{"const":true}},"required":["a"],"$defs":{"A":{"allOf":[{"$ref":"#/$defs/A"},{"type":"string"}]}}}`))
	f.Add([]byte(`{"properties":{"a":{"exclusiveMinimum":1,"type":"integer","enum":[1,null]},"b":{"$ref":"#/properties/a"}},"definitions":{"\u0041":{"items":[{},true]}}}`))
	provider := gemini.Provider()
	clean := func(t *testing.T, schema []byte) []byte {
		var r codec.Request
		r.Reset()
		r.Messages = []codec.Message{{Role: codec.RoleUser, Parts: []codec.Part{{Kind: codec.PartText, Text: []byte("q")}}}}
		r.Output = codec.OutputFormat{Kind: codec.OutputSchema, Schema: schema}
		out, err := provider.AppendRequest(nil, &r, &geminiTargets[0])
		if err != nil || !scan.Valid(out) {
			t.Fatalf("%s became %s (%v)", schema, out, err)
		}
		return scan.Path(out, "generationConfig", "responseJsonSchema")
	}
	f.Fuzz(mutant.Each(1000, func(t *testing.T, schema []byte) {
		if !scan.Valid(schema) || !scan.IsObject(schema) || len(schema) > 4<<10 {
			return
		}
		once := clean(t, schema)
		if len(once) > 400*len(schema) {
			t.Fatalf("%d bytes became %d", len(schema), len(once))
		}
		if twice := clean(t, once); !bytes.Equal(once, twice) {
			t.Fatalf("cleaned\n%s\nagain\n%s", once, twice)
		}
	}))
}

// The events of a stream do not depend on where the network splits it, and are in the order that encoders rely on.
func FuzzGeminiStreamDecode(f *testing.F) {
	f.Add([]byte("data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"a\",\"thought\":true},{\"text\":\"日\"}]}}],\"responseId\":\"r\"}\r\n\r\n"+
		"data: {\"candidates\":[{\"content\":{\"parts\":[{\"functionCall\":{\"name\":\"f\",\"args\":{\"a\":\n\"x\"}},\"thoughtSignature\":\"QQ==\"}]},\"finishReason\":\"STOP\"}],\"usageMetadata\":{\"promptTokenCount\":3}}\r\n\r\n"), byte(3))
	f.Add([]byte("[{\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"a\"}]}}]}\n,\r\n{\"candidates\":[{\"finishReason\":\"MAX_TOKENS\"}]}\n]"), byte(1))
	f.Add([]byte("data: {\"promptFeedback\":{\"blockReason\":\"SAFETY\"}}\n\n{\"error\":{\"code\":503}}"), byte(9))
	f.Add([]byte("data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"\\u00e9 b\"},{\"executableCode\":{}}]},\"index\":0,\"groundingMetadata\":{\"groundingChunks\":[{\"web\":{\"uri\":\"u\"}}],\"groundingSupports\":[{\"segment\":{\"endIndex\":2},\"groundingChunkIndices\":[0]}]}},{\"index\":1,\"content\":{\"parts\":[{\"text\":\"z\"}]}}]}\n\n"), byte(5))
	f.Fuzz(mutant.Each(1000, func(t *testing.T, stream []byte, cut byte) {
		var whole, cutUp geminiLaw
		all := eventsOf(t, gemini.Provider(), stream, len(stream)+1, whole.take)
		if again := eventsOf(t, gemini.Provider(), stream, int(cut)%64+1, cutUp.take); again != all {
			t.Fatalf("whole:\n%s\nin pieces:\n%s", all, again)
		}
	}))
}

// geminiLaw checks what this codec promises beyond the order of its events: the start is first, one item is open at a
// time, only the end follows an error, and the end is complete exactly after a finish.
type geminiLaw struct {
	started, open, failed, finished bool
}

func (l *geminiLaw) take(ev *codec.Event) error {
	switch {
	case l.failed && ev.Kind != codec.EventEnd:
		return fmt.Errorf("event %d after an error", ev.Kind)
	case !l.started && ev.Kind != codec.EventStart && ev.Kind != codec.EventError && ev.Kind != codec.EventEnd:
		return fmt.Errorf("event %d before the start", ev.Kind)
	}
	switch ev.Kind {
	case codec.EventStart:
		l.started = true
	case codec.EventItemOpen:
		if l.open {
			return fmt.Errorf("item %d opened while another is open", ev.Item)
		}
		l.open = true
	case codec.EventText, codec.EventReasoning, codec.EventSignature, codec.EventArguments, codec.EventAnnotation:
		return checkGeminiRaw(ev)
	case codec.EventItemClose:
		l.open = false
	case codec.EventFinish:
		l.finished = true
	case codec.EventError:
		l.failed = true
	case codec.EventEnd:
		if complete := ev.End == codec.EndTerminal; complete && (!l.finished || l.failed || l.open) || !complete && !l.failed {
			return fmt.Errorf("end %d with finish %v, error %v, an open item %v", ev.End, l.finished, l.failed, l.open)
		}
	}
	return nil
}

func checkGeminiRaw(ev *codec.Event) error {
	switch ev.Kind {
	case codec.EventAnnotation:
		if !scan.Valid(ev.Raw) {
			return fmt.Errorf("not JSON: %s", ev.Raw)
		}
	case codec.EventArguments:
		if object := scan.Unescape(nil, ev.Raw); !scan.IsObject(object) || !scan.Valid(object) {
			return fmt.Errorf("arguments are not an object: %s", object)
		}
	}
	return nil
}

// Any error answer becomes an error with a message that can be shown.
func FuzzGeminiDecodeError(f *testing.F) {
	f.Add(429, []byte(`[{"error":{"code":429,"message":"retry in 3.5s.","status":"RESOURCE_EXHAUSTED","details":[{"@type":"a.RetryInfo","retryDelay":"31.4s"}]}}]`))
	f.Add(500, []byte(`{"error":{"message":"{\"error\":{\"message\":\"{}\"}}"}}`))
	f.Add(400, []byte(`{"error":"x","details":[{"@type":"QuotaFailure","violations":[{"quotaId":7}]}]}`))
	f.Fuzz(mutant.Each(1000, func(t *testing.T, status int, body []byte) {
		err := gemini.Provider().DecodeError(status, 0, body)
		if err.Message == "" || len(err.Message) > 4<<10 || err.RetryAfter < 0 || strings.ContainsAny(err.Message, "\x00\r\n") {
			t.Fatalf("got %q retry %s", err.Message, err.RetryAfter)
		}
	}))
}

// Any request of a client is refused with a reason or becomes JSON for the format's own provider.
func FuzzGeminiDecodeRequest(f *testing.F) {
	for _, seed := range []string{
		`{"contents":[{"parts":[{"text":"a"},{"inlineData":{"mimeType":"image/png","data":"AA=="}},{"file_data":{"file_uri":"https://generativelanguage.googleapis.com/v1beta/files/x"}}]}],"generationConfig":{"maxOutputTokens":1,"topP":0.5,"stopSequences":["x"],"responseMimeType":"application/json","responseSchema":{"type":"OBJECT","nullable":true,"properties":{"a":{"type":"ARRAY","items":{"anyOf":[{}]}}}},"thinkingConfig":{"thinkingBudget":-1,"thinkingLevel":"HIGH"}}}`,
		`{"contents":[{"role":"model","parts":[{"text":"t","thought":true},{"text":"u","thought":true,"thoughtSignature":"c3YxLmEuQUFBQQ=="},{"functionCall":{"name":"f"}},{"functionCall":{"id":"a","name":"g","args":{}}}]},{"role":"model","parts":{"text":"x"}},{"parts":[{"functionResponse":{"name":"g","response":{"error":1},"parts":[{"inlineData":{"data":"AA=="}}]}},{"functionResponse":{"name":"f","response":{"output":"r"}}}]}],"tools":[{"functionDeclarations":[{"name":"f","parameters":{"type":"STRING"}}]},{"googleSearch":{}}],"toolConfig":{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["f"]}}}`,
		`{"generateContentRequest":{"contents":[{"role":"function","parts":["x"]}],"system_instruction":"s"}}`,
	} {
		f.Add([]byte(seed))
	}
	client, provider := gemini.Client(), gemini.Provider()
	var r codec.Request
	f.Fuzz(mutant.Each(1000, func(t *testing.T, body []byte) {
		if !scan.Valid(body) {
			return
		}
		r.Reset()
		if err := client.DecodeRequest(&r, body); err != nil {
			if e := codec.AsError(err, ""); e.Kind != codec.KindInvalidRequest || e.Message == "" {
				t.Fatalf("refused with %v", err)
			}
			return
		}
		for i := range geminiTargets {
			_, _ = written(t, provider, &r, &geminiTargets[i])
		}
	}))
}

// Any events in any order become frames of JSON, and a stream that is one array becomes JSON too.
func FuzzGeminiStreamEncode(f *testing.F) {
	f.Add([]byte{0, 1, 3, 9, 12, 40, 77, 3, 200, 11, 14})
	f.Add([]byte("one two three four five six seven eight"))
	f.Add([]byte{2, 5, 0, 2, 6, 1, 7, 0, 7, 1, 12, 14})
	f.Fuzz(mutant.Each(1000, func(t *testing.T, script []byte) {
		o := codec.AnswerOptions{ID: "01h", Model: "m\"x", ShowReasoning: len(script)%2 == 0}
		encoder := gemini.Client().NewEncoder(&o)
		var stream, whole []byte
		var array gemini.Array
		for _, ev := range chatScript(script) {
			from := len(stream)
			stream = encoder.Append(stream, &ev)
			whole = append(whole, array.Of(stream[from:], false)...)
		}
		whole = append(whole, array.Of(nil, true)...)
		for frame := range bytes.SplitSeq(bytes.TrimSuffix(stream, []byte("\n\n")), []byte("\n\n")) {
			if data, isData := bytes.CutPrefix(frame, []byte("data: ")); len(stream) > 0 && (!isData || !scan.Valid(data)) {
				t.Fatalf("no frame of JSON: %s", frame)
			}
		}
		if len(stream) > 0 && !scan.Valid(whole) {
			t.Fatalf("no array: %s", whole)
		}
	}))
}
