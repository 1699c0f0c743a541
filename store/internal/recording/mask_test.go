package recording

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/mnemeproxy/mneme/codec/template"
	"github.com/mnemeproxy/mneme/store/internal/blob"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/redact"
)

// repeatingStream is a streamed answer of n pieces of text.
func repeatingStream(n int) []byte {
	var answer bytes.Buffer
	for i, word := range strings.SplitAfter(strings.Repeat("one after the other ", n/4), " ")[:n] {
		fmt.Fprintf(&answer, "data: {\"id\":\"chatcmpl-0123456789abcdef\",\"object\":\"chat.completion.chunk\",\"created\":1795168000,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"%s\"},\"finish_reason\":null}],\"sequence_number\":%d}\n\n", word, i)
	}
	return answer.Bytes()
}

// What is known of the repetition of frames hides no credential: the same is masked as where every byte is looked at.
func TestCredentialsAreFoundInFramesThatRepeat(t *testing.T) {
	t.Parallel()
	const secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
	redactor, err := redact.New(redact.Options{Builtin: true})
	if err != nil {
		t.Fatal(err)
	}
	redactor.Guard("v4lu3-Of-Ours")
	plain := rapid.SampledFrom([]string{"a", " word", "the next one", "", `\n`})
	text := rapid.OneOf(plain, plain, plain, plain, plain, plain, plain, rapid.SampledFrom([]string{
		"sk-ant-api03-" + strings.Repeat("a1B2", 6), "sk-ant-api03-", strings.Repeat("a1B2", 6),
		"aws_secret_access_key=" + secret, `AWS_SECRET_ACCESS_KEY\": \"` + secret, secret, "aws_secret_access_key", "https://me:hunter2word@host", "://:p@", "@host", "https://me:",
		`-----BEGIN PRIVATE KEY-----\n` + strings.Repeat("QUJD", 20) + `\n-----END PRIVATE KEY-----`, "-----BEGIN PRIVATE KEY-----", "bearer " + strings.Repeat("x9", 20),
		"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N", "8Q~" + strings.Repeat("b", 34), "aaa8Q~" + strings.Repeat("b", 34),
		"hunter22", "k9x2m4q8w1z3", "v4lu3-Of-Ours", `token=k9x2m4q8w1z3`, "password: hunter22", `hunter22\u0040host`, "fifteen-letters", "PRIVATE KEY-----",
	}))
	number := rapid.SampledFrom([]string{"1", "2", "10", "1795168000", strings.Repeat("7", 40)})
	rapid.Check(t, func(t *rapid.T) {
		var b bytes.Buffer
		name := rapid.SampledFrom([]string{"delta", "delta", "aws_secret_access_key", "aws-secret-access-key", "a", "password", "x-api-key", "token", "page_token", "json", "https://me:"}).Draw(t, "name")
		around := text.Draw(t, "around")
		for range rapid.IntRange(1, 20).Draw(t, "frames") {
			if rapid.IntRange(0, 9).Draw(t, "change") == 0 {
				around = text.Draw(t, "around")
			}
			fmt.Fprintf(&b, "data: {\"id\":\"%s\",\"n\":%s,\"%s\":\"%s\",\"pad\":\"%s\"}\n\n", around, number.Draw(t, "number"), name, text.Draw(t, "text"), text.Draw(t, "padding"))
		}
		want, got := bytes.Clone(b.Bytes()), b.Bytes()
		all := redactor.Mask(want)
		frames := template.Cut(got)
		defer frames.Release()
		found := redactor.MaskFresh(got, frames)
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
	frames := template.Cut(answer)
	defer frames.Release()
	for _, c := range []struct {
		name string
		do   func()
	}{
		{"apart", func() { template.Cut(answer).Release() }},
		{"masked", func() { redactor.MaskFresh(answer, frames) }},
		{"masked byte for byte", func() { redactor.Mask(answer) }},
		{"encoded", func() { blob.EncodeAnswer(answer, frames) }},
		{"encoded without templates", func() { blob.Encode(answer) }},
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

// pieceReader reads streams whose events go on with one text.
type pieceReader struct{ whole int64 }

func (r *pieceReader) Read(p []byte, at int64, _ *template.Frames, visit func(text int32, start int64, fragment []byte)) int64 {
	r.whole = max(r.whole, at)
	for {
		rest := p[r.whole-at:]
		n := bytes.Index(rest, []byte("\n\n"))
		if n < 0 {
			return r.whole
		}
		if _, piece, found := bytes.Cut(rest[:n], []byte(`"delta":"`)); found {
			piece, _, _ = bytes.Cut(piece, []byte(`"`))
			visit(0, r.whole+int64(bytes.Index(rest, []byte(`"delta":"`))+len(`"delta":"`)), piece)
		}
		r.whole += int64(n + 2)
	}
}

// What is masked is what is stored, also where a credential is spread over frames that are otherwise the same.
func TestWhatIsMaskedIsWhatIsStored(t *testing.T) {
	t.Parallel()
	redactor, err := redact.New(redact.Options{Builtin: true})
	if err != nil {
		t.Fatal(err)
	}
	r := &Recorder{Options: Options{Stream: func(string) record.StreamReader { return new(pieceReader) }}}
	piece := rapid.SampledFrom([]string{"a", "a", "a", "b1", " word ", "sk-ant-", "api03-", "x1y2", "x1y2", "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", "https://me:", "pass", "@host"})
	rapid.Check(t, func(t *rapid.T) {
		a := r.newMask("chat", redactor)
		var stored, masked []byte
		var buffer []byte
		for range rapid.IntRange(1, 4).Draw(t, "parts") {
			for range rapid.IntRange(0, 40).Draw(t, "frames") {
				buffer = fmt.Appendf(buffer, "data: {\"id\":\"c\",\"delta\":\"%s\",\"n\":%d}\n\n", piece.Draw(t, "piece"), rapid.IntRange(0, 20).Draw(t, "n"))
			}
			if len(buffer) == 0 {
				continue
			}
			n, frames := a.settle(buffer, false)
			part, err := blob.AppendDecoded(nil, blob.EncodeAnswer(buffer[:n], frames))
			if err != nil {
				t.Fatal(err)
			}
			frames.Release()
			stored, masked = append(stored, part...), append(masked, buffer[:n]...)
			buffer = bytes.Clone(buffer[n:])
		}
		_, frames := a.settle(buffer, true)
		part, err := blob.AppendDecoded(nil, blob.EncodeAnswer(buffer, frames))
		if err != nil {
			t.Fatal(err)
		}
		frames.Release()
		stored, masked = append(stored, part...), append(masked, buffer...)
		if !bytes.Equal(stored, masked) {
			t.Fatalf("stored\n%s\nis masked\n%s", stored, masked)
		}
	})
}
