package digest_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/mnemeproxy/mneme/store/digest"
	"github.com/mnemeproxy/mneme/store/record"
)

func captured(surface, contentType, request, response string) *record.Exchange {
	return &record.Exchange{
		ExchangeInfo: record.ExchangeInfo{Surface: surface, ResponseType: contentType, Status: 200, Outcome: record.OutcomeComplete},
		RawRequest:   []byte(request), RawResponse: []byte(response),
	}
}

func events(lines ...string) string {
	var b strings.Builder
	for _, line := range lines {
		if name, data, named := strings.Cut(line, " "); named && !strings.HasPrefix(line, "{") && line != "[DONE]" {
			fmt.Fprintf(&b, "event: %s\n", name)
			line = data
		}
		fmt.Fprintf(&b, "data: %s\n\n", line)
	}
	return b.String()
}

// The same conversation, captured on each surface, streamed and whole, is digested to the same messages.
var exchanges = map[string]*record.Exchange{
	"chat, whole": captured("chat", "application/json",
		`{"model":"m","messages":[{"role":"system","content":"You count."},{"role":"user","content":[{"type":"text","text":"<system-reminder>be brief</system-reminder>"},{"type":"text","text":"how many?"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAAAAAA"}}]},
		 {"role":"assistant","content":"Let me see.","tool_calls":[{"id":"c1","type":"function","function":{"name":"count","arguments":"{\"of\":\"é\"}"}}]},
		 {"role":"tool","tool_call_id":"c1","content":"three"}]}`,
		`{"id":"x","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"There are 3."},"finish_reason":"stop"}]}`),
	"chat, streamed": captured("chat", "text/event-stream; charset=utf-8",
		`{"model":"m","messages":[{"role":"developer","content":"You count."},{"role":"user","content":[{"type":"text","text":"how many?"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAAAAAA"}}]},
		 {"role":"assistant","content":"Let me see.","tool_calls":[{"id":"c1","type":"function","function":{"name":"count","arguments":"{\"of\":\"\u00e9\"}"}}]},
		 {"role":"tool","tool_call_id":"c1","content":[{"type":"text","text":"three"}]}]}`,
		": alive\n\n"+events(
			`{"id":"x","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"There "}}]}`,
			`{"id":"x","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"content":"are 3."},"finish_reason":"stop"}]}`,
			`[DONE]`)),
	"messages, whole": captured("messages", "application/json",
		`{"model":"m","max_tokens":9,"system":"You count.","messages":[{"role":"user","content":[{"type":"text","text":"how many?"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAAAAAA"}}]},
		 {"role":"assistant","content":[{"type":"text","text":"Let me see."},{"type":"tool_use","id":"c1","name":"count","input":{"of":"é"}}]},
		 {"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"three"},{"type":"text","text":"<system-reminder>hurry</system-reminder>"}]}]}`,
		`{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"There are "},{"type":"text","text":"3."}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}}`),
	"messages, streamed": captured("messages", "text/event-stream",
		`{"model":"m","max_tokens":9,"system":[{"type":"text","text":"You count."}],"messages":[{"role":"user","content":[{"type":"text","text":"how many?","cache_control":{"type":"ephemeral"}},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAAAAAA"}}]},
		 {"role":"assistant","content":[{"type":"thinking","thinking":"","signature":"s"},{"type":"text","text":"Let me see."},{"type":"tool_use","id":"c1","name":"count","input":{"of":"é"}}]},
		 {"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":[{"type":"text","text":"three"}]}]}]}`,
		events(
			`message_start {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"usage":{"input_tokens":1,"output_tokens":1}}}`,
			`content_block_start {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
			`content_block_delta {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"There are 3."}}`,
			`content_block_stop {"type":"content_block_stop","index":0}`,
			`message_delta {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":3}}`,
			`message_stop {"type":"message_stop"}`)),
	"responses, whole": captured("responses", "application/json",
		`{"model":"m","instructions":"You count.","input":[{"role":"user","content":[{"type":"input_text","text":"how many?"},{"type":"input_image","image_url":"data:image/png;base64,AAAAAAAA"}]},
		 {"type":"message","role":"assistant","content":[{"type":"output_text","text":"Let me see."}]},{"type":"function_call","call_id":"c1","name":"count","arguments":"{\"of\":\"é\"}"},
		 {"type":"function_call_output","call_id":"c1","output":"three"}]}`,
		`{"id":"resp_1","object":"response","model":"m","status":"completed","output":[{"type":"message","id":"m1","role":"assistant","status":"completed","content":[{"type":"output_text","text":"There are 3.","annotations":[]}]}]}`),
}

