package search

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/search/lexical"
)

// Summary says what a turn or a session was about, in its own words.
type Summary struct {
	Text   string   `json:"text,omitempty"`   // of a session: what a model has written about it
	By     string   `json:"by,omitempty"`     // "model NAME", who wrote Text
	Goal   string   `json:"goal,omitempty"`   // what the user asked for: the beginning of what they said last
	Done   string   `json:"done,omitempty"`   // what the answer says first
	Tools  []string `json:"tools,omitempty"`  // that were called
	Names  []string `json:"names,omitempty"`  // paths, symbols and codes, the most frequent first
	Errors []string `json:"errors,omitempty"` // lines of tool results that tell of a failure
}

const (
	maxSentence = 200 // bytes
	maxNames    = 12
	maxErrors   = 4
)

// Summarize takes a summary out of a turn. It invents nothing, calls no model, and gives the same for the same turn.
func Summarize(turn *store.Turn) Summary {
	if turn == nil {
		return Summary{}
	}
	d := newDocument(&store.TimelineEntry{Turn: turn})
	if d == nil {
		return Summary{}
	}
	return summarize(turn, d)
}

// summarize is [Summarize] of a turn whose document is known.
func summarize(turn *store.Turn, d *document) (s Summary) {
	s.Goal = sentence(lastSpoken(turn.Messages, "user"))
	s.Done = sentence(lastSpoken(turn.Answer, "assistant"))
	s.Tools = d.tools
	s.Names = lexical.Names(d.said.User+"\n"+d.said.Assistant+"\n"+d.names, maxNames)
	for _, list := range [][]store.Message{turn.Messages, turn.Answer} {
		for i := range list {
			s.failures(&list[i])
		}
	}
	return s
}

// lastSpoken is the last text of a role that is not a client's own.
func lastSpoken(messages []store.Message, role string) string {
	for i := len(messages) - 1; i >= 0; i-- {
		if messages[i].Role != role {
			continue
		}
		for j := len(messages[i].Parts) - 1; j >= 0; j-- {
			if p := &messages[i].Parts[j]; p.Kind == "text" && !IsBoot(p.Text) && strings.TrimSpace(p.Text) != "" {
				return p.Text
			}
		}
	}
	return ""
}

// firstSpoken is the first text of a role that is not a client's own.
func firstSpoken(messages []store.Message, role string) string {
	for i := range messages {
		if text := lastSpoken(messages[i:i+1], role); text != "" {
			return text
		}
	}
	return ""
}

// sentence is the first sentence of a text, on one line.
func sentence(text string) string {
	text = cut(strings.TrimSpace(text), 4*maxSentence)
	for i, r := range text {
		end := i + utf8.RuneLen(r)
		if r == '\n' || strings.ContainsRune("。！？", r) {
			text = text[:end]
			break
		}
		if next, _ := utf8.DecodeRuneInString(text[min(end, len(text)):]); (r == '.' || r == '!' || r == '?') && unicode.IsSpace(next) {
			text = text[:end]
			break
		}
	}
	return strings.TrimSpace(strings.Join(strings.FieldsFunc(cut(text, maxSentence), isBreak), " "))
}

// failures notes the lines of a message's results that tell of one.
func (s *Summary) failures(m *store.Message) {
	for i := range m.Parts {
		p := &m.Parts[i]
		if p.Kind != "result" {
			continue
		}
		for line := range strings.Lines(cut(p.Text, 16<<10)) {
			if len(s.Errors) == maxErrors {
				return
			}
			if line = strings.TrimSpace(line); line != "" && (p.Failed || tellsFailure(line)) {
				s.Errors = append(s.Errors, cut(line, maxSentence))
				if p.Failed {
					break // the first line names it
				}
			}
		}
	}
}

// failureSigns are what failures are told by.
var failureSigns = newSigns(
	"error:", "error[", "fatal:", "panic:", "--- fail", "exception:", "traceback",
	"connection refused", "permission denied", "failed to ", "command not found", "no such file or directory",
)

func tellsFailure(line string) bool { return failureSigns.in(cut(line, maxSentence)) }
