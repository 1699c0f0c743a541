package responses_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	sdk "github.com/openai/openai-go/v3/responses"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/codectest"
	"github.com/mnemeproxy/mneme/codec/responses"
)

// answers are the provider's frames of the transcripts that end well.
func answers(t *testing.T) map[string][]string {
	t.Helper()
	all := make(map[string][]string)
	for name, story := range codectest.All(t, "stream") {
		all[name] = codectest.Inputs(story)
	}
	return all
}

// decode plays frames to a decoder; the events own nothing, so each frame's are handed on before the next.
func decode(frames []string, take func(*codec.Event)) {
	dec := responses.Provider().NewDecoder()
	var events []codec.Event
	for _, frame := range frames {
		events = dec.Decode(events[:0], nil, []byte(frame))
		for i := range events {
			take(&events[i])
		}
	}
	events = dec.Finish(events[:0], codec.EndEOF, nil)
	for i := range events {
		take(&events[i])
	}
}

// served lets the official SDK ask a server that answers with that body.
func served(t *testing.T, contentType string, body []byte) openai.Client {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		_, _ = w.Write(body)
	}))
	t.Cleanup(server.Close)
	return openai.NewClient(option.WithBaseURL(server.URL), option.WithAPIKey("test"), option.WithMaxRetries(0))
}

// outline is what a person would compare of a response.
func outline(r *sdk.Response) []string {
	lines := []string{
		fmt.Sprintf("%s %s %s %s", r.ID, r.Model, r.Status, r.IncompleteDetails.Reason),
		fmt.Sprintf("usage %d %d %d %d %d", r.Usage.InputTokens, r.Usage.InputTokensDetails.CachedTokens,
			r.Usage.OutputTokens, r.Usage.OutputTokensDetails.ReasoningTokens, r.Usage.TotalTokens),
	}
	for _, it := range r.Output {
		lines = append(lines, it.RawJSON())
	}
	return lines
}

func TestTheOfficialSDKFoldsTheStreamToTheCompleteAnswer(t *testing.T) { // P26
	for name, frames := range answers(t) {
		t.Run(name, func(t *testing.T) {
			var (
				events []byte
				answer codec.Answer
			)
			enc := responses.Client().NewEncoder(options())
			decode(frames, func(ev *codec.Event) {
				events = enc.Append(events, ev)
				answer.Add(ev)
			})
			if answer.Err != nil {
				t.Skip("an answer that failed is an HTTP error when it is not streamed")
			}
			whole := responses.Client().AppendAnswer(nil, &answer, options())

			client := served(t, "application/json", whole)
			want, err := client.Responses.New(context.Background(), sdk.ResponseNewParams{Model: "m"})
			if err != nil {
				t.Fatal(err)
			}
			client = served(t, "text/event-stream", events)
			stream := client.Responses.NewStreaming(context.Background(), sdk.ResponseNewParams{Model: "m"})
			var (
				folded sdk.ResponseAccumulator
				last   sdk.Response
				items  []string
			)
			for stream.Next() {
				ev := stream.Current()
				var event sdk.ResponsesServerEventUnion // the accumulator takes the union of the WebSocket
				if err := event.UnmarshalJSON([]byte(ev.RawJSON())); err != nil {
					t.Fatal(err)
				}
				if err := folded.AddEvent(event); err != nil {
					t.Fatalf("the accumulator refuses %s: %v", ev.Type, err)
				}
				switch ev.Type {
				case "response.output_item.done":
					items = append(items, ev.Item.RawJSON())
				case "response.completed", "response.incomplete":
					last = ev.Response
				}
			}
			if err := stream.Err(); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(outline(want), outline(&last)); diff != "" {
				t.Errorf("the terminal event is not the complete answer: %s", diff)
			}
			if again, err := folded.ReconstructedResponse(); err != nil {
				t.Errorf("the accumulator cannot fold the stream: %v", err)
			} else if diff := cmp.Diff(outline(want)[2:], outline(again)[2:]); diff != "" {
				t.Errorf("the accumulator folds the stream to another answer: %s", diff)
			}
			if got, text := folded.Snapshot().OutputText(), want.OutputText(); got != text {
				t.Errorf("the deltas make %q, the answer says %q", got, text)
			}
			finished := 0
			for _, item := range want.Output {
				if item.CallID == "" || item.Status != "incomplete" { // a call that was cut off is never done
					finished++
				}
			}
			if len(items) != finished {
				t.Errorf("%d items were done, the answer has %d", len(items), finished)
			}
		})
	}
}