var want = record.Digest{
	Messages: []record.Message{
		{Role: "user", Parts: []record.Part{{Kind: "text", Text: "how many?"}, {Kind: "media", MediaType: "image/png", Bytes: 6}}},
		{Role: "assistant", Parts: []record.Part{{Kind: "text", Text: "Let me see."}, {Kind: "call", CallID: "c1", Name: "count", Arguments: `{"of":"é"}`}}},
		{Role: "tool", Parts: []record.Part{{Kind: "result", CallID: "c1", Text: "three"}}},
	},
	Answer: []record.Message{{Role: "assistant", Parts: []record.Part{{Kind: "text", Text: "There are 3."}}}},
}

func TestAConversationIsTheSameOnEverySurface(t *testing.T) {
	replies := map[string]bool{}
	for name, x := range exchanges {
		t.Run(name, func(t *testing.T) {
			got, err := digest.Exchange(x)
			if err != nil {
				t.Fatal(err)
			}
			replies[got.Reply] = true
			got.Reply, got.Starts = "", nil
			for _, m := range got.Messages {
				for i := range m.Parts {
					if m.Parts[i].Kind == "result" {
						m.Parts[i].Name = "" // known from the call in some formats
					}
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	if len(replies) != 1 || replies[""] {
		t.Errorf("reply keys: %v", replies)
	}
}

func TestAnAnswerIsDigestedAsTheNextRequestRepeatsIt(t *testing.T) {
	first, err := digest.Exchange(captured("messages", "text/event-stream",
		`{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"go"}]}`,
		events(
			`message_start {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"usage":{"input_tokens":1,"output_tokens":1}}}`,
			`content_block_start {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":""}}`,
			`content_block_delta {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"let me"}}`,
			`content_block_stop {"type":"content_block_stop","index":0}`,
			`content_block_start {"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"c1","name":"now","input":{}}}`,
			`content_block_stop {"type":"content_block_stop","index":1}`,
			`message_delta {"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":3}}`,
			`message_stop {"type":"message_stop"}`)))
	if err != nil {
		t.Fatal(err)
	}
	next, err := digest.Exchange(captured("messages", "application/json",
		`{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"go"},{"role":"assistant","content":[{"type":"thinking","thinking":"let me","signature":"s"},{"type":"tool_use","id":"c1","name":"now","input":{}}]},
		 {"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"noon"}]}]}`, `{}`))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first.Answer[0], next.Messages[1]); diff != "" {
		t.Error(diff)
	}
	if first.Reply == "" || first.Reply != next.Reply {
		t.Errorf("reply keys %q and %q", first.Reply, next.Reply)
	}
}

// A client's summary in place of earlier messages is not joined with the words of the person, who asks in the same message.
func TestASummaryOfAClientIsAPartOfItsOwn(t *testing.T) {
	d, err := digest.Exchange(captured("messages", "application/json",
		`{"model":"m","max_tokens":9,"messages":[{"role":"user","content":[{"type":"text","text":"This session is being continued from a previous conversation that ran out of context. It counted."},{"type":"text","text":"Go on."}]}]}`,
		`{"id":"x","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"Three."}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}}`))
	if err != nil || len(d.Messages) != 1 || len(d.Messages[0].Parts) != 2 || d.Messages[0].Parts[1].Text != "Go on." {
		t.Errorf("%+v, %v", d, err)
	}
}

func TestAnAnswerThatBrokeOffIsDigestedAsFarAsItCame(t *testing.T) {
	x := captured("chat", "text/event-stream", `{"model":"m","messages":[{"role":"user","content":"go"}]}`,
		`data: {"id":"x","choices":[{"index":0,"delta":{"content":"half a"}}]}`+"\n\n"+`data: {"id":"x","choi`)
	x.Outcome = record.OutcomeClientClosed
	got, err := digest.Exchange(x)
	if err != nil || len(got.Answer) != 1 || got.Answer[0].Parts[0].Text != "half a" || got.Reply != "" {
		t.Errorf("%+v, %v", got, err)
	}
	x.Status, x.RawResponse = 529, []byte(`{"error":{"message":"busy"}}`)
	if got, err = digest.Exchange(x); err != nil || got.Answer != nil {
		t.Errorf("an error is digested as an answer: %+v, %v", got, err)
	}
}

func TestWhatIsNoRequestIsAnErrorAndVectorsAreNothing(t *testing.T) {
	for _, x := range []*record.Exchange{
		captured("chat", "application/json", `{`, ""), captured("chat", "application/json", `{"model":"m","messages":7}`, ""), captured("telex", "", "{}", ""),
	} {
		if _, err := digest.Exchange(x); err == nil {
			t.Errorf("%s %s is digested", x.Surface, x.RawRequest)
		}
	}
	if got, err := digest.Exchange(captured("embeddings", "application/json", `{"model":"m","input":"x"}`, `{}`)); err != nil || got.Messages != nil {
		t.Errorf("%+v, %v", got, err)
	}
}

// A message of four times as many pieces takes about four times the copying, not sixteen times.
func TestDigestingManyPiecesIsLinear(t *testing.T) {
	cost := func(pieces int) uint64 {
		x := captured("messages", "application/json",
			`{"model":"m","max_tokens":9,"messages":[{"role":"user","content":[`+strings.Repeat(`{"type":"text","text":"one of many lines"},`, pieces-1)+`{"type":"text","text":"the last"}]}]}`,
			`{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[`+strings.Repeat(`{"type":"text","text":"one of many words"},`, pieces-1)+`{"type":"text","text":"!"}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}}`)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		d, err := digest.Exchange(x)
		runtime.ReadMemStats(&after)
		if err != nil || len(d.Messages) != 1 || len(d.Messages[0].Parts) != 1 || len(d.Answer) != 1 || len(d.Answer[0].Parts) != 1 {
			t.Fatalf("%d messages and %d answers, %v", len(d.Messages), len(d.Answer), err)
		}
		return after.TotalAlloc - before.TotalAlloc
	}
	cost(1000) // what is pooled
	if few, many := cost(2000), cost(8000); many > 8*few {
		t.Errorf("2,000 pieces take %d bytes, 8,000 take %d", few, many)
	}
}

// Whatever bytes stand in an answer, digesting gives an answer or an error.
func TestAnyAnswerIsRead(t *testing.T) {
	piece := rapid.SampledFrom([]string{
		"data: ", "event: ", "\n\n", "{", "}", `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"x"}}`, `"choices":[`, "[DONE]", "\xff", ":", "response.completed", `{"choices":[{"delta":{"content":"x"}}]}`,
	})
	rapid.Check(t, func(t *rapid.T) {
		x := captured(rapid.SampledFrom([]string{"chat", "responses", "messages"}).Draw(t, "surface"),
			rapid.SampledFrom([]string{"text/event-stream", "application/json", ""}).Draw(t, "type"),
			`{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"go"}],"input":"go"}`,
			strings.Join(rapid.SliceOf(piece).Draw(t, "answer"), ""))
		if _, err := digest.Exchange(x); err != nil {
			t.Fatal(err)
		}
	})
}
