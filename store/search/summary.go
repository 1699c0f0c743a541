package search

import (
	"cmp"
	"strings"

	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/search/lexical"
)

// Summary describes a turn or a session in its own words.
type Summary struct {
	Text   string   `json:"text,omitempty"`   // of a session: a model's summary
	By     string   `json:"by,omitempty"`     // the author of Text: "model NAME"
	Goal   string   `json:"goal,omitempty"`   // the beginning of the user's last message
	Done   string   `json:"done,omitempty"`   // the beginning of the answer, if it ends its round
	Tools  []string `json:"tools,omitempty"`  // called
	Names  []string `json:"names,omitempty"`  // paths, symbols and codes, the most frequent first
	Errors []string `json:"errors,omitempty"` // lines of tool results that report a failure
}

const (
	maxSentence = 200 // bytes
	maxNames    = 12
	maxErrors   = 4
)

// Summarize extracts a summary from a turn. It calls no model, and returns the same for the same turn.
func Summarize(turn *record.Turn) Summary {
	if turn == nil {
		return Summary{}
	}
	d := newDocument(&record.TimelineEntry{Turn: turn})
	if d == nil {
		return Summary{}
	}
	return summarize(turn, d)
}

// summarize is [Summarize] for a turn whose document exists already.
func summarize(turn *record.Turn, d *document) (s Summary) {
	s.Goal = FirstSentence(Asked(turn))
	if Ends(turn) {
		s.Done = FirstSentence(Said(turn))
	}
	s.Tools = d.tools
	s.Names = lexical.Names(d.said.User+"\n"+d.said.Assistant+"\n"+d.names, maxNames)
	for _, list := range [][]record.Message{turn.Messages, turn.Answer} {
		for i := range list {
			s.failures(&list[i])
		}
	}
	return s
}

// lastSpoken returns the last text of a role that was not inserted by a client.
func lastSpoken(messages []record.Message, role string) string {
	for i := len(messages) - 1; i >= 0; i-- {
		if messages[i].Role != role {
			continue
		}
		for j := len(messages[i].Parts) - 1; j >= 0; j-- {
			p := &messages[i].Parts[j]
			if p.Kind != "text" {
				continue
			}
			text := strings.TrimSpace(p.Text)
			if role == "user" {
				text = Own(text)
			}
			if text != "" {
				return text
			}
		}
	}
	return ""
}

// firstSpoken returns the first text of a role that was not inserted by a client.
func firstSpoken(messages []record.Message, role string) string {
	for i := range messages {
		if text := lastSpoken(messages[i:i+1], role); text != "" {
			return text
		}
	}
	return ""
}

// FirstSentence returns the first sentence of a text, on one line. Code before it is skipped.
func FirstSentence(text string) string {
	text = cut(afterCode(strings.TrimSpace(text)), 4*maxSentence)
	if sentences := Sentences(text); len(sentences) > 0 {
		text = sentences[0]
	}
	return strings.TrimSpace(oneLine(cut(text, maxSentence)))
}

// afterCode returns what follows the fenced code that a text begins with; the code itself if nothing does.
func afterCode(text string) string {
	code, fenced := strings.CutPrefix(text, "```")
	if !fenced {
		return text
	}
	_, code, fenced = strings.Cut(code, "\n") // behind the name of its language
	if !fenced {
		return text
	}
	code, after, _ := strings.Cut(code, "```")
	return cmp.Or(strings.TrimSpace(after), strings.TrimSpace(code))
}

// failures adds the lines of a message's tool results that report a failure.
func (s *Summary) failures(m *record.Message) {
	for i := range m.Parts {
		p := &m.Parts[i]
		if p.Kind != "result" {
			continue
		}
		line, failed := Failure(p)
		if !failed {
			continue
		}
		rest := cut(p.Text, maxExamined)
		for line != "" && len(s.Errors) < maxErrors {
			s.Errors = append(s.Errors, cut(line, maxSentence))
			_, rest, _ = strings.Cut(rest, line)
			line = FailureLine(rest)
		}
	}
}

// failureSigns are words that indicate a failure.
var failureSigns = newSigns(
	"error:", "error[", "fatal:", "panic:", "--- fail", "exception:", "traceback",
	"connection refused", "permission denied", "failed to ", "command not found", "no such file or directory",
)

func tellsFailure(line string) bool { return failureSigns.in(cut(line, maxSentence)) }
