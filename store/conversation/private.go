package conversation

import (
	"strings"

	"github.com/mnemeproxy/mneme/codec/scan"
	"github.com/mnemeproxy/mneme/store/private"
	"github.com/mnemeproxy/mneme/store/record"
)

// Withhold removes what is marked as private from messages, so that nothing made of turns has it: index, vectors,
// titles, summaries, recalled text. A mark that is not closed holds to the end of its message, or of its tool's result. Documents,
// reasoning and calls are texts of their own. A part stays, perhaps without text, because messages and parts are counted,
// and histories are compared by them.
func Withhold(messages []record.Message) {
	for i := range messages {
		var said private.Cutter
		for j := range messages[i].Parts {
			p := &messages[i].Parts[j]
			switch {
			case p.Kind == "result" && messages[i].Role == "tool": // of several texts and pictures
				said = private.Cutter{}
				p.Text = said.Cut(unescaped(p.Text))
			case p.Kind == "text" && p.Name == "":
				p.Text = said.Cut(p.Text)
			case said.Open() && (p.Kind == "text" || p.Kind == "media"):
				p.Text, p.Name, p.URL = "", "", ""
			default:
				p.Text, p.Arguments = private.Cut(unescaped(p.Text)), withoutPrivate(p.Arguments)
			}
			p.Name = private.Cut(p.Name)
		}
	}
}

// escapes are those in which encoders of JSON write marks: a tool may answer with JSON, and a call may be cut off.
var escapes = strings.NewReplacer(`\u003c`, "<", `\u003C`, "<", `\u003e`, ">", `\u003E`, ">")

// unescaped returns a text, without these escapes if it has a mark in them.
func unescaped(text string) string {
	if strings.Contains(text, `\u003`) {
		if plain := escapes.Replace(text); private.Marked(plain) {
			return plain
		}
	}
	return text
}

// withoutPrivate removes what is marked as private from each string in a call's arguments. They are JSON; a model may
// also write something else.
func withoutPrivate(arguments string) string {
	if !strings.ContainsRune(arguments, '<') && !strings.Contains(arguments, `\u003`) {
		return arguments
	}
	text := []byte(arguments)
	if !scan.Valid(text) {
		return private.Cut(unescaped(arguments))
	}
	var kept []byte // nil: all so far
	copied := 0
	for at := 0; at < len(text); {
		if text[at] != '"' {
			at++
			continue
		}
		end := scan.Skip(text, at)
		if said := scan.String(text[at:end]); private.Marked(said) {
			kept = scan.Quote(append(kept, text[copied:at]...), private.Cut(said))
			copied = end
		}
		at = end
	}
	if copied == 0 {
		return arguments
	}
	return string(append(kept, text[copied:]...))
}
