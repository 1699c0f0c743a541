package published

import (
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/codec"
)

// An answer that is as published, and what is found where it is changed at one place.
func TestWhatIsNotAsPublishedIsFoundWithItsPlace(t *testing.T) {
	const sound = `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"finish_reason":"stop","logprobs":null,` +
		`"message":{"role":"assistant","content":"a","refusal":null,"tool_calls":[{"id":"t","type":"function","function":{"name":"f","arguments":"{}"}}]}}]}`
	if found := Answer(codec.Chat, []byte(sound)); len(found) > 0 {
		t.Fatalf("a sound answer: %q", found)
	}
	for _, c := range []struct{ name, from, to, want string }{
		{"a member that nobody knows", `"created":1`, `"created":1,"novelty":1`, ".novelty: ChatCompletion has no such member"},
		{"a required one that is missing", `"index":0,`, ``, ".choices[0].index: it is required, and missing"},
		{"a value of another kind", `"created":1`, `"created":"now"`, ".created:"},
		{"another constant", `"chat.completion"`, `"chat"`, ".object: it is \"chat\", and always chat.completion"},
		{"an optional one that is null", `"created":1`, `"created":1,"usage":null`, ".usage: it may be missing, but not be null"},
		{"an unknown variant", `"type":"function"`, `"type":"spell"`, ".choices[0].message.tool_calls[0]:"},
		{"inside a variant", `"arguments":"{}"`, `"argument":"{}"`, ".choices[0].message.tool_calls[0].function.arguments: it is required, and missing"},
		{"no list", `"choices":[`, `"choices":1,"others":[`, ".choices: 1 is no list"},
	} {
		t.Run(c.name, func(t *testing.T) {
			found := Answer(codec.Chat, []byte(strings.Replace(sound, c.from, c.to, 1)))
			if len(found) == 0 || !strings.HasPrefix(found[0], c.want) {
				t.Errorf("found is %q, want %q", found, c.want)
			}
		})
	}
}

// A response holds what Open Responses requires, complete and in events.
func TestWhatOpenResponsesRequiresIsMissed(t *testing.T) {
	const lacks = `{"reasoning":{"effort":null},"text":{},"store":null,"tools":[{"type":"function","name":"f"},{"type":"custom","name":"c"}]}`
	for _, found := range [][]string{Answer(codec.Responses, []byte(lacks)), Event(codec.Responses, []byte(`{"type":"response.created","response":`+lacks+`}`))} {
		all := strings.Join(found, "\n")
		for _, want := range []string{
			".completed_at: Open", ".presence_penalty: Open", ".store: Open Responses requires it, and it is null", ".reasoning.summary: Open",
			".text.format: Open", ".tools[0].strict: Open",
		} {
			if !strings.Contains(all, want) {
				t.Errorf("%q is not found in\n%s", want, all)
			}
		}
		if strings.Contains(all, ".reasoning.effort: Open") || strings.Contains(all, ".tools[1].strict: Open") {
			t.Errorf("found is what is there:\n%s", all)
		}
	}
}
