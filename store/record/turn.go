package record

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/zeebo/blake3"

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

// Fields with the text of a turn.
const (
	fieldMessage = 9
	fieldAnswer  = 10
)

func (t *StoredTurn) fields(f *fieldCodec) {
	f.string(1, &t.Exchange)
	f.time(2, &t.Started)
	f.outcome(3, &t.Outcome)
	f.string(4, &t.Model)
	f.string(5, &t.Parent)
	f.flag(6, &t.Branch)
	f.string(7, &t.Continued)
	number(f, 8, &t.Known)
	number(f, 11, &t.AnswerUnread)
	f.string(12, &t.Error)
	f.hashes(13, &t.Histories)
	f.bytes(14, &t.Reply)
	messages(f, fieldMessage, &t.Messages)
	messages(f, fieldAnswer, &t.Answer)
}

func (m *Message) fields(f *fieldCodec) {
	f.string(1, &m.Role)
	messages(f, 2, &m.Parts)
}

func (p *Part) fields(f *fieldCodec) {
	f.string(1, &p.Kind)
	f.string(2, &p.Text)
	f.string(3, &p.CallID)
	f.string(4, &p.Name)
	f.string(5, &p.Arguments)
	f.flag(6, &p.Failed)
	f.string(7, &p.MediaType)
	number(f, 8, &p.Bytes)
	f.string(9, &p.URL)
}
