package scrub

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAStreamKeepsItsFormAndSaysNothing(t *testing.T) {
	const stream = ": hello\n" +
		"event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_01Ab\",\"model\":\"claude-x-1\",\"usage\":{\"input_tokens\":12}}}\n\n" +
		"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"Grüße, Bob 42!\"}}\n\n" +
		"data: {\"id\":\"msg_01Ab\",\"call_id\":\"call_Zz\",\"metadata\":{\"user\":\"bob\"},\"tools\":[{\"name\":\"secret\"}]}\n\n" +
		"data: {\"args\":{\"city\":\"Bonn\",\"n\":7}}\n\ndata: [DONE]\n\n"
	want := []string{
		`> @message_start {"type":"message_start","message":{"id":"msg_0001","model":"claude-x-1","usage":{"input_tokens":12}}}`,
		`> @content_block_delta {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Xxxxx, Xxx 00!"}}`,
		`> {"id":"msg_0001","call_id":"call_02","metadata":{},"tools":[]}`,
		`> {"args":{"k0":"Xxxx","k1":0}}`,
		`> [DONE]`,
		`> EOF`,
	}
	got, err := Stream([]byte(stream))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestArgumentsInPiecesStayJSON(t *testing.T) {
	for name, arguments := range map[string]string{
		"strings":  `{"file":"/home/bob/a \"b\" \u00e9\n","deep":[{"x":"y"}]}`,
		"literals": `{"a":true,"b":null,"c":false,"d":-12.5e3,"e":"true"}`,
	} {
		for size := 1; size < 8; size++ {
			var stream strings.Builder
			for rest := arguments; rest != ""; {
				n := min(size, len(rest))
				frame, err := json.Marshal(map[string]any{"choices": []any{map[string]any{"index": 0, "delta": map[string]any{"arguments": rest[:n]}}}})
				if err != nil {
					t.Fatal(err)
				}
				stream.WriteString("data: " + string(frame) + "\n\n")
				rest = rest[n:]
			}
			lines, err := Stream([]byte(stream.String()))
			if err != nil {
				t.Fatal(err)
			}
			var joined strings.Builder
			for _, line := range lines[:len(lines)-1] {
				var frame struct {
					Choices []struct{ Delta struct{ Arguments string } }
				}
				if err := json.Unmarshal([]byte(strings.TrimPrefix(line, "> ")), &frame); err != nil {
					t.Fatal(err)
				}
				joined.WriteString(frame.Choices[0].Delta.Arguments)
			}
			if !json.Valid([]byte(joined.String())) || strings.Contains(joined.String(), "bob") || len(joined.String()) != len(arguments) {
				t.Errorf("%s in pieces of %d: %s", name, size, joined.String())
			}
		}
	}
}

func TestWhatIsNoStreamIsRefused(t *testing.T) {
	for _, answer := range []string{"", `{"id":"x"}`, "data: {\"a\":\n\n", "data: " + strings.Repeat("[", 1000) + strings.Repeat("]", 1000) + "\n\n", "secret words\n"} {
		if lines, err := Stream([]byte(answer)); err == nil {
			t.Errorf("%q is made into %q", answer, lines)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("the error tells what it saw: %v", err)
		}
	}
}

func FuzzStream(f *testing.F) {
	f.Add([]byte("data: {\"text\":\"Bob\",\"index\":1}\n\n"))
	f.Fuzz(func(t *testing.T, stream []byte) {
		lines, err := Stream(stream)
		if err != nil {
			return
		}
		for _, line := range lines {
			if strings.ContainsAny(line, "\r\n") {
				t.Errorf("a line of the fixture is broken: %q", line)
			}
		}
	})
}
