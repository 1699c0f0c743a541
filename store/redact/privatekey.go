package redact

import "bytes"

var (
	privateKey = []byte("PRIVATE KEY")
	pemBegin   = []byte("-----BEGIN ")
	pemEnd     = []byte("-----END")
	pemDashes  = []byte("-----")
)

const (
	pemLabel  = 30       // bytes that a label may have, such as "ENCRYPTED PRIVATE KEY" or "PGP PRIVATE KEY BLOCK"
	pemBody   = 16 << 10 // bytes of the longest key
	pemPrefix = 256      // bytes in which a row begins, or a key ends, behind what is no part of it
	pemEnough = 32       // letters in a row without which it is not a key but a text about keys
)

// findPrivateKeys appends the bodies of private keys in PEM (RFC 7468), also where line ends are escaped, and where the
// end is missing.
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

// keyEnd gives where the body of a key ends: before the dashes that close it, or where it stops looking like one. Before each
// row there may be what tools put there: the name of a file, the number of the line.
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

// afterLinePrefix gives where a row of base64 begins that fills the rest of its line, behind what stands before it there, or
// where the dashes are that close a key nearby; at if there is neither.
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
