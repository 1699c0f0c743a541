package redact

import (
	"bytes"
	"slices"
	"sync"
)

// Stream finds what is spread over the events of a streamed answer. Models say a credential in pieces of a few letters,
// and no single event holds it.
type Stream struct {
	redactor *Redactor
	texts    []spread
	found    []Match // scratch
}

// spread is a text that came in pieces, from where it is not settled yet.
type spread struct {
	id    int32
	text  []byte
	parts []part
}

// part says where a stretch of a text lies in the stream: text[at:], as far as the next part, from start on.
type part struct {
	at    int
	start int64
}

var streams = sync.Pool{New: func() any { return new(Stream) }}

// NewStream begins to follow a stream. It is to be released when that has ended.
func (r *Redactor) NewStream() *Stream {
	s := streams.Get().(*Stream)
	s.redactor = r
	return s
}

// What a stream may have held whose memory is used again.
const (
	mostTexts = 8
	mostText  = 64 << 10 // bytes of one, and pieces
)

// Release gives the memory back. s must not be used afterwards.
func (s *Stream) Release() {
	if len(s.texts) > mostTexts || slices.ContainsFunc(s.texts, func(t spread) bool { return max(cap(t.text), cap(t.parts)) > mostText }) {
		return
	}
	s.redactor, s.texts, s.found = nil, s.texts[:0], s.found[:0]
	streams.Put(s)
}

// Add appends a fragment to the text with that id: the body of a JSON string, still escaped, that lies in the stream
// from start on.
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

// Settle visits what has to be masked, by its name and where it lies in the stream, one visit for each fragment that
// holds some of it; first tells the first of them. What could still become a credential, or go on as one, is left for
// later: it gives where in the stream the first of that lies, and limit if there is none. With final nothing is left.
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

// visit tells of a match, fragment by fragment.
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

// drop forgets what is settled.
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

// carry forgets everything but what has begun and goes on: a private key whose end has not come, or the text begun.
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

// begun gives where in a text a credential begins that is known by its value and would go on behind it, and how much of it is
// there, in letters and of how many; len(text) if none does.
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

// escapedLength is how many bytes a letter takes that is escaped in JSON, and the backslash once more.
const escapedLength = len(`\\u0041`)

// mostlySaid is the end of a text that holds half of a credential or more, and not all of it; "" if it holds less.
func (r *Redactor) mostlySaid(text []byte) string {
	start, letters, of := r.begun(text)
	if letters < shortestValue || 2*letters < of {
		return ""
	}
	return string(text[start:])
}

const (
	undecided = 256 // bytes at the end of a text that may become part of a credential
	context   = 64  // bytes before a credential that may be what makes it one
)

// Settled gives up to where in a text that is still growing matches can no longer change, as far as the built-in shapes
// and patterns that match no more than 256 bytes are concerned.
func (r *Redactor) Settled(text []byte) int { return r.settledIn(text, r.find(nil, text, inJSON)) }

// settledIn is Settled for a text whose matches are known.
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
		if i > 0 { // what is masked before it makes nothing a credential
			before = max(before, found[i-1].End)
		}
		at = min(at, before)
	}
	return at
}

// back is a place, or the one before it that is outside of any escape.
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

// unfinishedKey gives where a private key begins that has no end yet; -1 if there is none.
func unfinishedKey(text []byte) int {
	from := max(0, len(text)-pemBody)
	begin := bytes.LastIndex(text[from:], pemBegin)
	if begin < 0 || bytes.Contains(text[from+begin:], pemEnd) {
		return -1
	}
	return from + begin
}
