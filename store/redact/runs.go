package redact

// Every credential that is recognized by its prefix contains a long run of letters, digits, '-' and '_', which is rare
// in prose and code. So only every fifteenth byte is examined, and if it could be part of such a run, the start of the
// run is searched backwards: most bytes are never read.

// runLength is the shortest run that is examined: "SecretAccessKey" is the shortest that matters.
const runLength = 15

// Classes of bytes.
const (
	classRun    = 1 << iota // part of a run: letters, digits, '-', '_'
	classDash               // '-' and '_'
	classAlnum              // letters and digits
	classDigit              // 0-9
	classHex                // hexadecimal digits
	classBase64             // of base64 with its padding, in the standard alphabet
	classToken              // of a bearer token (RFC 6750, section 2.1)
	classUpper              // upper-case letters and digits
)

var classes = func() (t [256]byte) {
	add := func(chars string, class byte) {
		for i := range len(chars) {
			t[chars[i]] |= class
		}
	}
	const (
		digits = "0123456789"
		lower  = "abcdefghijklmnopqrstuvwxyz"
		upper  = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	)
	add(digits+lower+upper, classRun|classAlnum|classBase64|classToken)
	add("-_", classRun|classDash|classToken)
	add(digits, classDigit)
	add(digits+"abcdefABCDEF", classHex)
	add("+/=", classBase64|classToken)
	add(".~", classToken)
	add(digits+upper, classUpper)
	return t
}()

// findTokens appends the credentials that contain a long run.
func findTokens(dst []Match, text []byte) []Match {
	for at := runLength - 1; at < len(text); {
		i, first := at, at-runLength+1
		for i >= first && classes[text[i]]&classRun != 0 {
			i--
		}
		if i >= first {
			at = i + runLength
			continue
		}
		end := at + 1
		seen := byte(0)
		for end < len(text) && classes[text[end]]&classRun != 0 {
			seen |= classes[text[end]]
			end++
		}
		for _, c := range text[first : at+1] {
			seen |= classes[c]
		}
		m := findInRun(text, first, end, seen&classDash != 0)
		switch {
		case m.End <= first: // none; a match that ended before the run would lead back to it forever
			at = end + runLength
		case m.End < len(text) && classes[text[m.End]]&classRun == 0:
			dst = append(dst, m)
			at = m.End + runLength
		default: // the rest of the run is searched separately, as it will be once the match is masked
			dst = append(dst, m)
			at = m.End + runLength - 1
		}
	}
	return dst
}

// findInRun returns the credential that begins in text[start:end], or whose secret part does; End is 0 if there is
// none.
func findInRun(text []byte, start, end int, dashes bool) Match {
	start = afterEscape(text, start, end)
	if m := matchShape(text, start, end); m.End > 0 {
		return m
	}
	if m := matchContext(text, start, end); m.End > 0 {
		return m
	}
	if !dashes {
		return Match{}
	}
	for i := start; i < end; i++ {
		if classes[text[i]]&classDash == 0 {
			continue
		}
		if m := matchShape(text, i+1, end); m.End > 0 {
			return m
		}
	}
	return Match{}
}

// afterEscape returns the start of a run after an escape whose letters precede it: \nsk-…, \u003csk-…, %20sk-….
func afterEscape(text []byte, start, end int) int {
	if start == 0 {
		return start
	}
	skip := 0
	switch {
	case text[start-1] == '%':
		skip = 2
	case text[start-1] != '\\':
	case text[start] == 'u':
		skip = 5
	default:
		skip = 1
	}
	return min(start+skip, end)
}

// stretch returns the end of the bytes of a class, from start on and before limit.
func stretch(text []byte, start, limit int, class byte) int {
	limit = min(limit, len(text))
	for start < limit && classes[text[start]]&class != 0 {
		start++
	}
	return start
}

func holdsDigit(text []byte) bool {
	for _, c := range text {
		if classes[c]&classDigit != 0 {
			return true
		}
	}
	return false
}
