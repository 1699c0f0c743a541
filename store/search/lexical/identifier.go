package lexical

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// identifiers returns the names in a text that have to be found literally: paths, symbols, flags, versions, error
// codes, hashes. Each is returned whole and in lower case; a path also by its last element, a qualified symbol by its
// last name, and both also without a line number or the parentheses of a call.
func identifiers(text []byte) []token { return appendIdentifiers(nil, text) }

func appendIdentifiers(tokens []token, text []byte) []token {
	for start := 0; start < len(text); {
		if !identifierByte(text[start]) {
			start++
			continue
		}
		end := start
		for end < len(text) && identifierByte(text[end]) {
			end++
		}
		if !plainWord(text[start:end]) {
			tokens = appendIdentifier(tokens, text, start, end)
		}
		start = end
	}
	return tokens
}

func identifierByte(c byte) bool { return identifierBytes[c] }

// identifierBytes has the bytes of identifiers.
var identifierBytes = func() (table [256]bool) {
	for c := range table {
		b := byte(c)
		table[c] = b >= utf8.RuneSelf || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' ||
			strings.IndexByte(`_-./\:#@+~`, b) >= 0
	}
	return table
}()

// plainWord reports whether a word has only lower-case ASCII letters, as most have, which identify nothing. It may end
// a sentence.
func plainWord(word []byte) bool {
	for i, c := range word {
		if (c < 'a' || c > 'z') && (c != '.' || i < len(word)-1) {
			return false
		}
	}
	return true
}

func appendIdentifier(tokens []token, text []byte, start, end int) []token {
	for end > start && strings.IndexByte(`.:-/\#@+~`, text[end-1]) >= 0 {
		end--
	}
	for start < end && strings.IndexByte(`.:\#@+~`, text[start]) >= 0 && !dotFile(text[start:end]) {
		start++
	}
	word := text[start:end]
	if len(word) > maxTerm || !identifying(word) {
		return tokens
	}
	whole := fold(word)
	tokens = append(tokens, token{whole, start, end})
	var more [2]string
	for _, form := range appendForms(more[:0], whole) {
		if form != whole && len(form) > 1 {
			tokens = append(tokens, token{form, start, end})
		}
	}
	return tokens
}

// dotFile reports whether a word is a name such as .gitignore or ./run.
func dotFile(word []byte) bool {
	return len(word) > 1 && word[0] == '.' && word[1] != '.'
}

// appendForms appends the other forms of an identifier.
func appendForms(more []string, whole string) []string {
	bare := whole
	if i := strings.LastIndexByte(bare, ':'); i > 0 && digits(bare[i+1:]) { // file:line, and file:line:column
		bare = bare[:i]
		if j := strings.LastIndexByte(bare, ':'); j > 0 && digits(bare[j+1:]) {
			bare = bare[:j]
		}
		more = append(more, bare)
	}
	if i := strings.LastIndexAny(bare, `/\`); i >= 0 {
		return append(more, bare[i+1:])
	}
	if i := strings.LastIndex(bare, "::"); i >= 0 {
		return append(more, bare[i+2:])
	}
	if i := strings.LastIndexByte(bare, '.'); i > 0 && !digits(bare[i+1:]) && !fileSuffix(bare[i+1:]) {
		more = append(more, bare[i+1:])
	}
	return more
}

func digits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// fileSuffix reports whether s is short enough to be a file name extension, which is not a name by itself.
func fileSuffix(s string) bool { return len(s) <= 4 }

// identifying reports whether a word is a name and not prose: it has a digit among letters, an underscore, a slash, a
// dot or colon between letters, an inner capital, or a leading dash.
func identifying(word []byte) bool {
	var letters, numbers, marks, capitals int
	var before rune
	for i, r := range string(word) {
		switch {
		case unicode.IsDigit(r):
			numbers++
		case unicode.IsLetter(r):
			letters++
			if i > 0 && unicode.IsUpper(r) && unicode.IsLower(before) {
				capitals++
			}
		case r == '_' || r == '/' || r == '\\':
			marks++
		case r == '.' || r == ':':
			if unicode.IsLetter(before) || unicode.IsDigit(before) || i == 0 {
				marks++
			}
		case r == '-' && (i == 0 || numbers > 0):
			marks++
		}
		before = r
	}
	if letters+numbers < 2 {
		return false
	}
	return marks > 0 || capitals > 0 || numbers > 0
}

// Names returns the names in a text as they are written there, the most frequent first, at most limit.
func Names(text string, limit int) []string {
	type name struct {
		written string
		times   int
	}
	var found []*name
	known := make(map[string]*name)
	end := 0
	for _, t := range identifiers([]byte(text)) {
		if t.start < end {
			continue // another form of the one before
		}
		end = t.end
		n := known[t.term]
		if n == nil {
			n = &name{written: text[t.start:t.end]}
			known[t.term] = n
			found = append(found, n)
		}
		n.times++
	}
	slices.SortStableFunc(found, func(a, b *name) int { return b.times - a.times })
	var names []string
	for _, n := range found[:min(len(found), limit)] {
		names = append(names, n.written)
	}
	return names
}
