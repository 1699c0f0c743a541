package redact

import "bytes"

var (
	privateKey = []byte("PRIVATE KEY")
	pemBegin   = []byte("-----BEGIN ")
	pemDashes  = []byte("-----")
)

const (
	pemLabel  = 30       // bytes that a label may have, such as "ENCRYPTED PRIVATE KEY" or "PGP PRIVATE KEY BLOCK"
	pemBody   = 16 << 10 // bytes of the longest key
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
		end := pemEnd(text, start)
		if longestRow(text[start:end]) >= pemEnough {
			dst = append(dst, Match{start, end, "private_key"})
		}
		at = end
	}
}

// pemEnd gives where the body of a key ends: before the dashes that close it, or where it stops looking like one.
func pemEnd(text []byte, start int) int {
	end := min(start+pemBody, len(text))
	for i := start; i < end; i++ {
		switch c := text[i]; {
		case classes[c]&classBase64 != 0, c == '\\', c == ' ', c == '\t', c == '\r', c == '\n', c == ',', c == ':', c == '*':
		case c == '-' && !bytes.HasPrefix(text[i:], pemDashes): // in "DEK-Info: AES-128-CBC"
		default:
			return i
		}
	}
	return end
}

// longestRow is the length of the longest row of bytes that base64 has.
func longestRow(text []byte) (longest int) {
	row := 0
	for _, c := range text {
		if row++; classes[c]&classBase64 == 0 {
			row = 0
		}
		longest = max(longest, row)
	}
	return longest
}
