// Package redact finds and masks credentials before bodies are stored. It works on bytes.
//
// A mask is as long as what it covers and leaves quotes and escapes alone, so offsets stay valid and JSON stays JSON.
// The part that identifies a kind of credential (sk-ant-api03-, AKIA, -----BEGIN PRIVATE KEY-----) stays too, so that a
// reader sees what was there. The same bytes are always masked the same way, and masking twice changes nothing.
//
// Credentials of this installation are recognized by value. Others are recognized by shape: a prefix that their issuer
// chose, or the words around them, which are a name such as DB_PASSWORD or x-api-key, a sign, and a value that is no
// placeholder, no code and no plain word. A password with neither is not found; [Options.Patterns] are for those.
// Letters written as \u00XX are recognized too, also in JSON inside strings of JSON.
package redact

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/mnemeproxy/mneme/codec"
)

// Options configure what is masked.
type Options struct {
	Builtin  bool      // the shapes of credentials, and the names before them, that this package knows
	Patterns []Pattern // what else is to be masked
}

// Redactor finds credentials. It may be used from any goroutine. A nil one finds nothing.
type Redactor struct {
	*base
	values *Values // in addition to those of base; may be nil
}

// base is shared by a redactor and those derived from it.
type base struct {
	builtin  bool
	patterns []pattern
	clean    *codec.FingerprintSet // items without credentials

	guarding sync.Mutex // held while guarded changes
	guarded  atomic.Pointer[guarded]
}

// guarded are the credentials of the installation.
type guarded struct {
	list   []string
	values *Values // of list; may be nil
}

// New returns a redactor. Its error describes the fault of a pattern.
func New(o Options) (*Redactor, error) {
	patterns, err := compile(o.Patterns)
	if err != nil {
		return nil, err
	}
	return &Redactor{base: &base{builtin: o.Builtin, patterns: patterns, clean: new(codec.FingerprintSet)}}, nil
}

// Guard adds credentials of the installation: this redactor and all that were or will be derived from it mask them
// everywhere. See [Values] for those that are too plain.
func (r *Redactor) Guard(credentials ...string) {
	if r == nil {
		return
	}
	r.guarding.Lock()
	defer r.guarding.Unlock()
	var list []string
	if before := r.guarded.Load(); before != nil {
		list = slices.Clone(before.list)
	}
	for _, credential := range credentials {
		if credential != "" && !slices.Contains(list, credential) {
			list = append(list, credential)
		}
	}
	r.guarded.Store(&guarded{list, newValues(list)})
}

// With returns a redactor that also masks these credentials, replacing those of an earlier With.
func (r *Redactor) With(credentials ...string) *Redactor {
	if r == nil {
		return nil
	}
	values := newValues(credentials)
	if values == nil && r.values == nil {
		return r
	}
	return &Redactor{base: r.base, values: values}
}

// inUse returns the credentials that are recognized by value; either may be nil.
func (r *Redactor) inUse() (installation, others *Values) {
	if g := r.guarded.Load(); g != nil {
		installation = g.values
	}
	return installation, r.values
}

// MaskKnown is [Redactor.Mask] for only the credentials recognized by value.
func (r *Redactor) MaskKnown(text []byte) (found []Match) {
	if found = r.find(nil, text, known); len(found) > 0 {
		Mask(text, found)
	}
	return found
}

// Match is a range of text to mask, and the name of what it is.
type Match struct {
	Start, End int
	Name       string
}

// rounds is how often a text is searched again after something in it was masked: the text next to a mask may have
// become a credential itself. The limit stops patterns that match their own masks.
const rounds = 4

// Mask masks text in place, which is JSON or part of it, or an event stream, and returns what it found.
func (r *Redactor) Mask(text []byte) (found []Match) {
	for range rounds {
		matches := r.find(nil, text, inJSON)
		if len(matches) == 0 {
			break
		}
		Mask(text, matches)
		found = append(found, matches...)
	}
	return found
}

// What to search a text for.
type scope uint8

const (
	inJSON   scope = iota // everything, in JSON or part of it
	inString              // everything, in text that is inside one JSON string
	known                 // only credentials recognized by value
)

// find appends the matches of text.
func (r *Redactor) find(dst []Match, text []byte, what scope) []Match {
	if r == nil {
		return dst
	}
	from := len(dst)
	dst = r.findWritten(dst, text, what, true)
	for start, end := nextWindow(text, 0); start >= 0; start, end = nextWindow(text, end-overlap) {
		if p := plain(text[start:end]); p != nil {
			written := len(dst)
			dst = r.findWritten(dst, p.text, what, end-start == len(text))
			p.back(dst[written:], start)
			p.release()
		}
		if end == len(text) {
			break
		}
	}
	return mergeFrom(dst, from)
}

