package redact

import "bytes"

var (
	privateKey = []byte("PRIVATE KEY")
	pemBegin   = []byte("-----BEGIN ")
	pemEnd     = []byte("-----END")
	pemDashes  = []byte("-----")
)

const (
	pemLabel  = 30       // bytes of a label, such as "ENCRYPTED PRIVATE KEY" or "PGP PRIVATE KEY BLOCK"
	pemBody   = 16 << 10 // bytes of the longest key
	pemPrefix = 256      // bytes of foreign text before a row or the end of a key
	pemEnough = 32       // consecutive letters below which it is not a key but a text about keys
)

// findPrivateKeys appends the bodies of private keys in PEM (RFC 7468), also with escaped line ends, and without an
// end.
func findPrivateKeys(dst []Match, text []byte) []Match {
	for at := 0; ; {
		n := bytes.Index(text[at:], privateKey)
		if n < 0 {
			return dst
		}
		label := at + n
		at = label + len(privateKey)
		begin := bytes.LastIndex(text[max(0, label-pemLabel):label], pemBegin)
		dashes := bytes.Index(text[at:min(at+pemLabel, len(text))], pemDashes)
		if begin < 0 || dashes < 0 {
			continue
		}
		start := at + dashes + len(pemDashes)
		end := keyEnd(text, start)
		if longestRow(text[start:end], classBase64) >= pemEnough {
			dst = append(dst, Match{start, end, "private_key"})
		}
		at = end
	}
}

// keyEnd returns the end of a key's body: before the closing dashes, or where it stops looking like one. Each row may
// have a prefix from tools: the name of a file, the number of the line.
func keyEnd(text []byte, start int) int {
	end := min(start+pemBody, len(text))
	for i := start; i < end; i++ {
		switch c := text[i]; {
		case classes[c]&classBase64 != 0, c == '\\', c == ' ', c == '\t', c == '\r', c == '\n', c == ',', c == ':', c == '*':
		case c == '-' && !bytes.HasPrefix(text[i:], pemDashes): // in "DEK-Info: AES-128-CBC"
		default:
			next := afterLinePrefix(text, i, end)
			if next == i {
				return i
			}
			i = next - 1
		}
	}
	return end
}

// afterLinePrefix returns the start of a row of base64 that fills the rest of its line, after any line prefix, or the
// closing dashes nearby; at if there is neither.
func afterLinePrefix(text []byte, at, end int) int {
	row, sameLine := at, true
	limit := min(at+pemPrefix, end)
	for i := at; i < limit; i++ {
		c := text[i]
		if classes[c]&classBase64 != 0 {
			continue
		}
		lineEnd := c == '\\' || c == '\r' || c == '\n'
		switch {
		case c == '"':
			return at
		case bytes.HasPrefix(text[i:], pemEnd):
			return i
		case lineEnd && sameLine && i-row >= pemEnough:
			return row
		}
		row, sameLine = i+1, sameLine && !lineEnd
	}
	if sameLine && limit == len(text) && limit-row >= pemEnough {
		return row
	}
	return at
}
