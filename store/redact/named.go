package redact

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"slices"
)

// keyword is the end of a name that announces a secret: DB_PASSWORD, "x-api-key", config.clientSecret.
type keyword struct {
	name   string // the name in records
	key    string // in lower case, without '_', '-' and spaces
	chosen bool   // people choose such secrets; others are generated, long and random
	alone  bool   // it must be a whole word in the name, because other words end with it
}

var keywords = []keyword{
	{name: "password", key: "password", chosen: true},
	{name: "password", key: "passwd", chosen: true},
	{name: "password", key: "passphrase", chosen: true},
	{name: "password", key: "pass", chosen: true, alone: true},
	{name: "password", key: "pwd", chosen: true, alone: true},
	{name: "secret", key: "secret"},
	{name: "secret", key: "secretkey"},
	{name: "token", key: "token"},
	{name: "api_key", key: "apikey"},
	{name: "access_key", key: "accesskey"},
	{name: "private_key", key: "privatekey"},
	{name: authorization, key: "authorization"},
}

const authorization = "authorization"

// openTokens precede "token" in names of values that are not secret, such as page tokens and public keys.
var openTokens = []string{"page", "next", "sync", "continuation", "publickey"}

// byLast has the keywords by their last letter.
var byLast = func() (t [256][]keyword) {
	for _, k := range keywords {
		c := k.key[len(k.key)-1]
		t[c], t[c&^0x20] = append(t[c], k), append(t[c&^0x20], k)
	}
	return t
}()

// Bounds of named secrets, in bytes.
const (
	shortestChosen = 6
	shortestMade   = 10
	valueHead      = 192 // of a value, for judging it; only token characters may follow
	longestName    = 64  // of a name, with the characters between it and the value
	mostSpaces     = 8
	mostBefore     = 16 // between a name and the sign: quotes escaped several times, spaces
)

// findNamed appends the secrets assigned to names that announce them. More specific matches in dst[from:] stay.
func findNamed(dst []Match, from int, text []byte) []Match {
	dst = mergeFrom(dst, from)
	others := dst[from:len(dst):len(dst)]
	for _, sign := range [...]byte{':', '=', '>'} {
		for at := 0; ; {
			n := bytes.IndexByte(text[at:], sign)
			if n < 0 {
				break
			}
			at += n + 1
			if !mayEndName(text, at-1) {
				continue
			}
			if m := matchNamed(text, at-1); m.End > 0 && !overlaps(others, m) {
				dst = append(dst, m)
				at = m.End
			}
		}
	}
	return dst
}

// mayEndName reports whether the text before a sign may be a keyword, followed by quotes or a space.
func mayEndName(text []byte, sign int) bool {
	if sign < 2 {
		return false
	}
	switch text[sign-1] {
	case ' ', '"', '\'', '`':
		return !isLetter(text[sign-2]) || endsKeyword(text, sign-1)
	case ']':
		return true
	}
	return endsKeyword(text, sign)
}

// lastTwo holds the last two letters of every keyword, five bits each.
var lastTwo = func() (t [1 << 10]bool) {
	for _, k := range keywords {
		t[pair([]byte(k.key), len(k.key))] = true
	}
	return t
}()

func pair(text []byte, end int) int { return int(text[end-2]&31)<<5 | int(text[end-1]&31) }

// endsKeyword reports whether the two bytes before end may be the last ones of a keyword.
func endsKeyword(text []byte, end int) bool { return end >= 2 && lastTwo[pair(text, end)] }

// overlaps reports whether a match overlaps one of others, which are sorted.
func overlaps(others []Match, m Match) bool {
	i, _ := slices.BinarySearchFunc(others, m.Start, func(o Match, start int) int { return cmp.Compare(o.End, start+1) })
	return i < len(others) && others[i].Start < m.End
}

// matchNamed returns the secret after a sign; End is 0 if there is none.
func matchNamed(text []byte, sign int) Match {
	end := nameEnd(text, sign)
	if !endsKeyword(text, end) {
		return Match{}
	}
	k := keywordBefore(text, end)
	if k == nil {
		return Match{}
	}
	if text[sign] == '>' {
		return k.matchElement(text, sign+1)
	}
	return k.matchValue(text, sign+1)
}

// nameEnd returns the end of the name before a sign, without quotes.
func nameEnd(text []byte, sign int) int {
	end, low := sign, max(0, sign-mostBefore)
	for end > low && text[end-1] == ' ' {
		end--
	}
	if end > low && text[end-1] == ']' {
		end--
	}
	if end > low && isQuote(text[end-1]) {
		for end--; end > low && text[end-1] == '\\'; {
			end--
		}
	}
	return end
}

func isQuote(c byte) bool { return c == '"' || c == '\'' || c == '`' }

