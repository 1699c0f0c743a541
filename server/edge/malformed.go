package edge

import (
	"bytes"
	"strings"

	"github.com/cloudwego/hertz/pkg/app"
	"github.com/cloudwego/hertz/pkg/protocol"

	"github.com/mnemeproxy/mneme/codec"
)

func malformedHead(fault string) *codec.Error {
	return codec.Errorf(codec.KindInvalidRequest, "The request's headers are malformed: %s.", fault)
}

// malformedTarget returns the fault of a target that a front proxy could resolve differently from hertz, or "". Dots,
// repeated slashes and escapes of other characters are resolved before a path is looked up (RFC 3986, section 6.2.2).
func malformedTarget(target []byte) string {
	path, _, _ := bytes.Cut(target, []byte{'?'})
	switch {
	case bytes.IndexByte(target, '#') >= 0:
		return "the target has a fragment"
	case !bytes.HasPrefix(path, []byte{'/'}) && !isAbsolute(path) && string(path) != "*":
		return "the target does not begin with a slash"
	case hasEscapedSlash(path) || bytes.IndexByte(path, '\\') >= 0:
		return "the path has an escaped slash, or a backslash"
	}
	return ""
}

// isAbsolute reports whether a target names a scheme and a host (RFC 9112, section 3.2.2).
func isAbsolute(target []byte) bool {
	scheme, _, found := bytes.Cut(target, []byte("://"))
	return found && (bytes.EqualFold(scheme, []byte("http")) || bytes.EqualFold(scheme, []byte("https")))
}

func hasEscapedSlash(path []byte) bool {
	for {
		i := bytes.IndexByte(path, '%')
		if i < 0 || len(path) < i+3 {
			return false
		}
		switch string(path[i+1 : i+3]) {
		case "2f", "2F", "5c", "5C":
			return true
		}
		path = path[i+1:]
	}
}

// misdirected returns the fault of a target that names another host than the header, or "" (RFC 9112, section 3.2.2).
func misdirected(rc *app.RequestContext) string {
	target := rc.Request.Header.RequestURI()
	if len(target) > 0 && target[0] == '/' {
		return ""
	}
	_, rest, absolute := bytes.Cut(target, []byte("://"))
	host, _, _ := bytes.Cut(rest, []byte{'/'})
	if absolute && !bytes.EqualFold(host, rc.Request.Header.Host()) {
		return "the target names another host than Host"
	}
	return ""
}

// ambiguous returns the fault of a request head that hertz accepted but another reader could frame differently (RFC
// 9112, sections 2.2, 5.2, 6.1, 6.3, 11.2), or "". Two credentials are ambiguous too.
func ambiguous(head []byte, http11 bool, single []string) string {
	var lengths, encodings int
	var seen uint64 // those of single
	for len(head) > 0 {
		name, value, rest, fault := nextField(head)
		if fault != "" {
			return fault
		}
		head = rest
		switch {
		case len(name) == 0: // the end
		case bytes.EqualFold(name, []byte("Content-Length")):
			lengths++
		case bytes.EqualFold(name, []byte("Transfer-Encoding")):
			encodings++
			if !http11 || !bytes.EqualFold(trimBlanks(value), []byte("chunked")) {
				return "the only transfer encoding is chunked"
			}
		default:
			for i, one := range single {
				if len(one) != len(name) || !strings.EqualFold(one, string(name)) {
					continue
				}
				if seen&(1<<i) != 0 {
					return one + " occurs twice"
				}
				seen |= 1 << i
			}
		}
	}
	switch {
	case lengths > 1:
		return "Content-Length occurs twice"
	case encodings > 1:
		return "Transfer-Encoding occurs twice"
	case lengths > 0 && encodings > 0:
		return "Content-Length and Transfer-Encoding occur together"
	}
	return ""
}

// malformedTrailer returns the fault of a line behind the last chunk of a body, or "" (RFC 9112, section 7.1.2).
func malformedTrailer(line []byte) string {
	name, value, _, fault := nextField(line)
	switch {
	case fault != "":
		return fault
	case len(name) == 0: // the end
		return ""
	case name[0] == '0':
		return "a trailer has a name that begins with a zero" // some readers take it for another chunk
	case protocol.IsBadTrailer(name):
		return "a trailer has a name that belongs into the head"
	case bytes.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
		return "a trailer has a control character"
	}
	return ""
}

const foldedLine = "a line is folded"

// hasFoldedLine reports whether a line of a head begins with a blank, in the part that has arrived.
func hasFoldedLine(text []byte) bool {
	text = bytes.TrimLeft(text, "\r\n") // allowed before a request line
	for {
		end := bytes.IndexByte(text, '\n')
		if end < 0 || end+1 == len(text) {
			return false
		}
		text = text[end+1:]
		switch text[0] {
		case ' ', '\t':
			return true
		case '\r', '\n': // the end
			return false
		}
	}
}

// nextField splits off the first line of a head or of trailers. The empty line at the end has no name.
func nextField(text []byte) (name, value, rest []byte, fault string) {
	line, rest, ended := bytes.Cut(text, []byte{'\n'})
	if !ended || len(line) == 0 || line[len(line)-1] != '\r' {
		return nil, nil, nil, "a line does not end in CR LF"
	}
	line = line[:len(line)-1]
	if len(line) == 0 {
		return nil, nil, rest, ""
	}
	if line[0] == ' ' || line[0] == '\t' {
		return nil, nil, nil, foldedLine
	}
	name, value, found := bytes.Cut(line, []byte{':'})
	if !found || !isToken(name) {
		return nil, nil, nil, "a header has no name, or one with characters that names do not have"
	}
	return name, value, rest, ""
}

// trimBlanks removes spaces and tabs around a value; no other white space is allowed there (RFC 9110, section 5.6.3).
func trimBlanks(value []byte) []byte { return bytes.Trim(value, " \t") }

// tokenBytes are the characters of a header name (RFC 9110, section 5.6.2).
var tokenBytes = func() (set [256]bool) {
	for _, c := range []byte("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") {
		set[c] = true
	}
	return set
}()

func isToken(name []byte) bool {
	for _, c := range name {
		if !tokenBytes[c] {
			return false
		}
	}
	return len(name) > 0
}
