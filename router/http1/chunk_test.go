package http1

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http/httputil"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// stripped reads text in the pieces that next cuts off.
func stripped(text string, next func(left int) int) (content []byte, rest string, err error) {
	var c chunks
	for len(text) > 0 {
		piece := []byte(text[:next(len(text))])
		n, used, end := c.strip(piece)
		content = append(content, piece[:n]...)
		text = text[used:]
		if end != nil {
			return content, text, end
		}
	}
	return content, "", nil
}

func TestChunksMeanTheSameHoweverTheyAreCut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var wire bytes.Buffer
		var want []byte
		for _, piece := range rapid.SliceOf(rapid.SliceOfN(rapid.Byte(), 1, 300)).Draw(t, "pieces") {
			form := rapid.SampledFrom([]string{"%x\r\n", "%X\r\n", "000%x\r\n", "%x;a=b\r\n", "%x \r\n"}).Draw(t, "form")
			fmt.Fprintf(&wire, form, len(piece))
			wire.Write(piece)
			wire.WriteString("\r\n")
			want = append(want, piece...)
		}
		wire.WriteString("0\r\n" + rapid.SampledFrom([]string{"", "X-Checksum: 1\r\n", "A: 1\r\nB: 2\r\n"}).Draw(t, "trailers") + "\r\n")
		after := rapid.SampledFrom([]string{"", "HTTP/1.1 200 OK\r\n"}).Draw(t, "after")

		got, rest, err := stripped(wire.String()+after, func(left int) int { return rapid.IntRange(1, left).Draw(t, "cut") })
		if !bytes.Equal(got, want) || !errors.Is(err, io.EOF) || !strings.HasSuffix(after, rest) {
			t.Fatalf("%q gives %q, %q behind it, %v", wire.String(), got, rest, err)
		}
		if reference, err := io.ReadAll(httputil.NewChunkedReader(&wire)); err != nil || !bytes.Equal(reference, want) {
			t.Fatalf("the test's own chunks are wrong: %q, %v", reference, err)
		}
	})
}

func TestChunksThatTwoReadersCouldSeeDifferentlyAreRefused(t *testing.T) {
	for name, text := range map[string]string{
		"no size":              "\r\nabc\r\n0\r\n\r\n",
		"no number":            "xyz\r\n",
		"negative":             "-1\r\na\r\n0\r\n\r\n",
		"signed":               "+1\r\na\r\n0\r\n\r\n",
		"prefixed":             "0x1\r\na\r\n0\r\n\r\n",
		"more than 2^60":       "1000000000000000\r\n",
		"leading zeros":        "0000000000000001\r\na\r\n0\r\n\r\n",
		"bare LF":              "1\na\n0\n\n",
		"bare LF in extension": "1;a\nb\r\na\r\n0\r\n\r\n",
		"bare CR":              "1\ra\r\n0\r\n\r\n",
		"longer than it says":  "1\r\nab\r\n0\r\n\r\n",
		"shorter than it says": "3\r\nab\r\n0\r\n\r\n",
		"endless extension":    "1;" + strings.Repeat("a", maxPassed+1) + "\r\na\r\n0\r\n\r\n",
		"endless trailer":      "0\r\nA: " + strings.Repeat("a", maxPassed) + "\r\n\r\n",
		"trailer with bare LF": "0\r\nA: 1\nB: 2\r\n\r\n",
	} {
		for _, step := range []int{1, 1 << 20} {
			if got, _, err := stripped(text, func(left int) int { return min(step, left) }); !errors.Is(err, ErrMalformed) {
				t.Errorf("%s: %q, %v", name, got, err)
			}
		}
	}
}
