package crossing_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/crossing"
)

// outlined reads an answer in pieces of a size, and gives how many bytes stand before the last one of its value.
func outlined(format codec.Format, answer string, size int) (seen crossing.Seen, complete bool, before int) {
	o := crossing.NewOutline(format)
	for rest := []byte(answer); len(rest) > 0; {
		n := min(size, len(rest))
		before += o.Write(rest[:n])
		rest = rest[n:]
	}
	seen, complete = o.Seen()
	return seen, complete, before
}

var longWord = strings.Repeat(`long \" \\ \u00e9 é `, 10_000)

var longAnswers = map[codec.Format]string{
	codec.Chat: `{"id":"c1","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"` + longWord + `"},"finish_reason":"length"}],"usage":{"prompt_tokens":3,"completion_tokens":4}}`,
	codec.Messages: `{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[` + strings.Repeat(`{"type":"text","text":"many, ]}"},`, 5000) +
		`{"type":"text","text":"` + longWord + `"}],"stop_reason":"end_turn","usage":{"input_tokens":5,"output_tokens":6}}`,
	codec.Responses: `{"id":"resp_1","object":"response","model":"m","status":"completed","output":[{"type":"message","id":"m1","role":"assistant","status":"completed","content":[{"type":"output_text","text":"` +
		longWord + `","annotations":[]}]}],"usage":{"input_tokens":7,"output_tokens":8,"total_tokens":15}}`,
	codec.Embeddings: `{"object":"list","data":[` + strings.Repeat(`{"object":"embedding","index":0,"embedding":[`+strings.Repeat("0.125,", 1500)+`1]},`, 50) +
		`{"object":"embedding","index":50,"embedding":[1]}],"model":"e","usage":{"prompt_tokens":9,"total_tokens":9}}`,
}

func TestAnOutlineTellsWhatTheWholeAnswerDoes(t *testing.T) {
	for format, answer := range longAnswers {
		want, _ := crossing.Observe(format, []byte(answer), crossing.Memory{}, false)
		for _, size := range []int{1, 7, 4096, len(answer)} {
			seen, complete, before := outlined(format, answer+"\n", size)
			if format == codec.Chat && max(seen.Written-want.Written, want.Written-seen.Written) > 2 {
				t.Errorf("%d tokens are thought to be in %d", seen.Written, want.Written)
			}
			seen.Written = want.Written // of lists the outline has but the first elements
			if diff := cmp.Diff(want, seen); !complete || before != len(answer)-1 || diff != "" {
				t.Errorf("%v in pieces of %d: complete %t, %d bytes of %d before the last: %s", format, size, complete, before, len(answer), diff)
			}
		}
	}
}

// However an answer is cut, it is not taken for a whole one.
func TestAnAnswerWithoutItsEndIsNotComplete(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		answer := longAnswers[rapid.SampledFrom([]codec.Format{codec.Chat, codec.Messages, codec.Responses, codec.Embeddings}).Draw(t, "format")]
		cut := rapid.IntRange(0, len(answer)-1).Draw(t, "cut")
		if _, complete, before := outlined(codec.Chat, answer[:cut], rapid.IntRange(100, 100_000).Draw(t, "size")); complete || before != cut {
			t.Errorf("cut at %d of %d it is complete %t, with %d bytes before its last", cut, len(answer), complete, before)
		}
	})
}

func TestWhatIsNoAnswerHasNoOutline(t *testing.T) {
	for _, text := range []string{
		"", " ", "<html>", `"text"`, "1", "]", `{"a":1]`, `[1}`, `{"a":1}{"b":2}`, `{"a":1} x`, `{"a":1}]`, `,{}`, strings.Repeat("[", 100_000),
	} {
		if _, complete, _ := outlined(codec.Chat, text, 3); complete {
			t.Errorf("%.20q is complete", text)
		}
	}
	if _, complete, _ := outlined(codec.Chat, `{`+strings.Repeat(`"member":1,`, 100_000)+`"end":[{}]}`, 4096); !complete {
		t.Error("an answer of many members is not complete")
	}
}
