package redact

import (
	"bytes"
	"slices"
	"sync"
)

// Stream finds credentials spread over the events of a streamed answer. Models send a credential in pieces of a few
// letters, and no single event contains it.
type Stream struct {
	redactor *Redactor
	texts    []spread
	found    []Match // scratch
}

// spread is the unsettled rest of a text that came in pieces.
type spread struct {
	id    int32
	text  []byte
	parts []part
}

// part maps text[at:], up to the next part, to the stream from start on.
type part struct {
	at    int
	start int64
}

var streams = sync.Pool{New: func() any { return new(Stream) }}

// NewStream starts to follow a stream. The caller releases it at the end.
func (r *Redactor) NewStream() *Stream {
	s := streams.Get().(*Stream)
	s.redactor = r
	return s
}

// Limits on streams whose memory is reused.
const (
	mostTexts = 8
	mostText  = 64 << 10 // bytes of one, and pieces
)

// Release returns the memory to the pool. s must not be used afterwards.
func (s *Stream) Release() {
	if len(s.texts) > mostTexts || slices.ContainsFunc(s.texts, func(t spread) bool { return max(cap(t.text), cap(t.parts)) > mostText }) {
		return
	}
	s.redactor, s.texts, s.found = nil, s.texts[:0], s.found[:0]
	streams.Put(s)
}

// Add appends a fragment to the text with that id: the body of a JSON string, still escaped, at offset start of the
// stream.
func (s *Stream) Add(id int32, start int64, fragment []byte) {
	i := slices.IndexFunc(s.texts, func(t spread) bool { return t.id == id })
	if i < 0 {
		i = len(s.texts)
		s.texts = slices.Grow(s.texts, 1)[:i+1]
		s.texts[i] = spread{id: id, text: s.texts[i].text[:0], parts: s.texts[i].parts[:0]}
	}
	t := &s.texts[i]
	t.parts = append(t.parts, part{len(t.text), start})
	t.text = append(t.text, fragment...)
}

// Settle visits what has to be masked, with its name and place in the stream, once per fragment; first marks the first
// fragment of a match. It leaves for later what could still become, or continue, a credential, and returns the offset
// of the first such place, or limit if there is none. With final nothing is left.
func (s *Stream) Settle(final bool, limit int64, visit func(name string, start, end int64, first bool)) (open int64) {
	open = limit
	for i := range s.texts {
		t := &s.texts[i]
		s.found = s.redactor.find(s.found[:0], t.text, inString)
		settled := len(t.text)
		begun := ""
		if final {
			begun = s.redactor.mostlySaid(t.text)
			if begun != "" {
				s.found = append(s.found, Match{len(t.text) - len(begun), len(t.text), valueName})
			}
		} else {
			settled = s.redactor.settledIn(t.text, s.found)
		}
		for _, m := range s.found {
			if m.End <= settled {
				t.visit(m, visit)
			}
		}
		if final {
			t.carry(begun)
			continue
		}
		t.drop(settled)
		if len(t.parts) > 0 {
			open = min(open, t.parts[0].start)
		}
	}
	return open
}

// visit reports a match, fragment by fragment.
func (t *spread) visit(m Match, visit func(name string, start, end int64, first bool)) {
	first := true
	for i, p := range t.parts {
		end := len(t.text)
		if i+1 < len(t.parts) {
			end = t.parts[i+1].at
		}
		from, to := max(m.Start, p.at), min(m.End, end)
		if from < to {
			visit(m.Name, p.start+int64(from-p.at), p.start+int64(to-p.at), first)
			first = false
		}
	}
}

// drop discards what is settled.
func (t *spread) drop(settled int) {
	kept := t.parts[:0]
	for i, p := range t.parts {
		end := len(t.text)
		if i+1 < len(t.parts) {
			end = t.parts[i+1].at
		}
		if end <= settled {
			continue
		}
		if p.at < settled {
			p.start += int64(settled - p.at)
			p.at = settled
		}
		p.at -= settled
		kept = append(kept, p)
	}
	t.parts = kept
	t.text = append(t.text[:0], t.text[settled:]...)
}

// carry discards everything except unfinished credentials: a private key without its end, or the text begun.
func (t *spread) carry(begun string) {
	inside := unfinishedKey(t.text) >= 0
	t.parts, t.text = t.parts[:0], t.text[:0]
	switch {
	case begun != "":
		t.text = append(t.text, begun...)
	case inside:
		t.text = append(append(append(t.text, "-----BEGIN PRIVATE KEY-----"...), bytes.Repeat([]byte{'A'}, pemEnough)...), '\n')
	}
}

// begun returns where a credential recognized by value begins that would continue after the text, how many of its
// letters are there and how many it has; len(text) if there is none.
func (r *Redactor) begun(text []byte) (start, letters, of int) {
	start = len(text)
	installation, others := r.inUse()
	for _, v := range [...]*Values{installation, others} {
		if v == nil {
			continue
		}
		from := back(text, len(text)-min(escapedLength*v.longest, window))
		tail, p := text[from:], plain(text[from:])
		if p != nil {
			tail = p.text
		}
		at, length := v.begun(tail)
		there := len(tail) - at
		if p != nil {
			at = int(p.at[at])
			p.release()
		}
		if from+at < start {
			start, letters, of = from+at, there, length
		}
	}
	return start, letters, of
}

// escapedLength is how many bytes an escaped letter takes in JSON, including one more backslash.
const escapedLength = len(`\\u0041`)

// mostlySaid returns the end of a text if it has half of a credential or more, but not all of it; "" otherwise.
func (r *Redactor) mostlySaid(text []byte) string {
	start, letters, of := r.begun(text)
	if letters < shortestValue || 2*letters < of {
		return ""
	}
	return string(text[start:])
}

const (
	undecided = 256 // bytes at the end of a text that may become part of a credential
	context   = 64  // bytes before a credential that may identify it
)

// Settled returns the offset up to which matches in a growing text can no longer change, for the built-in shapes and
// for patterns that match at most 256 bytes.
func (r *Redactor) Settled(text []byte) int { return r.settledIn(text, r.find(nil, text, inJSON)) }

// settledIn is Settled for a text with known matches.
func (r *Redactor) settledIn(text []byte, found []Match) int {
	at := max(0, len(text)-undecided)
	for at > 0 && len(text)-at < longestToken && (classes[text[at-1]] != 0 || text[at-1] == '\\') {
		at--
	}
	at = back(text, at-context)
	if begun, _, _ := r.begun(text); begun < at {
		at = back(text, begun)
	}
	if begin := unfinishedKey(text); begin >= 0 {
		at = min(at, begin)
	}
	for i, m := range slices.Backward(found) {
		if m.Start-context >= at || m.End <= at {
			continue
		}
		before := back(text, m.Start-context)
		if i > 0 { // text masked before it identifies no credential
			before = max(before, found[i-1].End)
		}
		at = min(at, before)
	}
	return at
}

// back returns a place, or the nearest one before it that is outside of any escape.
func back(text []byte, at int) int {
	if at <= 0 {
		return 0
	}
	for i := 1; i <= 6 && i <= at; i++ {
		if text[at-i] == '\\' {
			return back(text, at-i)
		}
	}
	return at
}

// unfinishedKey returns the start of a private key without an end; -1 if there is none.
func unfinishedKey(text []byte) int {
	from := max(0, len(text)-pemBody)
	if !bytes.Contains(text[from:], pemBegin) {
		return -1 // LastIndex takes ten times as long
	}
	begin := bytes.LastIndex(text[from:], pemBegin)
	if bytes.Contains(text[from+begin:], pemEnd) {
		return -1
	}
	return from + begin
}
