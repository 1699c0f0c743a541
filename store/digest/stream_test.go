package digest_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/mnemeproxy/mneme/codec/template"
	"github.com/mnemeproxy/mneme/store/digest"
	"github.com/mnemeproxy/mneme/store/record"
)

// readStretch lets the reader of an exchange read its answer from at to end.
func readStretch(x *record.Exchange, at, end int64, visit func(text int32, start int64, fragment []byte)) (whole int64) {
	stretch := x.RawResponse[at:end]
	frames := template.Cut(stretch)
	defer frames.Release()
	return x.Reader.Read(stretch, at, frames, visit)
}

// An answer that was read on its way to the store, in whatever stretches, is digested as one that is read back.
func TestAnAnswerThatWasReadWhileItWasStoredIsDigestedAlike(t *testing.T) {
	for name, x := range exchanges {
		if !strings.HasSuffix(name, "streamed") {
			continue
		}
		t.Run(name, func(t *testing.T) {
			want, err := digest.Exchange(x)
			if err != nil {
				t.Fatal(err)
			}
			rapid.Check(t, func(t *rapid.T) {
				read := *x
				read.Reader = digest.Stream(x.Surface)
				var texts bytes.Buffer
				for at, end := int64(0), int64(0); end < int64(len(x.RawResponse)); {
					end = rapid.Int64Range(max(at, end)+1, int64(len(x.RawResponse))).Draw(t, "end")
					at = readStretch(&read, at, end, func(_ int32, start int64, fragment []byte) {
						if !bytes.HasPrefix(x.RawResponse[start:], fragment) {
							t.Fatalf("%q does not stand at %d", fragment, start)
						}
						texts.Write(fragment)
					})
				}
				if texts.String() != "There are 3." {
					t.Fatalf("the fragments of texts are %q", texts.String())
				}
				got, err := digest.Exchange(&read)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatal(diff)
				}
			})
		})
	}
}

// The rest of an event whose front was passed over is no event, and what comes behind it is read. Such an answer is read
// again to be digested.
func TestTheRestOfALongEventIsPassedOver(t *testing.T) {
	x := exchanges["messages, streamed"]
	answer := string(x.RawResponse)
	read := *x
	read.Reader = digest.Stream(x.Surface)
	begun := strings.Index(answer, "event: content_block_delta")
	torn := begun + len("event: cont")
	whole := readStretch(&read, 0, int64(torn), func(int32, int64, []byte) { t.Error("there is no text yet") })
	if whole != int64(begun) {
		t.Fatalf("the last whole event ends at %d, not %d", whole, begun)
	}
	whole = readStretch(&read, int64(torn), int64(len(answer)), func(_ int32, _ int64, fragment []byte) { t.Errorf("%q is the text of half an event", fragment) })
	if whole != int64(len(answer)) {
		t.Fatalf("the last whole event ends at %d of %d", whole, len(answer))
	}
	var d record.Digest
	var err error
	if d, err = digest.Exchange(&read); err != nil {
		t.Fatal(err)
	}
	want, err := digest.Exchange(x)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, d); diff != "" {
		t.Error(diff)
	}
}

// The events that end an item of a Responses stream repeat its text, which adds nothing to it.
func TestTheEndOfATextThatRepeatsItAddsNothing(t *testing.T) {
	for _, c := range []struct{ kind, item, member, done string }{
		{"output_text", `{"id":"i","type":"message","role":"assistant","content":[]}`, "text", `{"id":"i","type":"message","role":"assistant","content":[{"type":"output_text","text":"%s"}]}`},
		{"refusal", `{"id":"i","type":"message","role":"assistant","content":[]}`, "refusal", `{"id":"i","type":"message","role":"assistant","content":[{"type":"refusal","refusal":"%s"}]}`},
		{"function_call_arguments", `{"id":"i","type":"function_call","call_id":"c","name":"f","arguments":""}`, "arguments", `{"id":"i","type":"function_call","call_id":"c","name":"f","arguments":"%s"}`},
		{"custom_tool_call_input", `{"id":"i","type":"custom_tool_call","call_id":"c","name":"f","input":""}`, "input", `{"id":"i","type":"custom_tool_call","call_id":"c","name":"f","input":"%s"}`},
		{"reasoning_summary_text", `{"id":"i","type":"reasoning","summary":[]}`, "text", `{"id":"i","type":"reasoning","summary":[{"type":"summary_text","text":"%s"}]}`},
	} {
		t.Run(c.kind, func(t *testing.T) {
			pieces := []string{"Shards", " are", " 17,", " not", " 18", "."}
			whole := strings.Join(pieces, "")
			var b strings.Builder
			event := func(format string, args ...any) { fmt.Fprintf(&b, "data: "+format+"\n\n", args...) }
			event(`{"type":"response.output_item.added","output_index":0,"item":%s}`, c.item)
			for i, piece := range pieces {
				event(`{"type":"response.%s.delta","sequence_number":%d,"item_id":"i","output_index":0,"content_index":0,"summary_index":0,"delta":"%s","obfuscation":"%s"}`, c.kind, i, piece, whole[i:])
			}
			event(`{"type":"response.%s.done","item_id":"i","output_index":0,"content_index":0,"summary_index":0,"%s":"%s"}`, c.kind, c.member, whole)
			event(`{"type":"response.output_item.done","output_index":0,"item":`+c.done+`}`, whole)
			event(`{"type":"response.output_item.done","output_index":1,"item":{"id":"n","type":"function_call","call_id":"d","name":"next","arguments":"{}"}}`)
			x := captured("responses", "text/event-stream", string(exchanges["responses, whole"].RawRequest), b.String())
			x.Reader = digest.Stream(x.Surface)
			readStretch(x, 0, int64(b.Len()), func(int32, int64, []byte) {})
			d, err := digest.Exchange(x)
			if err != nil || len(d.Answer) != 1 || len(d.Answer[0].Parts) != 2 {
				t.Fatalf("the answer is %+v, %v", d.Answer, err)
			}
			if first := d.Answer[0].Parts[0]; first.Text+first.Arguments != whole || d.Answer[0].Parts[1].Name != "next" {
				t.Errorf("the answer has %q before %q", first.Text+first.Arguments, d.Answer[0].Parts[1].Name)
			}
		})
	}
}

