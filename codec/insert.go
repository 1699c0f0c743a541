package codec

import "slices"

// Insertion is text to insert into a body.
type Insertion struct {
	At   int // before this byte of the body
	Text []byte
}

// Insert appends to dst the body with insertions, which ascend and are inside items, and adjusts the envelope. The body
// itself does not change, nor do the envelope's former lists.
func (e *Envelope) Insert(dst, body []byte, insertions []Insertion) []byte {
	size := len(body)
	for i := range insertions {
		size += len(insertions[i].Text)
	}
	dst = slices.Grow(dst, size)
	at := 0
	for _, in := range insertions {
		dst = append(append(dst, body[at:in.At]...), in.Text...)
		at = in.At
	}
	for _, spans := range []*[]Span{&e.Opening, &e.Items, &e.Tools, &e.blocks, &e.cuts} {
		*spans = shifted(*spans, insertions)
	}
	for _, span := range []*Span{&e.model, &e.Metadata, &e.ClientMetadata, &e.usage} {
		*span = (&shift{rest: insertions}).span(*span)
	}
	return append(dst, body[at:]...)
}

// shifted returns the positions of spans after the insertions. Both ascend.
func shifted(spans []Span, insertions []Insertion) []Span {
	moved, shift := make([]Span, len(spans)), shift{rest: insertions}
	for i, s := range spans {
		moved[i] = shift.span(s)
	}
	return moved
}

// shift maps positions in a body to positions after the insertions.
type shift struct {
	rest   []Insertion // after the last queried byte
	passed int         // bytes of the insertions before it
}

// span returns the position of a span, which must not begin before the end of the last one. It includes what is
// inserted inside it.
func (s *shift) span(of Span) Span {
	start := s.offset(of.Start)
	return Span{Start: start, End: s.offset(of.End)}
}

func (s *shift) offset(at int) int {
	for len(s.rest) > 0 && s.rest[0].At < at {
		s.passed += len(s.rest[0].Text)
		s.rest = s.rest[1:]
	}
	return at + s.passed
}
