package record

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/zeebo/blake3"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/mnemeproxy/mneme/store/internal/buffer"
	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// Digest is the content of an exchange, independent of its format, made by [store.Options.Digest].
type Digest struct {
	Messages []Message // the request's whole history, oldest first, without the opening text
	Answer   []Message // the model's answer, as far as it arrived
	Reply    string    // derived key of the opening messages and the first answer, "" if there is no answer

	// Starts holds for each of Messages the index of the request's item with which it begins. Messages from that item
	// on must not depend on anything before it. nil: unknown, or they do depend.
	Starts []int
}

// Message is one step of a conversation.
type Message struct {
	Role  string `json:"role"` // user, assistant, tool, system
	Parts []Part `json:"parts"`
}

// Part is a piece of a message.
type Part struct {
	Kind      string `json:"kind"` // text, reasoning, call, result, media
	Text      string `json:"text,omitempty"`
	CallID    string `json:"call_id,omitempty"`
	Name      string `json:"name,omitempty"`      // of the tool that is called or has answered, or of a file
	Arguments string `json:"arguments,omitempty"` // of a call: JSON
	Failed    bool   `json:"failed,omitempty"`    // a result that is an error
	MediaType string `json:"media_type,omitempty"`
	Bytes     int64  `json:"bytes,omitempty"` // of media; the bytes are in the raw request
	URL       string `json:"url,omitempty"`   // of media that the request only refers to
}

// Turn is what an exchange added to its session: the messages not seen before, and the answer.
type Turn struct {
	Exchange  string    `json:"exchange"`
	Started   time.Time `json:"started"`
	Outcome   Outcome   `json:"outcome"`
	Model     string    `json:"model,omitempty"`
	Parent    string    `json:"parent,omitempty"`    // the exchange whose history this one continues, or, for a branch, from inside
	Branch    bool      `json:"branch,omitempty"`    // another exchange continued from the same place first
	Continued string    `json:"continued,omitempty"` // the first exchange that continues from here
	Known     int       `json:"known,omitempty"`     // messages of the request that were seen before
	Messages  []Message `json:"messages,omitempty"`
	Answer    []Message `json:"answer,omitempty"`

	// AnswerUnread is how many bytes at the end of the recorded answer are not in Answer, because it is too long.
	AnswerUnread int64 `json:"answer_unread,omitempty"`

	Error string `json:"error,omitempty"` // why the exchange could not be digested, or the turn not be read
}

// StoredTurn is a turn as it is stored.
type StoredTurn struct {
	Turn
	Histories []HistoryHash `json:"histories,omitempty"` // of histories that lead to this exchange, see kv.SpaceHistory
	Reply     []byte        `json:"reply,omitempty"`     // that of its session, if this is the first turn
}

// HistoryHash identifies a sequence of messages from the start of a conversation.
type HistoryHash [16]byte

// MarshalText writes the hash in hexadecimal digits.
func (h HistoryHash) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, h[:]), nil }

// UnmarshalText reads what MarshalText writes.
func (h *HistoryHash) UnmarshalText(text []byte) error {
	if len(text) != hex.EncodedLen(len(h)) {
		return errors.New("a history has 32 hexadecimal digits")
	}
	_, err := hex.Decode(h[:], text)
	return err
}

// Then returns the hash of the history with one more message. It covers what clients send back unchanged: roles, texts,
// calls and results. It does not cover reasoning, which many leave out, nor images that the assistant made, nor system
// messages: Claude Code adds, rewrites and drops them when its environment or the model changes.
func (h HistoryHash) Then(m *Message) HistoryHash {
	if m.Role == "system" {
		return h
	}
	size := 64
	for i := range m.Parts {
		size += len(m.Parts[i].Text) + len(m.Parts[i].Arguments) + 64
	}
	text := append(buffer.Get(size), h[:]...)
	field := func(s string) { text = append(append(text, s...), 0) }
	field(m.Role)
	for i := range m.Parts {
		p := &m.Parts[i]
		if p.Kind == "reasoning" || p.Kind == "media" && m.Role == "assistant" {
			continue
		}
		field(p.Kind)
		field(strings.TrimSpace(p.Text))
		field(p.CallID)
		field(p.Name)
		field(compactJSON(p.Arguments))
		field(p.MediaType)
	}
	sum := blake3.Sum256(text)
	buffer.Put(text)
	return HistoryHash(sum[:16])
}

// compactJSON removes white space from JSON, so that differently formatted arguments are the same call.
func compactJSON(text string) string {
	var b bytes.Buffer
	if text == "" || json.Compact(&b, []byte(text)) != nil {
		return text
	}
	return b.String()
}

// HistoryNote is the note of a history: the exchange whose request or answer it ends with, or, if inside, one whose
// request continues after it. That of a request may stand for that of its answer, too.
type HistoryNote struct {
	ID     kv.ExchangeID
	Inside bool
	Answer HistoryHash // of the history with the answer; zero: it has a note of its own, or there is none
}

// noteInside follows the id if a history is inside a request.
const noteInside = 1

// Append appends the encoding of a note.
func (n HistoryNote) Append(dst []byte) []byte {
	dst = append(dst, n.ID[:]...)
	if n.Inside {
		return append(dst, noteInside)
	}
	if n.Answer != (HistoryHash{}) {
		return append(dst, n.Answer[:]...)
	}
	return dst
}

// ReadHistoryNote reads the encoding of a note.
func ReadHistoryNote(value []byte) (n HistoryNote, ok bool) {
	switch {
	case len(value) == len(n.ID):
	case len(value) == len(n.ID)+1 && value[len(n.ID)] == noteInside:
		n.Inside = true
	case len(value) == len(n.ID)+len(n.Answer):
		n.Answer = HistoryHash(value[len(n.ID):])
	default:
		return n, false
	}
	n.ID = kv.ExchangeID(value[:len(n.ID)])
	return n, true
}

// Field numbers are listed in FORMAT.md. A new field takes the next number.

func (t *StoredTurn) writeFields(w *fieldWriter) {
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
func (t *StoredTurn) writeHead(w *fieldWriter) {
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
	w.key(14, t.Reply)
}

func (t *StoredTurn) readField(r *fieldReader) {
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
		var h HistoryHash
		if copy(h[:], r.bytes()) < len(h) || r.stop-r.start != len(h) {
			r.fail()
		}
		t.Histories = append(t.Histories, h)
	case 14:
		t.Reply = r.bytes()
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
