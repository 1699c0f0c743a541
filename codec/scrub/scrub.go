// Package scrub makes fixtures from streams that providers sent. It keeps their form and removes their content.
package scrub

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Stream makes the lines of a fixture of a stream of server-sent events, in the notation of package codectest. It is an error
// if the stream has something else in it: what cannot be read cannot be scrubbed.
func Stream(stream []byte) (lines []string, err error) {
	s := scrubber{names: map[string]string{}, arguments: map[string]*fragments{}}
	name := ""
	for line := range strings.Lines(string(stream)) {
		line = strings.TrimRight(line, "\r\n")
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "", "id", "retry": // the end of a frame, a comment, or of no account
		case "event":
			name = "@" + mask(value, isToken(value)) + " "
		case "data":
			if value != "[DONE]" {
				if value, err = s.frame(value); err != nil {
					return nil, err
				}
			}
			lines = append(lines, "> "+name+value)
			name = ""
		default:
			return nil, fmt.Errorf("a line of the stream begins with %q, which server-sent events do not have", mask(field, false))
		}
	}
	if len(lines) == 0 {
		return nil, errors.New("the answer has no frames; only streams are made into fixtures")
	}
	return append(lines, "> EOF"), nil
}

// scrubber knows what was met in a stream.
type scrubber struct {
	names     map[string]string // what stands for the ids and names that were met
	kind      string            // the latest type
	arguments map[string]*fragments
}

func (s *scrubber) frame(data string) (string, error) {
	decoder := json.NewDecoder(strings.NewReader(data))
	decoder.UseNumber()
	var out bytes.Buffer
	if err := s.value(decoder, &out, place{}); err != nil {
		return "", errors.New("a frame of the stream is no JSON")
	}
	return out.String(), nil
}

// place is where in a frame a value stands.
type place struct {
	key    string
	within string // the indexes of the items around it: fragments of one call have the same
	depth  int
	opaque bool // inside arguments and the like, where names of members are content as well
}

// deepest bounds how values may be nested; no provider comes near.
const deepest = 100

// plain are the members whose values are words of the format.
var plain = []string{
	"type", "object", "role", "model", "modelVersion", "status", "finish_reason", "finishReason", "stop_reason", "service_tier",
	"phase", "effort", "summary_type", "tool_choice", "truncation", "format", "event", "reason", "blockReason", "mimeType", "media_type",
	"language", "outcome",
}

// whole are the members that hold what a caller brought: nothing of it is needed.
var whole = []string{"tools", "metadata", "instructions", "prompt_cache_key", "safety_identifier", "user"}

func (s *scrubber) value(d *json.Decoder, out *bytes.Buffer, at place) error {
	token, err := d.Token()
	if err != nil {
		return err
	}
	if at.depth++; at.depth > deepest {
		return errors.New("nested too deeply")
	}
	switch token := token.(type) {
	case json.Delim:
		if token == '[' {
			return s.array(d, out, at)
		}
		return s.object(d, out, at)
	case string:
		return write(out, s.text(token, at))
	case json.Number:
		out.WriteString(number(token, at.opaque))
		return nil
	}
	return write(out, token) // true, false, null
}

func (s *scrubber) array(d *json.Decoder, out *bytes.Buffer, at place) error {
	out.WriteByte('[')
	for first := true; d.More(); first = false {
		if !first {
			out.WriteByte(',')
		}
		if err := s.value(d, out, at); err != nil {
			return err
		}
	}
	out.WriteByte(']')
	_, err := d.Token()
	return err
}

func (s *scrubber) object(d *json.Decoder, out *bytes.Buffer, at place) error {
	out.WriteByte('{')
	for n := 0; d.More(); n++ {
		token, err := d.Token()
		if err != nil {
			return err
		}
		key, _ := token.(string)
		if n > 0 {
			out.WriteByte(',')
		}
		shown := key
		if at.opaque {
			shown = "k" + strconv.Itoa(n)
		}
		if err := write(out, shown); err != nil {
			return err
		}
		out.WriteByte(':')
		inner := place{key: key, within: at.within, depth: at.depth, opaque: at.opaque || slices.Contains([]string{"args", "input", "schema", "parameters"}, key)}
		if slices.Contains(whole, key) {
			var left any
			if err := d.Decode(&left); err != nil {
				return err
			}
			out.WriteString(emptied(left))
			continue
		}
		if !strings.HasSuffix(key, "index") {
			if err := s.value(d, out, inner); err != nil {
				return err
			}
			continue
		}
		var index json.Number
		if err := d.Decode(&index); err != nil {
			return err
		}
		at.within += "/" + index.String()
		out.WriteString(number(index, at.opaque))
	}
	out.WriteByte('}')
	_, err := d.Token()
	return err
}