func TestACompleteAnswerMeansWhatItsStreamMeans(t *testing.T) {
	fold := func(events []codec.Event) codec.Answer {
		var a codec.Answer
		for i := range events {
			a.Add(&events[i])
		}
		return a
	}
	for name, frames := range answers(t) {
		last := frames[len(frames)-1]
		if !strings.Contains(last, `"output":[`) || name == "worked_example" {
			continue // its terminal event does not hold all items
		}
		t.Run(name, func(t *testing.T) {
			var streamed codec.Answer
			decode(frames, func(ev *codec.Event) { streamed.Add(ev) })
			_, body, _ := strings.Cut(last, `"response":`)
			whole := fold(responses.Provider().DecodeAnswer(nil, []byte(strings.TrimSuffix(body, "}")), ""))
			if streamed.Finish != whole.Finish || streamed.Usage != whole.Usage || len(streamed.Items) != len(whole.Items) {
				t.Errorf("streamed %+v\nwhole %+v", streamed, whole)
			}
			for i := range whole.Items {
				if got, want := string(whole.Items[i].Text), string(streamed.Items[i].Text); got != want {
					t.Errorf("item %d: %q, streamed %q", i, got, want)
				}
			}
		})
	}
}

func TestAnswersThatAreNone(t *testing.T) {
	cases := map[string]struct {
		body string
		kind codec.Kind
		want string
	}{
		"a page":            {`<html>`, codec.KindUpstream, "cannot be read"},
		"an error":          {`{"error":{"message":"No.","type":"invalid_request_error","code":null}}`, codec.KindInvalidRequest, "No."},
		"a failed response": {`{"id":"resp_1","status":"failed","output":[],"error":{"code":"rate_limit_exceeded","message":"Slow."}}`, codec.KindRateLimited, "Slow."},
		"one in progress":   {`{"id":"resp_1","status":"in_progress","output":[]}`, codec.KindUpstream, "without completing"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var a codec.Answer
			for _, ev := range responses.Provider().DecodeAnswer(nil, []byte(c.body), "") {
				a.Add(&ev)
			}
			if a.Err == nil || a.Err.Kind != c.kind || !strings.Contains(a.Err.Message, c.want) || a.End != codec.EndBroken {
				t.Errorf("got %v, end %d", a.Err, a.End)
			}
		})
	}
}

// What is copied out of an answer is valid JSON text, and the whole answer is JSON, also where it repeats its request.
func TestAnswersAreValidatedWhereTheyAreRead(t *testing.T) {
	const item = `{"type":"message","id":"m","role":"assistant","content":[{"type":"output_text","text":"%"}]}`
	answer := func(instructions, tools, text string) string {
		return `{"id":"r","status":"completed","instructions":"` + instructions + `","tools":[` + tools + `],"output":[` +
			strings.Replace(item, "%", text, 1) + `]}`
	}
	long := strings.Repeat(`{"type":"function","name":"f"},`, 20)
	for name, c := range map[string]struct {
		body string
		good bool
	}{
		"whole":                       {answer(`a\n`, long+`{}`, `b\u00e9`), true},
		"an invalid escape, unread":   {answer(`a\q`, long+`{}`, `b`), true},
		"an invalid escape":           {answer(`a`, long+`{}`, `b\q`), false},
		"a line feed in a string":     {answer(`a`, long+`{}`, "b\n"), false},
		"tools with a comma too many": {answer(`a`, long, `b`), false},
		"tools without an end":        {answer(`a`, long+`{"a":[}`, `b`), false},
		"no UTF-8":                    {answer("\xff", long+`{}`, `b`), false},
	} {
		for _, way := range []string{"complete", "streamed"} {
			var a codec.Answer
			var events []codec.Event
			if way == "complete" {
				events = responses.Provider().DecodeAnswer(nil, []byte(c.body), "")
			} else {
				events = responses.Provider().NewDecoder().Decode(nil, nil, []byte(`{"type":"response.completed","response":`+c.body+`}`))
			}
			for i := range events {
				a.Add(&events[i])
			}
			if good := a.Err == nil && len(a.Items) == 1; good != c.good {
				t.Errorf("%s, %s: %v, %d items", name, way, a.Err, len(a.Items))
			}
		}
	}
}