// keywordBefore returns the keyword that a name ends with; nil if there is none.
func keywordBefore(text []byte, end int) *keyword {
	for i := range byLast[text[end-1]] {
		k := &byLast[text[end-1]][i]
		start := wordBefore(text, end, k.key)
		switch {
		case start == end:
		case k.alone && start > 0 && classes[text[start-1]]&classAlnum != 0 && (isUpper(text[start-1]) || !isUpper(text[start])):
		case isVerdict(text, start, end):
		case k.key == "token" && slices.ContainsFunc(openTokens, func(p string) bool { return wordBefore(text, start, p) < start }):
		default:
			return k
		}
	}
	return nil
}

// isVerdict reports whether a name is what tools print before the names of tests: PASS.
func isVerdict(text []byte, start, end int) bool {
	return string(text[start:end]) == "PASS" && text[end] == ':' &&
		(start == 0 || text[start-1] == 'n' || classes[text[start-1]]&classRun == 0)
}

// wordBefore returns the start of word if it ends at end, in any case and with '_', '-' and spaces in it; end if it
// does not.
func wordBefore(text []byte, end int, word string) int {
	at := end
	for i := len(word) - 1; i >= 0; i-- {
		for i < len(word)-1 && at > 0 && (classes[text[at-1]]&classDash != 0 || text[at-1] == ' ') && end-at < longestName/2 {
			at--
		}
		if at--; at < 0 || text[at]|0x20 != word[i] {
			return end
		}
	}
	return at
}

// matchElement returns the secret in the text of an XML element.
func (k *keyword) matchElement(text []byte, at int) Match {
	v := readValue(text, at)
	if !v.ended || v.end == len(text) || text[v.end] != '<' || !k.fits(text, v) {
		return Match{}
	}
	return Match{v.start, v.end, k.name}
}

// matchValue returns the secret that is assigned after the first sign.
func (k *keyword) matchValue(text []byte, at int) Match {
	for low := at; at < len(text) && at-low < 2 && (text[at] == '=' || text[at] == '>'); {
		at++
	}
	v := readValue(text, skipSpaces(text, at))
	if k.name == authorization {
		v = afterScheme(text, v)
		if follows(text, v.start, "basic ") {
			plain, err := base64.StdEncoding.DecodeString(string(text[v.start:v.end]))
			if err != nil || bytes.IndexByte(plain, ':') <= 0 {
				return Match{}
			}
			return Match{v.start, v.end, k.name}
		}
	}
	if !v.ended && v.end-v.start < valueHead || !k.fits(text, v) {
		return Match{}
	}
	if !v.ended {
		v.end = stretch(text, v.end, v.start+longestToken, classToken)
		for v.end+1 < len(text) && text[v.end] == '\\' && text[v.end+1] == '/' { // as some encoders write it in JSON
			v.end = stretch(text, v.end+2, v.start+longestToken, classToken)
		}
	}
	return Match{v.start, v.end, k.name}
}

func skipSpaces(text []byte, at int) int {
	for low := at; at < len(text) && at-low < mostSpaces; {
		switch text[at] {
		case ' ', '\t':
			at++
		case '\\':
			tab := at
			for tab < len(text) && tab-at < 1<<deepest && text[tab] == '\\' {
				tab++
			}
			if tab == len(text) || text[tab] != 't' {
				return at
			}
			at = tab + 1
		default:
			return at
		}
	}
	return at
}

// value is an assigned value, or its head.
type value struct {
	start, end int
	quote      byte // before it; 0 if there is none
	slashes    int  // before the quote
	spaced     bool // there is a space before it
	ended      bool // it does not continue
	closed     bool // with its opening quote
}

// readValue reads the value that begins at a place, or with the quote there.
func readValue(text []byte, at int) value {
	v := value{spaced: at > 0 && text[at-1] == ' '}
	start := at
	for start < len(text) && start-at < 1<<deepest && text[start] == '\\' {
		start++
	}
	if start < len(text) && isQuote(text[start]) {
		v.quote, v.slashes = text[start], start-at
		start++
	} else {
		start = at
	}
	v.start = start
	v.read(text)
	return v
}

// read finds the end of a value, whose start and quote are known.
func (v *value) read(text []byte) {
	v.closed = false
	limit := min(v.start+valueHead, len(text))
	tokens := true // only token characters
	for v.end = v.start; v.end < limit; v.end++ {
		c := text[v.end]
		if classes[c]&classToken != 0 {
			continue
		}
		switch {
		case c == '\\':
			slashes := stretchOf(text, v.end, limit, '\\')
			if !v.goesOn(text, v.end+slashes, slashes) {
				v.ended = true
				return
			}
			v.end += slashes
		case c == '&' && v.quote == 0 && beginsField(text[v.end+1:]), v.ends(c):
			v.ended, v.closed = true, c == v.quote && v.slashes == 0
			return
		}
		tokens = tokens && c == '\\' && text[v.end] == '/'
	}
	v.ended = v.end >= len(text) || tokens && classes[text[v.end]]&classToken == 0
	if !v.ended && !tokens {
		v.end = v.start // a text
	}
}

