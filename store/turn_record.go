package store

import "google.golang.org/protobuf/encoding/protowire"

// Field numbers are listed in FORMAT.md. A new field takes the next number.

func (t *turnRecord) writeFields(w *fieldWriter) {
	t.writeHead(w)
	for i := range t.Messages {
		t.Messages[i].write(w, fieldMessage)
	}
	for i := range t.Answer {
		t.Answer[i].write(w, fieldAnswer)
	}
}

// Fields with the text of a turn.
const (
	fieldMessage = 9
	fieldAnswer  = 10
)

// writeHead writes everything except the text.
func (t *turnRecord) writeHead(w *fieldWriter) {
	w.text(1, t.Exchange)
	w.time(2, t.Started)
	w.number(3, int64(t.Outcome))
	w.text(4, t.Model)
	w.text(5, t.Parent)
	w.flag(6, t.Branch)
	w.text(7, t.Continued)
	w.number(8, int64(t.Known))
	w.number(11, t.AnswerUnread)
	w.text(12, t.Error)
	for i := range t.Histories {
		w.bytes(13, t.Histories[i][:])
	}
}

func (t *turnRecord) readField(r *fieldReader) {
	switch r.field {
	case 1:
		t.Exchange = r.string()
	case 2:
		t.Started = r.time()
	case 3:
		t.Outcome = r.outcome()
	case 4:
		t.Model = r.string()
	case 5:
		t.Parent = r.string()
	case 6:
		t.Branch = r.flag()
	case 7:
		t.Continued = r.string()
	case 8:
		t.Known = int(r.number())
	case fieldMessage:
		t.Messages = append(t.Messages, Message{})
		r.into(&t.Messages[len(t.Messages)-1])
	case fieldAnswer:
		t.Answer = append(t.Answer, Message{})
		r.into(&t.Answer[len(t.Answer)-1])
	case 11:
		t.AnswerUnread = r.number()
	case 12:
		t.Error = r.string()
	case 13:
		var h historyHash
		if copy(h[:], r.bytes()) < len(h) || r.stop-r.start != len(h) {
			r.fail()
		}
		t.Histories = append(t.Histories, h)
	}
}

func (m *Message) write(w *fieldWriter, field protowire.Number) {
	at := w.begin(field)
	w.text(1, m.Role)
	for i := range m.Parts {
		m.Parts[i].write(w, 2)
	}
	w.end(at)
}

func (m *Message) readField(r *fieldReader) {
	switch r.field {
	case 1:
		m.Role = r.string()
	case 2:
		m.Parts = append(m.Parts, Part{})
		r.into(&m.Parts[len(m.Parts)-1])
	}
}

func (p *Part) write(w *fieldWriter, field protowire.Number) {
	at := w.begin(field)
	w.text(1, p.Kind)
	w.text(2, p.Text)
	w.text(3, p.CallID)
	w.text(4, p.Name)
	w.text(5, p.Arguments)
	w.flag(6, p.Failed)
	w.text(7, p.MediaType)
	w.number(8, p.Bytes)
	w.text(9, p.URL)
	w.end(at)
}

func (p *Part) readField(r *fieldReader) {
	switch r.field {
	case 1:
		p.Kind = r.string()
	case 2:
		p.Text = r.string()
	case 3:
		p.CallID = r.string()
	case 4:
		p.Name = r.string()
	case 5:
		p.Arguments = r.string()
	case 6:
		p.Failed = r.flag()
	case 7:
		p.MediaType = r.string()
	case 8:
		p.Bytes = r.number()
	case 9:
		p.URL = r.string()
	}
}
