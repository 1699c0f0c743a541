package mcp

import (
	"cmp"
	"strings"
	"time"

	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/search"
)

// showTurn writes what an exchange added to its session, at most most bytes of each text; 0: as much as fits. session
// is "" if the reader knows it.
func showTurn(p *page, t *record.TimelineEntry, session string, most int) {
	x := &t.Exchange
	p.line("%s %s%s %s%s%s", x.ID, minute(x.Started), behind(" ", x.ModelAsked), x.Outcome, behind(" in ", session), behind(" of ", x.Project))
	if x.Error != nil {
		p.quote("error", x.Error.Message, briefly)
	}
	if t.Turn == nil {
		if x.Auxiliary != "" {
			p.line("It adds nothing to the conversation: a request of the client's own, %s.", inLine(x.Auxiliary))
		} else {
			p.line("What it adds is not known yet, or cannot be read.")
		}
		return
	}
	if t.Turn.Error != "" {
		p.line("What it says could not be read: %s", t.Turn.Error)
	}
	for _, messages := range [][]record.Message{t.Turn.Messages, t.Turn.Answer} {
		for i := range messages {
			showMessage(p, &messages[i], most)
		}
	}
}

func showMessage(p *page, m *record.Message, most int) {
	for i := range m.Parts {
		switch part := &m.Parts[i]; part.Kind {
		case "reasoning":
			p.quote(m.Role+" thinks", part.Text, most)
		case "call":
			p.quote(m.Role+" calls "+part.Name, cmp.Or(search.Command(part), part.Arguments, part.Text), most)
		case "result":
			label := "result"
			if part.Failed {
				label = "failure"
			}
			p.quote(label+behind(" of ", part.Name), part.Text, most)
		case "media":
			p.quote(m.Role, "["+part.MediaType+behind(" ", part.Name)+"]", most)
		default:
			p.quote(m.Role, part.Text, most)
		}
	}
}

func showSession(p *page, s *record.Session) {
	if s.Error != nil {
		p.line("%s cannot be read: %s", s.ID, s.Error.Message)
		return
	}
	p.line("%s %s to %s, %d exchanges%s", s.ID, minute(s.Created), minute(s.Updated), s.Exchanges, behind(", ", strings.Join(s.Models, " ")))
	if s.Title != "" {
		p.quote("title", s.Title, briefly)
	}
}

// minute formats a time to the minute.
func minute(t time.Time) string { return t.UTC().Format("2006-01-02T15:04Z") }

// behind returns front and name, or "" if name is empty.
func behind(front, name string) string {
	if name == "" {
		return ""
	}
	return front + inLine(name)
}

// other returns id, or "" if it is the one already shown.
func other(id, shown string) string {
	if shown == "" {
		return ""
	}
	return id
}
