package codec

import "slices"

// Insertion is text that is put into a body.
type Insertion struct {
	At   int // in front of this byte of the body
	Text []byte
}

// Insert gives the body with insertions, which ascend and lie inside items, and lets the envelope go by it. The body
// itself stays as it is, and so do the lists that the envelope had before.
func (e *Envelope) Insert(body []byte, insertions []Insertion) []byte {
	size := len(body)
	for i := range insertions {
		size += len(insertions[i].Text)
	}
	out, at := make([]byte, 0, size), 0
	for _, in := range insertions {
		out = append(append(out, body[at:in.At]...), in.Text...)
		at = in.At
	}
	for _, spans := range []*[]Span{&e.Opening, &e.Items, &e.Tools, &e.blocks, &e.cuts} {
		*spans = Shifted(*spans, insertions)
	}
	e.model, e.Metadata, e.usage = shifted(e.model, insertions), shifted(e.Metadata, insertions), shifted(e.usage, insertions)
	return append(out, body[at:]...)
}

// Shifted gives where spans stand after insertions.
func Shifted(spans []Span, insertions []Insertion) []Span {
	moved := make([]Span, len(spans))
	for i, s := range spans {
		moved[i] = shifted(s, insertions)
	}
	return moved
}

// shifted is where a span stands after insertions; it grows by those inside it.
func shifted(s Span, insertions []Insertion) Span {
	if s == (Span{}) {
		return s
	}
	return Span{s.Start + before(s.Start, insertions), s.End + before(s.End, insertions)}
}

// before is how many bytes are inserted in front of a byte.
func before(at int, insertions []Insertion) (size int) {
	n, _ := slices.BinarySearchFunc(insertions, at, func(in Insertion, at int) int { return in.At - at })
	for i := range insertions[:n] {
		size += len(insertions[i].Text)
	}
	return size
}
