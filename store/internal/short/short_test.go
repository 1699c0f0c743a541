package short

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/zeebo/blake3"
	"pgregory.net/rapid"
)

const answer = `{"id":"chatcmpl-9f3Kq","object":"chat.completion","created":1700000000,"model":"gpt-5","choices":[{"index":0,` +
	`"message":{"role":"assistant","content":"The lease of shard 7 was lost while its holder was paused. Renew it before you write, ` +
	`and stop when it cannot be renewed: another one may hold it by then, and both of you would write."},` +
	`"finish_reason":"stop"}],"usage":{"prompt_tokens":19,"completion_tokens":42,"total_tokens":61}}`

func roundTrip(t rapid.TB, text []byte) (encoded []byte) {
	t.Helper()
	encoded, ok := Append(nil, text)
	if !ok {
		if len(encoded) > 0 {
			t.Fatalf("%q is not encoded, and %d bytes were appended", text, len(encoded))
		}
		return nil
	}
	if got, err := AppendDecoded([]byte("before "), encoded); err != nil || string(got) != "before "+string(text) {
		t.Fatalf("%q came back as %q (%v)", text, got, err)
	}
	return encoded
}

func TestAShortAnswerTakesHalfOfItsBytes(t *testing.T) {
	if encoded := roundTrip(t, []byte(answer)); encoded == nil || len(encoded) > len(answer)/2 {
		t.Errorf("%d bytes became %d", len(answer), len(encoded))
	}
}

func TestProseTakesTwoThirdsOfItsBytes(t *testing.T) {
	prose := "It was lost because the process was paused for longer than the lease lasts, and nobody told it when it came back."
	if encoded := roundTrip(t, []byte(prose)); encoded == nil || len(encoded) > len(prose)*2/3 {
		t.Errorf("%d bytes became %d", len(prose), len(encoded))
	}
}

func TestWhatWouldNotBecomeShorterIsLeftAlone(t *testing.T) {
	hash := blake3.Sum256([]byte("random"))
	for _, text := range []string{"", "a", string(hash[:]), strings.Repeat("a", Most+1)} {
		if encoded := roundTrip(t, []byte(text)); encoded != nil {
			t.Errorf("%d bytes were encoded as %d", len(text), len(encoded))
		}
	}
}

func TestAnyShortTextComesBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { roundTrip(t, shortText(t)) })
}

// shortText draws a text, of which some is in the dictionary.
func shortText(t *rapid.T) (text []byte) {
	for range rapid.IntRange(0, 8).Draw(t, "stretches") {
		from := rapid.IntRange(0, len(dictionary)).Draw(t, "from")
		text = append(text, dictionary[from:min(len(dictionary), from+rapid.IntRange(0, 300).Draw(t, "length"))]...)
		text = append(text, rapid.StringMatching(`[ -~é\n]{0,80}`).Draw(t, "prose")...)
		text = append(text, rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(t, "bytes")...)
	}
	return text
}

func TestEveryByteHasACodeAndEveryCodeAByte(t *testing.T) {
	all := make([]byte, 256)
	for b := range all {
		all[b] = byte(b)
	}
	if got, whole := appendSymbols(nil, appendBits(nil, all), len(all)); !whole || !bytes.Equal(got, all) {
		t.Errorf("they came back as %x", got)
	}
	for i, s := range decoded {
		if s.length == 0 {
			t.Fatalf("nothing has a code that begins with %012b", i)
		}
	}
}

// What was written years ago is read with the same dictionary and code.
func TestWhatIsStoredStaysReadable(t *testing.T) {
	const stored = "" +
		"e901f41f683a5c156d789dbecfe20f75d7d7d7d7d7d7d7d7f82feb1ed1b9f11ecff63a9fdded1da818b0c94c4aa0b029bc6f0cc4a2c92b" +
		"0cd08d8622ca212b1e73198945c57a9be91e51a1e611618cea94cc6795e334e2c74024785695c3340d0458389124c319899a1e637e0049" +
		"2681cc490c5a59c42563c45863ce1a069402478c7268095433caf19a57d8f19a7163a727f86a7b46c6afd3f53da36fa7f7dd4f6eddd8e6" +
		"e6"
	encoded, err := hex.DecodeString(stored)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := AppendDecoded(nil, encoded); err != nil || string(got) != answer {
		t.Errorf("it is read as %q (%v)", got, err)
	}
	if sum := blake3.Sum256(dictionary); hex.EncodeToString(sum[:8]) != "83b2a73ce0065840" {
		t.Errorf("the dictionary has changed: %x", sum[:8])
	}
	if sum := blake3.Sum256([]byte(lengths)); hex.EncodeToString(sum[:8]) != "fdff743e9913c0e6" {
		t.Errorf("the code has changed: %x", sum[:8])
	}
}

func FuzzShortText(f *testing.F) {
	encoded, _ := Append(nil, []byte(answer))
	f.Add(encoded)
	f.Add(encoded[:len(encoded)/2])
	f.Add([]byte{0})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 1, 0})
	f.Fuzz(func(t *testing.T, encoded []byte) {
		got, err := AppendDecoded(nil, encoded)
		if len(got) > Most {
			t.Errorf("there are %d bytes", len(got))
		}
		if err == nil {
			roundTrip(t, got)
		}
	})
}

func TestWhatIsCutOrGoesOnIsRefused(t *testing.T) {
	encoded := roundTrip(t, []byte(answer))
	for n := range encoded {
		if got, err := AppendDecoded(nil, encoded[:n]); err == nil {
			t.Errorf("the first %d bytes gave %q", n, got)
		}
	}
	if got, err := AppendDecoded(nil, append(encoded, 0)); err == nil {
		t.Errorf("with another byte it gave %q", got)
	}
}

func BenchmarkAppend(b *testing.B) {
	b.ReportAllocs()
	b.SetBytes(int64(len(answer)))
	text, encoded := []byte(answer), make([]byte, 0, Most)
	for b.Loop() {
		encoded, _ = Append(encoded[:0], text)
	}
}

func BenchmarkAppendDecoded(b *testing.B) {
	b.ReportAllocs()
	b.SetBytes(int64(len(answer)))
	encoded, _ := Append(nil, []byte(answer))
	text := make([]byte, 0, Most)
	for b.Loop() {
		text, _ = AppendDecoded(text[:0], encoded)
	}
}
