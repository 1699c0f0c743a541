package redact

// Mask puts asterisks in the place of the matches. Quotes, control characters and escapes stay.
func Mask(text []byte, matches []Match) {
	for _, m := range matches {
		maskStretch(text, m.Start, m.End)
	}
}

func maskStretch(text []byte, start, end int) {
	for i := escapeEnd(text, start); i < end; {
		switch c := text[i]; {
		case c == '\\':
			i = escapeEnd(text, i+1)
			continue
		case c != '"' && c >= 0x20:
			text[i] = '*'
		}
		i++
	}
}

// escapeEnd gives where an escape that i is inside of ends; i if it is inside of none. Text that was escaped twice has
// several backslashes before one letter: they all stay, so that what is inside stays valid too.
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
