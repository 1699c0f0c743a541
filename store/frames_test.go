package store

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/mnemeproxy/mneme/codec/form"
	"github.com/mnemeproxy/mneme/store/redact"
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
			case 3: // may have more holes than a form
				fmt.Fprintf(&b, "data: [%s]\n\n", strings.Repeat(fmt.Sprintf("%d,", i), rapid.IntRange(form.MaxHoles-1, form.MaxHoles+1).Draw(t, "numbers")))
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
		got, err := appendDecoded([]byte("before"), encodeAnswer(part, nil))
		if err != nil || string(got) != "before"+string(part) {
			t.Fatalf("%q became %q: %v", part, got, err)
		}
		l := cutFrames(part) // also of what is too short to be worth it
		steps := l.appendSteps(nil, part)
		l.release()
		if got, err = appendFrames(nil, encodeBytes(steps)); err != nil || !bytes.Equal(got, part) {
			t.Fatalf("%q became %q: %v", part, got, err)
		}
	})
}

// repeatingStream is a streamed answer of n pieces of text.
func repeatingStream(n int) []byte {
	var answer bytes.Buffer
	for i, word := range strings.SplitAfterN(newAgent(3).words(12*n), " ", n) {
		fmt.Fprintf(&answer, "data: {\"id\":\"chatcmpl-0123456789abcdef\",\"object\":\"chat.completion.chunk\",\"created\":1795168000,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"%s\"},\"finish_reason\":null}],\"sequence_number\":%d}\n\n", word, i)
	}
	return answer.Bytes()
}

func TestFramesThatRepeatTakeLittleSpace(t *testing.T) {
	t.Parallel()
	answer := repeatingStream(400)
	if packed, plain := len(encodeAnswer(answer, nil)), len(encodeBytes(answer)); packed > plain*9/10 {
		t.Errorf("%d bytes of a stream take %d, without forms %d", len(answer), packed, plain)
	}
}

// Steps from a broken disk or a foreign hand stand for a part, or are refused. They never stand for more than one.
func FuzzFrames(f *testing.F) {
	var stream strings.Builder
	for i := range 20 {
		fmt.Fprintf(&stream, "data: {\"n\":%d,\"text\":\"%s\"}\n\n", i, strings.Repeat("word ", i%4))
	}
	for _, part := range []string{"", "data: x\n\n", stream.String(), stream.String() + ": ping\n\n" + stream.String()} {
		l := cutFrames([]byte(part))
		f.Add(l.appendSteps(nil, []byte(part)))
		l.release()
	}
	f.Add([]byte{4, stepFrames, 1, 1, 'a'})
	f.Add([]byte{0x80, 0x80, 0x40, stepBytes, 1, 'a', stepForm, 1, 1, 0, 1, stepFrames, 3, 1, 1, 1, 'b', 'c', 'd'})
	f.Fuzz(func(t *testing.T, steps []byte) {
		part, err := appendFrames(nil, append([]byte{encodingRaw}, steps...))
		if err != nil {
			return
		}
		if len(part) > maxFrames {
			t.Fatalf("%d bytes", len(part))
		}
		if again, err := appendDecoded(nil, encodeAnswer(part, nil)); err != nil || !bytes.Equal(again, part) {
			t.Fatalf("%q became %q: %v", part, again, err)
		}
	})
}

// What is known of the repetition of frames hides no credential: the same is masked as where every byte is looked at.
func TestCredentialsAreFoundInFramesThatRepeat(t *testing.T) {
	t.Parallel()
	const secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
	redactor, err := redact.New(redact.Options{Builtin: true})
	if err != nil {
		t.Fatal(err)
	}
	plain := rapid.SampledFrom([]string{"a", " word", "the next one", "", `\n`})
	text := rapid.OneOf(plain, plain, plain, plain, plain, plain, plain, rapid.SampledFrom([]string{
		"sk-ant-api03-" + strings.Repeat("a1B2", 6), "sk-ant-api03-", strings.Repeat("a1B2", 6),
		"aws_secret_access_key=" + secret, `AWS_SECRET_ACCESS_KEY\": \"` + secret, secret, "aws_secret_access_key", "https://me:hunter2word@host", "://:p@", "@host", "https://me:",
		`-----BEGIN PRIVATE KEY-----\n` + strings.Repeat("QUJD", 20) + `\n-----END PRIVATE KEY-----`, "-----BEGIN PRIVATE KEY-----", "bearer " + strings.Repeat("x9", 20),
		"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N", "8Q~" + strings.Repeat("b", 34), "aaa8Q~" + strings.Repeat("b", 34),
	}))
	number := rapid.SampledFrom([]string{"1", "2", "10", "1795168000", strings.Repeat("7", 40)})
	rapid.Check(t, func(t *rapid.T) {
		var b bytes.Buffer
		name := rapid.SampledFrom([]string{"delta", "aws_secret_access_key", "aws-secret-access-key", "a"}).Draw(t, "name")
		around := text.Draw(t, "around")
		for range rapid.IntRange(1, 20).Draw(t, "frames") {
			if rapid.IntRange(0, 9).Draw(t, "change") == 0 {
				around = text.Draw(t, "around")
			}
			fmt.Fprintf(&b, "data: {\"id\":\"%s\",\"n\":%s,\"%s\":\"%s\",\"pad\":\"%s\"}\n\n", around, number.Draw(t, "number"), name, text.Draw(t, "text"), text.Draw(t, "padding"))
		}
		want, got := bytes.Clone(b.Bytes()), b.Bytes()
		all := redactor.Mask(want)
		l := cutFrames(got)
		defer l.release()
		found := redactor.MaskFresh(got, l.fresh(got))
		if !bytes.Equal(got, want) || len(found) != len(all) {
			t.Fatalf("%d of %d are masked\n%s\n%s", len(found), len(all), got, want)
		}
	})
}

// BenchmarkAnswer is what the end of a streamed answer of 200 events costs: to take it apart, to mask it, to encode it.
func BenchmarkAnswer(b *testing.B) {
	answer := repeatingStream(200)
	redactor, err := redact.New(redact.Options{Builtin: true})
	if err != nil {
		b.Fatal(err)
	}
	l := cutFrames(answer)
	defer l.release()
	for _, c := range []struct {
		name string
		do   func()
	}{
		{"apart", func() { cutFrames(answer).release() }},
		{"masked", func() { redactor.MaskFresh(answer, l.fresh(answer)) }},
		{"masked byte for byte", func() { redactor.Mask(answer) }},
		{"encoded", func() { encodeAnswer(answer, l) }},
		{"encoded without forms", func() { encodeBytes(answer) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(len(answer)))
			b.ReportAllocs()
			for b.Loop() {
				c.do()
			}
		})
	}
}