// ends reports whether a byte outside the token characters ends the value.
func (v *value) ends(c byte) bool {
	switch {
	case c <= ' ', c >= 0x7f, c == '"', c == v.quote:
		return true
	case v.quote != 0:
		return false
	}
	return isQuote(c) || bytes.IndexByte([]byte(",;()[]{}<>|"), c) >= 0
}

// goesOn reports whether a value continues with the byte at a place, after that many backslashes: it is a slash, or a
// quote of an inner string.
func (v *value) goesOn(text []byte, at, slashes int) bool {
	if at >= len(text) {
		return false
	}
	if text[at] == '/' {
		return true
	}
	if v.quote != '"' || text[at] != '"' {
		return false
	}
	if slashes%(2*(v.slashes+1)) > v.slashes {
		return true
	}
	v.closed = true
	return false
}

// stretchOf counts how often a byte repeats from start on, before limit.
func stretchOf(text []byte, start, limit int, c byte) (n int) {
	for start+n < limit && text[start+n] == c {
		n++
	}
	return n
}

// beginsField reports whether a text begins with a name and '=', like the next field of a query.
func beginsField(text []byte) bool {
	n := stretch(text, 0, longestName/2, classRun)
	return n > 0 && n < len(text) && text[n] == '='
}

// afterScheme returns a value without its authentication scheme, as in "Authorization: token …" (RFC 9110, section
// 11.4).
func afterScheme(text []byte, v value) value {
	const longest = 16
	n := v.end - v.start
	if n == 0 || n > longest || v.end+1 >= len(text) || text[v.end] != ' ' || holdsDigit(text[v.start:v.end]) {
		return v
	}
	v.start, v.spaced = v.end+1, true
	v.read(text)
	return v
}

// fits reports whether a value is a secret, not a placeholder, variable, path or word.
func (k *keyword) fits(text []byte, v value) bool {
	value := text[v.start:v.end]
	least, bitsEach := shortestMade, 3.0
	if k.chosen {
		least, bitsEach = shortestChosen, 2
	}
	if len(value) < least || v.quote != 0 && v.ended && !v.closed && v.end < len(text) && text[v.end] == ' ' {
		return false
	}
	digit := holdsDigit(value)
	if !digit && (k.chosen || len(value) < randomRow || !randomLetters(value)) || !holdsLetter(value) {
		return false
	}
	if isReference(value) || !v.closed && v.end < len(text) && isOpening(text[v.end]) ||
		v.quote == 0 && wordBefore(value, len(value), k.key) < len(value) { // variables are often named like their content
		return false
	}
	if !digit {
		return true
	}
	if entropy(value) < bitsEach {
		return false
	}
	if !isWritten(value) {
		return true
	}
	return k.chosen && !k.isCode(text, v)
}

// isReference reports whether a value is a reference to another one, or was masked.
func isReference(value []byte) bool {
	switch second := value[1]; value[0] {
	case '$':
		if second == '{' || second == '(' || second|0x20 >= 'a' && second|0x20 <= 'z' || second == '_' {
			return true
		}
	case '%':
		if second < '0' || hexDigit(second) > 15 {
			return true
		}
	case '/', '~', '.':
		if value[0] == '/' && !isWritten(value) && len(value) >= shortestMade && bytes.Count(value, []byte("/")) < 2 {
			return false // base64
		}
		return true
	case '^', '`', '\'', '"':
		return true
	}
	return bytes.Contains(value, []byte("***")) || bytes.Contains(value, []byte("...")) || bytes.Contains(value, []byte("://")) ||
		bytes.Contains(value, []byte("${")) || bytes.IndexByte(value, '{') >= 0 && bytes.IndexByte(value, '}') >= 0
}

// isOpening reports whether a byte after a word makes it the name of something called or indexed.
func isOpening(c byte) bool { return c == '(' || c == '[' || c == '{' }

// isCode reports whether a value of only words is what programs and texts have after the name of a password.
func (k *keyword) isCode(text []byte, v value) bool {
	value := text[v.start:v.end]
	switch {
	case bytes.ContainsAny(value, ":|/"):
		return true
	case v.quote != 0:
		return false
	case bytes.IndexByte(value, '.') >= 0, mentions(value):
		return true
	case v.end == len(text):
		return false
	}
	c := text[v.end]
	return c == ')' || v.spaced && c == ';'
}

// mentions reports whether a value is about passwords.
func mentions(value []byte) bool {
	for i := 0; i+len("pass") <= len(value); i++ {
		if wordBefore(value, i+len("pass"), "pass") == i || wordBefore(value, min(i+len("secret"), len(value)), "secret") == i {
			return true
		}
	}
	return false
}