// findWritten appends the matches in the text as written. Patterns need whole texts, to know where strings begin.
func (r *Redactor) findWritten(dst []Match, text []byte, what scope, whole bool) []Match {
	from := len(dst)
	dst = r.findValues(dst, text)
	if what == known {
		return dst
	}
	if r.builtin {
		dst = findTokens(dst, text)
		if !isPlainPiece(text) {
			dst = findPrivateKeys(dst, text)
			dst = findPasswordsInURLs(dst, text)
			dst = findNamed(dst, from, text)
		}
	}
	if whole {
		for i := range r.patterns {
			dst = r.patterns[i].find(dst, text, what == inString)
		}
	}
	return dst
}

func (r *Redactor) findValues(dst []Match, text []byte) []Match {
	installation, others := r.inUse()
	if installation != nil {
		dst = installation.find(dst, text)
	}
	if others != nil {
		dst = others.find(dst, text)
	}
	return dst
}

// mergeFrom sorts and joins the matches from an index on.
func mergeFrom(matches []Match, from int) []Match {
	if len(matches)-from < 2 {
		return matches
	}
	return matches[:from+merge(matches[from:])]
}

// merge sorts matches and joins overlapping ones under the name of the first. It returns how many are left.
func merge(matches []Match) int {
	slices.SortStableFunc(matches, func(a, b Match) int { return cmp.Compare(a.Start, b.Start) })
	last := 0
	for _, m := range matches[1:] {
		if m.Start < matches[last].End {
			matches[last].End = max(matches[last].End, m.End)
			continue
		}
		last++
		matches[last] = m
	}
	return last + 1
}

// Holds reports whether text has something to mask.
func (r *Redactor) Holds(text []byte) bool { return len(r.find(nil, text, inJSON)) > 0 }

// Body masks the body of a request. items are the ranges of its messages, tools and so on, and prints their
// fingerprints: items without credentials are not read again. If nothing is found the result is body itself, else a
// copy of the same length, for which the fingerprints are invalid; body is not changed.
func (r *Redactor) Body(body []byte, items []codec.Span, prints []codec.Fingerprint) (masked []byte, tally Tally) {
	if r == nil {
		return body, nil
	}
	found := r.findInBody(body, items, prints)
	if len(found) == 0 {
		return body, nil
	}
	masked = slices.Clone(body)
	Mask(masked, found)
	for range rounds - 1 {
		more := r.findInBody(masked, items, nil)
		if len(more) == 0 {
			break
		}
		Mask(masked, more)
		found = append(found, more...)
	}
	return masked, Count(found)
}

func (r *Redactor) findInBody(body []byte, items []codec.Span, prints []codec.Fingerprint) (matches []Match) {
	at := 0
	for i, item := range items {
		if item.Start < at || item.End < item.Start || item.End > len(body) {
			continue
		}
		var print codec.Fingerprint
		if i < len(prints) {
			print = prints[i]
		}
		matches = r.findAt(matches, body, at, item.Start)
		matches = r.findInItem(matches, body, item, print)
		at = item.End
	}
	return r.findAt(matches, body, at, len(body))
}

func (r *Redactor) findInItem(dst []Match, body []byte, item codec.Span, print codec.Fingerprint) []Match {
	print = r.salted(print)
	if r.clean.Has(print) {
		return dst
	}
	from := len(dst)
	if dst = r.findAt(dst, body, item.Start, item.End); len(dst) == from {
		r.clean.Add(print)
	}
	return dst
}

// salted returns the fingerprint for the set of clean items: an item is clean of the credentials that were searched
// for.
func (r *Redactor) salted(print codec.Fingerprint) codec.Fingerprint {
	if print == 0 {
		return 0
	}
	installation, others := r.inUse()
	if installation != nil {
		print ^= codec.Fingerprint(installation.salt)
	}
	if others != nil {
		print ^= codec.Fingerprint(others.salt) << 1 // a value in both does not cancel itself out
	}
	return print
}

// findAt appends the matches of text[start:end], which is searched separately.
func (r *Redactor) findAt(dst []Match, text []byte, start, end int) []Match {
	if start == end {
		return dst
	}
	from := len(dst)
	dst = r.find(dst, text[start:end], inJSON)
	for i := from; i < len(dst); i++ {
		dst[i].Start += start
		dst[i].End += start
	}
	return dst
}

// Text masks a text that is not JSON, such as a header's value.
func (r *Redactor) Text(text string) (masked string, found []Match) { return r.text(text, inString) }

// JSON masks a text that is JSON.
func (r *Redactor) JSON(text string) (masked string, found []Match) { return r.text(text, inJSON) }

// Known masks the given credentials in a text.
func Known(text string, credentials ...string) string {
	return (&Redactor{base: new(base)}).With(credentials...).Known(text)
}

// Known masks the credentials in a text that are recognized by value, and nothing else.
func (r *Redactor) Known(text string) string {
	masked, _ := r.text(text, known)
	return masked
}

func (r *Redactor) text(text string, what scope) (masked string, found []Match) {
	if r == nil || text == "" || len(r.find(nil, unsafe.Slice(unsafe.StringData(text), len(text)), what)) == 0 { // read only
		return text, nil
	}
	b := []byte(text)
	for range rounds {
		matches := r.find(nil, b, what)
		Mask(b, matches)
		found = append(found, matches...)
	}
	return string(b), found
}