func emptied(value any) string {
	switch value.(type) {
	case []any:
		return "[]"
	case map[string]any:
		return "{}"
	case string:
		return `""`
	}
	return "null"
}

func write(out *bytes.Buffer, value any) error {
	text, err := json.Marshal(value)
	out.Write(text)
	return err
}

// number keeps counts; numbers of calls' arguments are content.
func number(n json.Number, content bool) string {
	if content {
		return "0"
	}
	return n.String()
}

func (s *scrubber) text(text string, at place) string {
	switch {
	case at.opaque:
		return mask(text, false)
	case at.key == "id" || at.key == "responseId" || strings.HasSuffix(at.key, "_id"):
		return s.id(text)
	case at.key == "name": // calls are told apart by it
		return s.standIn(text, "x")
	case at.key == "arguments" && strings.HasSuffix(s.kind, ".done"): // all of it again
		return new(fragments).mask(text)
	case at.key == "delta" && strings.Contains(s.kind, "function_call_arguments"):
		at.key = "arguments"
		return s.fragment(at).mask(text)
	case at.key == "arguments" || at.key == "partial_json":
		return s.fragment(at).mask(text)
	case at.key == "type":
		s.kind = text
		return mask(text, isToken(text))
	case slices.Contains(plain, at.key):
		return mask(text, isToken(text))
	}
	return mask(text, false)
}

// id keeps what stands before the first underscore or dash, by which formats know their own.
func (s *scrubber) id(id string) string {
	prefix := ""
	if i := strings.IndexAny(id, "_-"); i > 0 && i < 12 && isToken(id[:i]) {
		prefix = id[:i+1]
	}
	return s.standIn(id, prefix)
}

// standIn returns what stands for a name wherever it is met, of the same length if that leaves room for a number.
func (s *scrubber) standIn(name, prefix string) string {
	if name == "" || name == "null" { // none, as some hosts write it (docs/wire/translation.md#p14)
		return name
	}
	if s.names[name] == "" {
		s.names[name] = fmt.Sprintf("%s%0*d", prefix, max(len(name)-len(prefix), 0), len(s.names)+1)
	}
	return s.names[name]
}

func (s *scrubber) fragment(at place) *fragments {
	name := at.key + at.within
	if s.arguments[name] == nil {
		s.arguments[name] = &fragments{}
	}
	return s.arguments[name]
}

// fragments masks JSON that comes in pieces.
type fragments struct {
	quoted, escaped bool
	hex             int // digits of an escape that are to come
}

func (f *fragments) mask(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case f.hex > 0: // any letter does
			f.hex--
			b.WriteByte('0')
		case f.escaped:
			f.escaped = false
			if r == 'u' {
				f.hex = 4
			}
			b.WriteRune(r)
		case f.quoted && r == '\\':
			f.escaped = true
			b.WriteRune(r)
		case r == '"':
			f.quoted = !f.quoted
			b.WriteRune(r)
		case f.quoted:
			b.WriteString(masked(r))
		case r >= '1' && r <= '9':
			b.WriteByte('1')
		default:
			b.WriteRune(r) // true, false, null, and what stands between values
		}
	}
	return b.String()
}

// mask leaves nothing of a text but its form; keep leaves it.
func mask(text string, keep bool) string {
	if keep {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		b.WriteString(masked(r))
	}
	return b.String()
}

// masked keeps the number of UTF-16 units, between which a stream may be cut.
func masked(r rune) string {
	switch {
	case r > 0xffff:
		return "xx"
	case unicode.IsUpper(r):
		return "X"
	case unicode.IsDigit(r):
		return "0"
	case r > unicode.MaxASCII || unicode.IsLetter(r):
		return "x"
	}
	return string(r)
}

// isToken reports whether a value can be a word of a format, and not a text.
func isToken(value string) bool {
	return len(value) <= 64 && !strings.ContainsFunc(value, func(r rune) bool {
		return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("._-/:", r)
	})
}
