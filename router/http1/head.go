package http1

import (
	"bytes"
	"fmt"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
)

// appendHead appends the head of a request, including the blank line. No part of it can end a line.
func appendHead(dst []byte, host string, r *Request) ([]byte, error) {
	if !isToken(r.Method) || !isTarget(r.Target) || !isTarget(host) {
		return dst, ErrField
	}
	dst = append(dst, r.Method...)
	dst = append(dst, ' ')
	dst = append(dst, r.Target...)
	dst = append(dst, " HTTP/1.1\r\nHost: "...)
	dst = append(dst, host...)
	dst = append(dst, "\r\n"...)
	for i := range r.Fields {
		f := &r.Fields[i]
		if !isToken(f.Name) || !isValue(f.Value) {
			return dst, ErrField
		}
		dst = append(dst, f.Name...)
		dst = append(dst, ": "...)
		dst = append(dst, f.Value...)
		dst = append(dst, "\r\n"...)
	}
	if len(r.Body) > 0 || r.Method != http.MethodGet {
		dst = append(dst, "Content-Length: "...)
		dst = strconv.AppendInt(dst, int64(len(r.Body)), 10)
		dst = append(dst, "\r\n"...)
	}
	return append(dst, "\r\n"...), nil
}

// headEnd returns the offset after the blank line that ends a head, 0 if it is not there yet. No blank line begins
// before from, and none before next.
func headEnd(b []byte, from int) (end, next int) {
	for at := from; ; {
		n := bytes.IndexByte(b[at:], '\n')
		if n < 0 {
			return 0, at
		}
		if line := b[at : at+n]; len(line) == 0 || len(line) == 1 && line[0] == '\r' {
			return at + n + 1, at
		}
		at += n + 1
	}
}

// isAnswer reports whether b can be the beginning of an answer: another protocol may never send a blank line.
func isAnswer(b []byte) bool {
	const form = "HTTP/1."
	n := min(len(b), len(form))
	return string(b[:n]) == form[:n]
}

func malformed(what string) error { return fmt.Errorf("%w: %s", ErrMalformed, what) }

// readHead reads a whole head into r, and reports whether it is that of an interim answer, which another follows. Lines
// may end in a bare LF (RFC 9112, section 2.2), but folded lines, blanks before a colon and other ambiguities are
// refused.
func (r *Response) readHead(head []byte) (interim bool, err error) {
	text := string(head) // one copy, which all values share
	line, text := cutLine(text)
	status, minor, ok := parseStatusLine(line)
	if !ok {
		return false, malformed("status line")
	}
	r.Status, r.Header = status, make(Header, 0, strings.Count(text, "\n"))
	for text != "" {
		if line, text = cutLine(text); line == "" {
			continue
		}
		name, value, found := strings.Cut(line, ":")
		value = strings.Trim(value, " \t")
		key, named := canonical(name)
		if !found || !named || !isValue(value) {
			return false, malformed("header line")
		}
		r.Header = append(r.Header, Field{key, value})
	}
	if status < 200 && status != http.StatusSwitchingProtocols {
		return true, nil
	}
	return false, r.frame(minor)
}

// frame determines the length of the body (RFC 9112, section 6.3).
func (r *Response) frame(minor byte) error {
	r.Length, r.body.chunked, r.body.reusable = -1, false, minor == '1'
	var length, coding string
	lengths, codings := 0, 0
	for i := range r.Header {
		switch f := &r.Header[i]; f.Name {
		case "Connection":
			r.body.reusable = r.body.reusable && !closes(f.Value)
		case "Content-Length": // may be repeated with the same value
			if lengths++; lengths > 1 && f.Value != length {
				return malformed("content length")
			}
			length = f.Value
		case "Transfer-Encoding":
			coding, codings = f.Value, codings+1
		}
	}
	if lengths > 0 {
		n, err := strconv.ParseUint(length, 10, 63)
		if err != nil {
			return malformed("content length")
		}
		r.Length = int64(n)
	}
	if codings > 0 {
		if codings > 1 || !strings.EqualFold(coding, "chunked") || minor == '0' {
			return malformed("transfer coding")
		}
		r.Header.Del("Transfer-Encoding") // Length has it
		if lengths > 0 {                  // the coding holds, but a sender of both is not trusted with another request
			r.Header.Del("Content-Length")
			r.body.reusable = false
		}
		r.Length, r.body.chunked = -1, true
	}
	switch r.Status {
	case http.StatusSwitchingProtocols: // another protocol follows, unrequested
		r.Length, r.body.reusable = 0, false
	case http.StatusNoContent, http.StatusNotModified:
		r.Length = 0
	}
	if r.Length < 0 && !r.body.chunked {
		r.body.reusable = false // the end of the connection ends the body
	}
	return nil
}

func cutLine(text string) (line, rest string) {
	line, rest, _ = strings.Cut(text, "\n")
	return strings.TrimSuffix(line, "\r"), rest
}

// parseStatusLine reads "HTTP/1.1 200 OK"; the text after the number is ignored.
func parseStatusLine(line string) (status int, minor byte, ok bool) {
	const form = "HTTP/1.x 200"
	if len(line) < len(form) || line[:7] != "HTTP/1." || line[7] != '0' && line[7] != '1' || line[8] != ' ' ||
		len(line) > len(form) && line[len(form)] != ' ' || !isValue(line) {
		return 0, 0, false
	}
	for _, digit := range []byte(line[9:12]) {
		if digit < '0' || digit > '9' {
			return 0, 0, false
		}
		status = 10*status + int(digit-'0')
	}
	return status, line[7], status >= 100
}

func closes(connection string) bool {
	for option := range strings.SplitSeq(connection, ",") {
		if strings.EqualFold(strings.Trim(option, " \t"), "close") {
			return true
		}
	}
	return false
}

// tokens are the characters of methods and names (RFC 9110, section 5.6.2).
var tokens = func() (t [256]bool) {
	for c := range t {
		t[c] = c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || strings.IndexByte("!#$%&'*+-.^_`|~", byte(c)) >= 0
	}
	return t
}()

func isToken(s string) bool {
	for i := range len(s) {
		if !tokens[s[i]] {
			return false
		}
	}
	return s != ""
}

// canonical returns the canonical form of a header name, which most have already; ok is false if it is not a name.
func canonical(name string) (key string, ok bool) {
	same, first := true, true // already canonical so far; at the beginning of a word
	for i := range len(name) {
		c := name[i]
		if !tokens[c] {
			return "", false
		}
		if first && 'a' <= c && c <= 'z' || !first && 'A' <= c && c <= 'Z' {
			same = false
		}
		first = c == '-'
	}
	if !same {
		name = textproto.CanonicalMIMEHeaderKey(name)
	}
	return name, name != ""
}

// isValue reports whether s can be a header value (RFC 9110, section 5.5).
func isValue(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// isTarget reports whether s is valid in a request line.
func isTarget(s string) bool {
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c >= 0x7f {
			return false
		}
	}
	return s != ""
}
