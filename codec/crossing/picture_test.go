package crossing_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/crossing"
	"github.com/mnemeproxy/mneme/codec/sse"
	"github.com/mnemeproxy/mneme/fuzz/grammar"
)

// A picture that Gemini draws is paid for: it reaches clients whose format can hold it, and the others hear of it.
func TestAPictureInAnAnswerOfGeminiReachesTheClient(t *testing.T) {
	answer := `{"candidates":[{"content":{"role":"model","parts":[{"text":"Before."},{"inlineData":{"mimeType":"image/png","data":"` + picture + `"},"thoughtSignature":"c2ln"},{"text":"Behind."}]},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":1290,"totalTokenCount":1299},"modelVersion":"m","responseId":"g"}`
	for _, c := range []struct {
		surface         codec.Format
		body            string
		whole, streamed []string // in this order
		note            string
		check           func([]byte) error
	}{
		{
			codec.Responses, `"input":"hi"`,
			[]string{`Before.`, `"type":"image_generation_call","status":"completed","result":"` + picture + `"`, `Behind.`},
			[]string{
				`Before.`, `"item":{"id":"ig_0123456789abcdefghjkmnpqrs01","type":"image_generation_call","status":"in_progress","result":null}`,
				`output_item.done`, `"type":"image_generation_call","status":"completed","result":"` + picture + `"`, `Behind.`, `response.completed`, `"result":"` + picture,
			},
			"emulated:answer.image", grammar.Responses,
		},
		{
			codec.Chat, hi,
			[]string{`"content":"Before.Behind."`, `"images":[{"type":"image_url","image_url":{"url":"data:image/png;base64,` + picture + `"}}]`},
			[]string{`Before.`, `"images":[{"index":0,"type":"image_url","image_url":{"url":"data:image/png;base64,` + picture + `"}}]`, `Behind.`, `[DONE]`},
			"emulated:answer.image", grammar.Chat,
		},
		{
			codec.Messages, messagesHi,
			[]string{`Before.`, `{"type":"text","text":"[image omitted]","citations":[]}`, `Behind.`},
			[]string{`Before.`, `[image omitted]`, `Behind.`, `message_stop`},
			"dropped:answer.image", grammar.Messages,
		},
	} {
		t.Run(c.surface.String(), func(t *testing.T) {
			prepared := func() *crossing.Exchange {
				x, _, err := prepare(c.surface, gemini, `{"model":"gemini-3.8-flash","stream":true,`+c.body+`}`, nil)
				if err != nil {
					t.Fatal(err)
				}
				return x
			}
			x := prepared()
			whole, _, err := x.Answer(nil, []byte(answer))
			if err != nil {
				t.Fatal(err)
			}
			mustHold(t, string(whole), c.whole)
			if !slices.Contains(x.NoteNames(), c.note) {
				t.Errorf("%s is not noted: %s", c.note, x.Notes())
			}
			x.Release()

			x = prepared()
			defer x.Release()
			stream := x.Stream()
			out, _ := stream.Frame(nil, &sse.Frame{Data: []byte(answer)})
			out, _ = stream.End(out, codec.EndEOF, nil)
			mustHold(t, string(out), c.streamed)
			if err := c.check(out); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
			if !slices.Contains(x.NoteNames(), c.note) {
				t.Errorf("%s is not noted: %s", c.note, x.Notes())
			}
		})
	}
}

func mustHold(t *testing.T, said string, pieces []string) {
	t.Helper()
	at := 0
	for _, piece := range pieces {
		i := strings.Index(said[at:], piece)
		if i < 0 {
			t.Errorf("there is no (further) %s in\n%s", piece, said)
			return
		}
		at += i + len(piece)
	}
}

// Sound and film have no place in any other format: words stand for them, and the record names them.
func TestMediaOfGeminiThatNoClientTakesAreNamed(t *testing.T) {
	const answer = `{"candidates":[{"content":{"role":"model","parts":[{"text":"Before."},{"inlineData":{"mimeType":"audio/wav","data":"UklGRg=="}},{"fileData":{"mimeType":"video/mp4","fileUri":"https://x/v"}},{"newest":{"a":1}},{"text":"Behind."}]},"finishReason":"STOP","index":0}],"modelVersion":"m","responseId":"g"}`
	for surface, body := range map[codec.Format]string{codec.Chat: hi, codec.Responses: `"input":"hi"`, codec.Messages: messagesHi} {
		t.Run(surface.String(), func(t *testing.T) {
			x, _, err := prepare(surface, gemini, `{"model":"gemini-3.8-flash","stream":true,`+body+`}`, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer x.Release()
			heard, complete := hear(t, x, answer)
			if !complete {
				t.Error("the answer is not complete")
			}
			mustHold(t, heard, []string{"Before.", "[audio omitted]", "[video omitted]", "Behind."})
			if got, want := x.NoteNames()[1:], []string{"dropped:answer.audio", "dropped:answer.video", "dropped:answer.content"}; !slices.Equal(got, want) {
				t.Errorf("notes are %s, want %s", got, want)
			}
		})
	}
}

// OpenRouter has pictures in a member of their own, and others among the content. They reach clients as Gemini's do.
func TestAPictureOfAChatHostReachesTheClient(t *testing.T) {
	const image = `{"type":"image_url","image_url":{"url":"data:image/png;base64,` + picture + `"}}`
	for name, message := range map[string]string{
		"images":  `"content":"Here.","images":[` + image + `]`,
		"content": `"content":[{"type":"text","text":"Here."},` + image + `]`,
	} {
		for surface, c := range map[codec.Format]struct {
			body            string
			whole, streamed []string
		}{
			codec.Responses: {`"input":"hi"`, []string{`Here.`, `"type":"image_generation_call","status":"completed","result":"` + picture + `"`}, []string{`Here.`, `image_generation_call`, picture, `response.completed`}},
			codec.Messages:  {messagesHi, []string{`Here.`, `[image omitted]`}, []string{`Here.`, `[image omitted]`, `message_stop`}},
		} {
			t.Run(name+" "+surface.String(), func(t *testing.T) {
				x, _, err := prepare(surface, own, `{"model":"own-model",`+c.body+`}`, nil)
				if err != nil {
					t.Fatal(err)
				}
				defer x.Release()
				whole, _, err := x.Answer(nil, []byte(chatAnswer(`{"role":"assistant",`+message+`}`, "stop")))
				if err != nil {
					t.Fatal(err)
				}
				mustHold(t, string(whole), c.whole)
				mustHold(t, heard(t, surface, own, c.body, chatFrames("stop", `{`+message+`}`)...), c.streamed)
			})
		}
	}
	mustHold(t, heard(t, codec.Messages, own, messagesHi, chatFrames("stop", `{"images":[{"type":"image_url","image_url":{"url":"https:\/\/example.com\/a.png"}}]}`)...), []string{`![image](https://example.com/a.png)`})
}
