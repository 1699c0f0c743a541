package codec

import "slices"

// Insertion is text that is put into a body.
type Insertion struct {
	At   int // in front of this byte of the body
	Text []byte
}

// Insert appends to dst the body with insertions, which ascend and lie inside items, and lets the envelope go by it. The body
// itself stays as it is, and so do the lists that the envelope had before.
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
	for _, span := range []*Span{&e.model, &e.Metadata, &e.usage} {
		*span = (&shift{rest: insertions}).span(*span)
	}
	return append(dst, body[at:]...)
}

// shifted gives where spans stand after insertions. Both ascend.
func shifted(spans []Span, insertions []Insertion) []Span {
	moved, shift := make([]Span, len(spans)), shift{rest: insertions}
	for i, s := range spans {
		moved[i] = shift.span(s)
	}
	return moved
}

// shift follows a body and the insertions into it.
type shift struct {
	rest   []Insertion // behind the byte that was asked for last
	passed int         // bytes of those in front of it
}

// span gives where a span stands, which does not begin before the end of the last one. It grows by what is inserted inside it.
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
