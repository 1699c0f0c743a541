package blob

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/mnemeproxy/mneme/codec/template"
	"github.com/mnemeproxy/mneme/fuzz/mutant"
)

// someStream draws event streams of which many frames are alike.
func someStream(t *rapid.T) []byte {
	text := rapid.OneOf(rapid.SampledFrom([]string{``, `a`, `the`, ` word`, `\"`, `\\`, `\n`, `日`, `"`, "\n"}), rapid.StringN(0, 20, -1))
	var b bytes.Buffer
	for range rapid.IntRange(0, 5).Draw(t, "stretches") {
		kind := rapid.IntRange(0, 5).Draw(t, "kind")
		for i := range rapid.IntRange(0, 30).Draw(t, "frames") {
			switch s := text.Draw(t, "text"); kind {
			case 0:
				fmt.Fprintf(&b, "data: {\"id\":\"c\",\"choices\":[{\"delta\":{\"content\":\"%s\"}}],\"obfuscation\":\"%s\"}\n\n", s, strings.Repeat("x", i%5))
			case 1:
				fmt.Fprintf(&b, "event: delta\ndata: {\"type\":\"delta\",\"sequence_number\":%d,\"delta\":\"%s\"}\n\n", i, s)
			case 2:
				b.WriteString(": ping\n\n")
			case 3: // may have more slots than a template
				fmt.Fprintf(&b, "data: [%s]\n\n", strings.Repeat(fmt.Sprintf("%d,", i), rapid.IntRange(template.MaxSlots-1, template.MaxSlots+1).Draw(t, "numbers")))
			case 4:
				fmt.Fprintf(&b, "data: {\"long\":\"%s\"}\r\n\r\n", strings.Repeat(s, 100))
			default:
				b.WriteString(s)
			}
		}
	}
	return b.Bytes()
}

func TestAnswersAreGivenBackAsTheyWere(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		part := someStream(t)
		encoded, given := EncodeAnswerSteps(part, nil)
		got, err := AppendDecoded([]byte("before"), encoded)
		if err != nil || string(got) != "before"+string(part) {
			t.Fatalf("%q became %q: %v", part, got, err)
		}
		if stored, err := AppendStored(nil, encoded); given != nil && (err != nil || !bytes.Equal(stored, given)) || isFrames(encoded) != (given != nil) {
			t.Fatalf("%q is given as steps %q and stored as %q: %v", part, given, stored, err)
		}
		frames := template.Cut(part) // also of what is too short to be worth it
		steps := appendSteps(nil, part, frames)
		frames.Release()
		if got, err = appendFrames(nil, Encode(steps)); err != nil || !bytes.Equal(got, part) {
			t.Fatalf("%q became %q: %v", part, got, err)
		}
	})
}

func TestFramesThatRepeatTakeLittleSpace(t *testing.T) {
	t.Parallel()
	words := rand.New(rand.NewPCG(1, 2))
	var stream bytes.Buffer
	for i := range 400 {
		fmt.Fprintf(&stream, "data: {\"id\":\"chatcmpl-0123456789abcdef\",\"object\":\"chat.completion.chunk\",\"created\":1795168000,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"word%d \"},\"finish_reason\":null}],\"sequence_number\":%d}\n\n", words.IntN(2000), i)
	}
	answer := stream.Bytes()
	if packed, plain := len(EncodeAnswer(answer, nil)), len(Encode(answer)); packed > plain*9/10 {
		t.Errorf("%d bytes of a stream take %d, without templates %d", len(answer), packed, plain)
	}
}

// Steps from a broken disk or a foreign hand stand for a part, or are refused. They never stand for more than one.
func FuzzAnswerFrames(f *testing.F) {
	var stream strings.Builder
	for i := range 20 {
		fmt.Fprintf(&stream, "data: {\"n\":%d,\"text\":\"%s\"}\n\n", i, strings.Repeat("word ", i%4))
	}
	for _, part := range []string{"", "data: x\n\n", stream.String(), stream.String() + ": ping\n\n" + stream.String()} {
		frames := template.Cut([]byte(part))
		f.Add(appendSteps(nil, []byte(part), frames))
		frames.Release()
	}
	f.Add([]byte{4, stepFrames, 1, 1, 'a'})
	f.Add([]byte{0x80, 0x80, 0x40, stepBytes, 1, 'a', stepTemplate, 1, 1, 0, 1, stepFrames, 3, 1, 1, 1, 'b', 'c', 'd'})
	f.Fuzz(mutant.Each(1000, func(t *testing.T, steps []byte) {
		part, err := appendFrames(nil, append([]byte{EncodingRaw}, steps...))
		if err != nil {
			return
		}
		if len(part) > maxFrames {
			t.Fatalf("%d bytes", len(part))
		}
		if again, err := AppendDecoded(nil, EncodeAnswer(part, nil)); err != nil || !bytes.Equal(again, part) {
			t.Fatalf("%q became %q: %v", part, again, err)
		}
	}))
}
