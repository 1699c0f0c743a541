package redact

// Mask replaces the matches with asterisks. Quotes, control characters and escapes stay, except escapes of the form
// \uXXXX for a character that would be masked: they become the escape of an asterisk.
func Mask(text []byte, matches []Match) {
	for _, m := range matches {
		maskStretch(text, m.Start, m.End)
	}
}

func maskStretch(text []byte, start, end int) {
	for i := escapeEnd(text, start); i < end; {
		switch c := text[i]; {
		case c == '\\':
			i = maskEscape(text, i)
			continue
		case c != '"' && c >= 0x20:
			text[i] = '*'
		}
		i++
	}
}

// maskEscape masks the escape that begins with the backslash at i, and returns its end.
func maskEscape(text []byte, i int) int {
	u := i
	for u < len(text) && text[u] == '\\' {
		u++
	}
	if u+5 > len(text) || text[u] != 'u' {
		return escapeEnd(text, i+1)
	}
	var value uint32
	for _, c := range text[u+1 : u+5] {
		digit := hexDigit(c)
		if digit > 15 {
			return escapeEnd(text, i+1)
		}
		value = value<<4 | uint32(digit)
	}
	if value >= 0x20 && value != '"' && value != '\\' {
		copy(text[u+1:], "002a")
	}
	return u + 5
}

// escapeEnd returns the end of the escape that i is inside of; i if there is none. Text that was escaped twice has
// several backslashes before one letter: they all stay, so that the inner text stays valid too.
func escapeEnd(text []byte, i int) int {
	for back := 1; back <= 5 && back <= i; back++ {
		if text[i-back] != '\\' {
			continue
		}
		switch {
		case i >= len(text) || text[i] == '\\' && back == 1:
			return i
		case text[i-back+1] == 'u':
			return min(max(i, i-back+6), len(text))
		case back == 1:
			return i + 1
		}
		return i
	}
	return i
}
