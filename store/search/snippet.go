package search

import (
	"cmp"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/mnemeproxy/mneme/store/search/lexical"
)

// Approximate lengths of a snippet in bytes: the default and the maximum.
const (
	snippetSize = 240
	maxSnippet  = 2000
)

// snippet returns the passage that is most relevant to the query: the one with most of its words.
func snippet(q *lexical.Query, said lexical.Said, names string, size int) (role, text string, highlights [][2]int) {
	size = cmp.Or(size, snippetSize)
	from, count := 0, -1
	for _, side := range []struct{ role, text string }{{"assistant", said.Assistant}, {"user", said.User}, {"tool", said.Output}} {
		if side.text == "" {
			continue
		}
		start, marked := densest(q.Likely(side.text), size)
		if marked > count {
			role, text, from, count = side.role, side.text, start, marked
		}
	}
	if role == "" { // nothing was said; the turn was found by names in its tool calls and results
		role, text = "tool", names
		from, _ = densest(q.Likely(text), size)
	}
	text = around(text, from, size)
	highlights = [][2]int{}
	for _, place := range q.Highlights(text) {
		first := utf8.RuneCountInString(text[:place[0]])
		highlights = append(highlights, [2]int{first, first + utf8.RuneCountInString(text[place[0]:place[1]])})
	}
	return role, text, highlights
}

// densest finds the range of size bytes with the most matches.
func densest(places [][2]int, size int) (start, count int) {
	for i, last := 0, 0; i < len(places); i++ {
		for last < len(places) && places[last][1]-places[i][0] <= size {
			last++
		}
		if last-i > count {
			start, count = places[i][0], last-i
		}
	}
	return start, count
}

// around returns a snippet of text that begins a little before from, at word boundaries if there are any.
func around(text string, from, size int) string {
	const lead = 40
	start := max(from-lead, 0)
	for start > 0 && !utf8.RuneStart(text[start]) {
		start--
	}
	if start > 0 {
		if i := strings.IndexAny(text[start:from], " \n"); i >= 0 {
			start += i + 1
		}
	}
	end := min(start+size, len(text))
	for end < len(text) && !utf8.RuneStart(text[end]) {
		end++
	}
	if end < len(text) {
		if i := strings.LastIndexAny(text[start:end], " \n"); i > size/2 {
			end = start + i
		}
	}
	return strings.TrimSpace(oneLine(text[start:end]))
}

// oneLine returns a text without characters that break a line or control a terminal.
func oneLine(text string) string { return strings.Join(strings.FieldsFunc(text, isBreak), " ") }

// isBreak reports whether a one-line snippet has a blank instead of a character: line breaks, and characters that control a terminal.
func isBreak(r rune) bool {
	return r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 || r == '\u2028' || r == '\u2029' ||
		r >= '\u202a' && r <= '\u202e' || r >= '\u2066' && r <= '\u2069'
}

// halved returns what remains of 1 after a number of half-lives.
func halved(times float64) float64 { return math.Pow(0.5, max(times, 0)) }
