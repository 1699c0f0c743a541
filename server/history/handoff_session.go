package history

import (
	"fmt"
	"strings"

	"github.com/mnemeproxy/mneme/server/api"
	"github.com/mnemeproxy/mneme/server/transcript"
	"github.com/mnemeproxy/mneme/store/record"
)

// Conversation is what a transcript says about a session.
func Conversation(m *api.Session) *transcript.Conversation {
	about := transcript.Conversation{ID: m.ID, Title: m.Title, Models: m.Models, Began: m.Created}
	if m.Beginning != nil {
		about.Project = m.Beginning.Project
		if about.Title == "" {
			about.Title = m.Beginning.Asked
		}
	}
	return &about
}

// NewHandoff reads the conversation of a session, with a last question that got no answer.
func NewHandoff(m *api.Session, turns transcript.Turns) (*Handoff, error) {
	about := Conversation(m)
	h := &Handoff{Title: about.Title, Project: about.Project, Began: about.Began}
	if len(about.Models) > 0 {
		h.Model = about.Models[len(about.Models)-1]
	}
	branch := transcript.Branch{Unanswered: true}
	err := branch.Read(turns, func(t *record.Turn) {
		h.Messages = append(h.Messages, t.Messages...)
		h.Messages = append(h.Messages, t.Answer[:min(len(t.Answer), 1)]...)
	})
	return h, err
}

// FirstMessage is a message with which any agent can go on with a session.
func FirstMessage(m *api.Session) string {
	var b strings.Builder
	b.WriteString("Go on with work that another agent began. This is from its record.\n")
	if m.Story == nil {
		return b.String()
	}
	line := func(name, text string) {
		if text != "" {
			fmt.Fprintf(&b, "\n%s: %s\n", name, text)
		}
	}
	lines := func(name string, items []string) {
		if len(items) > 0 {
			fmt.Fprintf(&b, "\n%s:\n- %s\n", name, strings.Join(items, "\n- "))
		}
	}
	line("Goal", m.Story.Goal)
	line("Done", m.Story.Done)
	if m.Summary != nil {
		line("Summary", m.Summary.Text)
	}
	var decided []string
	for i := range m.Story.Decisions {
		decided = append(decided, m.Story.Decisions[i].Text)
	}
	lines("Decided", decided)
	lines("Left", m.Story.Left)
	lines("Files edited", m.Story.Files)
	lines("Failures not seen to pass", m.Story.Errors)
	return b.String()
}