// Frames of one template are read as if each were read by itself, whatever stands in them and between them.
func TestRepeatingFramesAreReadAsIfEachWereReadByItself(t *testing.T) {
	plain := rapid.SampledFrom([]string{"a", " word", "b c", "日", `\n`, `\"`})
	odd := rapid.SampledFrom([]string{"", `\u00e9`, "\xff", "\x01", `\x`, `"},"x":{"y":"`})
	text := rapid.OneOf(plain, plain, plain, plain, plain, plain, odd)
	number := rapid.SampledFrom([]string{"0", "1", "2", "10", "11", "200", "01"})
	chat := rapid.Custom(func(t *rapid.T) string {
		delta := rapid.SampledFrom([]string{
			`"content":"%s"`, `"content":"%s"`, `"content":"%s"`, `"reasoning_content":"%s"`, `"tool_calls":[{"index":0,"function":{"arguments":"%s"}}]`,
			`"tool_calls":[{"index":0,"id":"%s","function":{"name":"f","arguments":""}}]`,
		}).Draw(t, "delta")
		end := rapid.SampledFrom([]string{``, ``, ``, `,"usage":{"completion_tokens":` + number.Draw(t, "tokens") + `}`}).Draw(t, "end")
		return "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{" + fmt.Sprintf(delta, text.Draw(t, "text")) + "}}],\"obfuscation\":\"" + text.Draw(t, "padding") + "\"" + end + "}\n\n"
	})
	messages := rapid.Custom(func(t *rapid.T) string {
		index := rapid.SampledFrom([]string{"0", "0", "0", "0", "1"}).Draw(t, "index")
		data := rapid.SampledFrom([]string{
			`{"type":"content_block_start","index":` + index + `,"content_block":{"type":"text","text":""}}`,
			`{"type":"content_block_stop","index":` + index + `}`, `{"type":"ping"}`, `{"type":"message_stop","x":"%s"}`,
			`{"type":"content_block_delta","index":` + index + `,"delta":{"type":"signature_delta","signature":"%s"}}`,
		}).Draw(t, "other")
		if rapid.IntRange(0, 5).Draw(t, "kind") > 0 {
			data = `{"type":"content_block_delta","index":` + index + `,"delta":{"type":"text_delta","text":"%s"}}`
		}
		return "event: x\ndata: " + strings.ReplaceAll(data, "%s", text.Draw(t, "text")) + "\n\n"
	})
	responses := rapid.Custom(func(t *rapid.T) string {
		kind := rapid.SampledFrom([]string{"output_text.delta", "output_text.delta", "output_text.delta", "output_text.delta", "output_text.done", "refusal.delta", "reasoning_summary_text.delta"}).Draw(t, "kind")
		part := rapid.SampledFrom([]string{"0", "0", "0", "0", "1"}).Draw(t, "part")
		return fmt.Sprintf("event: response.%s\ndata: {\"type\":\"response.%s\",\"sequence_number\":%s,\"item_id\":\"m\",\"content_index\":%s,\"summary_index\":%s,\"delta\":\"%s\",\"text\":\"%s\",\"obfuscation\":\"%s\"}\n\n",
			kind, kind, number.Draw(t, "number"), part, part, text.Draw(t, "text"), text.Draw(t, "whole"), text.Draw(t, "padding"))
	})
	type fragment struct {
		text  int32
		start int64
		body  string
	}
	for surface, frames := range map[string]*rapid.Generator[string]{"chat": chat, "messages": messages, "responses": responses} {
		t.Run(surface, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				answer := strings.Join(rapid.SliceOfN(frames, 1, 30).Draw(t, "frames"), "")
				x := captured(surface, "text/event-stream", string(exchanges[surface+", whole"].RawRequest), answer)
				want, err := digest.Exchange(x)
				if err != nil {
					t.Fatal(err)
				}
				var single, repeated []fragment
				one := digest.Stream(surface)
				one.Read(x.RawResponse, 0, template.Cut(nil), func(text int32, start int64, body []byte) {
					single = append(single, fragment{text, start, string(body)})
				})
				x.Reader = digest.Stream(surface)
				readStretch(x, 0, int64(len(answer)), func(text int32, start int64, body []byte) {
					repeated = append(repeated, fragment{text, start, string(body)})
				})
				if diff := cmp.Diff(single, repeated, cmp.AllowUnexported(fragment{})); diff != "" {
					t.Fatalf("%s\n%s", answer, diff)
				}
				got, err := digest.Exchange(x)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("%s\n%s", answer, diff)
				}
			})
		})
	}
}
