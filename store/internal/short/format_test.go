package short

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// page is what FORMAT.md says of short texts. Its reader shares no code with this package.
type page struct {
	dictionary string
	values     map[string]byte // by their code, in digits 0 and 1
}

func readPage(t *testing.T) (p page) {
	t.Helper()
	text, err := os.ReadFile("../../FORMAT.md")
	if err != nil {
		t.Fatal(err)
	}
	fenced := func(behind string) string {
		_, rest, found := strings.Cut(string(text), behind)
		_, rest, opened := strings.Cut(rest, "\n```\n")
		block, _, closed := strings.Cut(rest, "\n```\n")
		if !found || !opened || !closed {
			t.Fatalf("FORMAT.md has no fence behind %q", behind)
		}
		return block
	}
	p.dictionary = fenced("\n## The dictionary of short texts\n")
	digits := strings.ReplaceAll(fenced("\n**Short texts** are "), "\n", "")
	if len(digits) != 256 {
		t.Fatalf("FORMAT.md has lengths of %d values", len(digits))
	}
	p.values = make(map[string]byte)
	next, written := 0, 0
	for length := 1; length < 16; length++ {
		for value := range digits {
			if digits[value] != fmt.Sprintf("%x", length)[0] {
				continue
			}
			if written > 0 {
				next = (next + 1) << (length - written)
			}
			p.values[fmt.Sprintf("%0*b", length, next)] = byte(value)
			written = length
		}
	}
	return p
}

func (p page) decode(t rapid.TB, encoded []byte) (text []byte) {
	count, size := binary.Uvarint(encoded)
	var copies []byte
	var code, padding strings.Builder
	for _, b := range encoded[size:] {
		for _, bit := range fmt.Sprintf("%08b", b) {
			if uint64(len(copies)) == count {
				padding.WriteRune(bit)
				continue
			}
			code.WriteRune(bit)
			if value, whole := p.values[code.String()]; whole {
				copies = append(copies, value)
				code.Reset()
			}
		}
	}
	if code.Len() > 0 || strings.Contains(padding.String(), "1") || padding.Len() > 7 {
		t.Fatalf("it ends with the bits %s and %s", code.String(), padding.String())
	}
	for len(copies) > 0 {
		n, size := binary.Uvarint(copies)
		copies = copies[size:]
		if n%2 == 0 {
			text, copies = append(text, copies[:n/2]...), copies[n/2:]
			continue
		}
		place, size := binary.Uvarint(copies)
		text, copies = append(text, p.dictionary[place:place+n/2]...), copies[size:]
	}
	return text
}

// Somebody who has only the page reads every short text.
func TestFormatPageIsEnoughToReadShortTexts(t *testing.T) {
	p := readPage(t)
	if p.dictionary != string(dictionary) {
		t.Errorf("its dictionary has %d bytes, and is another one", len(p.dictionary))
	}
	if len(p.values) != 256 || p.values["000"] != ' ' || p.values["0010"] != 'a' || p.values["0011"] != 'e' || p.values["111111111111"] != 255 {
		t.Errorf("its code is another one: %v", p.values)
	}
	rapid.Check(t, func(t *rapid.T) {
		text := shortText(t)
		if encoded, ok := Append(nil, text); ok && !bytes.Equal(p.decode(t, encoded), text) {
			t.Errorf("%q is read as %q", text, p.decode(t, encoded))
		}
	})
}
