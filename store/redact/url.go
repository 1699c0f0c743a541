package redact

import "bytes"

// userInfo is how many bytes the user and password of a URL may take.
const userInfo = 512

// findPasswordsInURLs appends the passwords of scheme://user:password@host (RFC 3986, section 3.2.1).
func findPasswordsInURLs(dst []Match, text []byte) []Match {
	low := 0 // nothing before it belongs to the next match
	for at := 0; ; {
		n := bytes.IndexByte(text[at:], '@')
		if n < 0 {
			return dst
		}
		at += n
		if start := passwordStart(text, max(low, at-userInfo), at); start < at {
			dst = append(dst, Match{start, at, "url_password"})
			low = start // the password may hold an '@' itself
		} else {
			low = at
		}
		at++
	}
}

// passwordStart returns the start of the password that ends at an '@'; at if there is none.
func passwordStart(text []byte, low, at int) int {
	colon := -1
	for i := at - 1; i >= low; i-- {
		switch c := text[i]; {
		case c == ':':
			colon = i
		case c == '/':
			if colon < 0 || colon+1 == at || !endsScheme(text[:i]) || isPlaceholder(text[colon+1:at]) {
				return at
			}
			return colon + 1
		case c <= ' ', c == '"', c == '\'', c == '<', c == '>', c == '`', c == '\\', c == '(', c == ')':
			return at
		}
	}
	return at
}

// endsScheme reports whether text ends with ":/", also with an escaped slash: the last slash follows it.
func endsScheme(text []byte) bool {
	return bytes.HasSuffix(text, []byte(":/")) || bytes.HasSuffix(text, []byte(`:\/\`))
}

// isPlaceholder reports whether a password is a mask or a variable.
func isPlaceholder(password []byte) bool {
	return password[0] == '$' || password[0] == '{' || password[0] == '%' && len(password) > 1 && password[1] == '(' ||
		len(bytes.Trim(password, "*")) == 0
}
