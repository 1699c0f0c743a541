// Package transcript writes conversations in formats that other programs read, one file per format.
package transcript

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/redact"
)

// Conversation is what a transcript says about a whole conversation.
type Conversation struct {
	ID      string
	Title   string
	Project string
	Models  []string
	Began   time.Time
}

// form writes conversations one after the other. What a form cannot express is left out; images and files, whose bytes
// the record lacks, are named.
type form interface {
	begin(c *Conversation)
	message(m *record.Message, at time.Time, model string)
	end()
}

// Writer writes the conversations of an account. After an error it writes nothing more, and Flush returns the error.
type Writer struct {
	out  *bufio.Writer
	form form
}

// forms are the names that [NewWriter] knows.
var forms = []string{"openai-chat", "sharegpt", "markdown", "html"}

// NewWriter returns a writer of a form to w; the caller flushes it.
func NewWriter(name string, w io.Writer) (*Writer, error) {
	out := bufio.NewWriterSize(w, 64<<10)
	switch name {
	case "openai-chat":
		return &Writer{out, &openAIChat{out: jsonList{out: out}}}, nil
	case "sharegpt":
		return &Writer{out, &shareGPT{out: jsonList{out: out}}}, nil
	case "markdown":
		return &Writer{out, &markdown{out: out}}, nil
	case "html":
		r, err := redact.New(redact.Options{Builtin: true})
		if err != nil {
			return nil, err
		}
		return &Writer{out, &page{out, func(s string) string {
			text := []byte(s)
			r.Mask(text)
			return string(text)
		}}}, nil
	}
	return nil, fmt.Errorf("no form %q is known; known are %s", name, strings.Join(forms, ", "))
}

// Session writes the conversation of a session. It writes nothing for one without words, and returns false.
func (w *Writer) Session(c *Conversation, turns Turns) (written bool, err error) {
	var branch Branch
	err = branch.Read(turns, func(t *record.Turn) {
		if !written {
			w.Begin(c)
			written = true
		}
		w.Turn(t)
	})
	if written && err == nil {
		w.End()
	}
	return written, err
}

// Begin starts a conversation.
func (w *Writer) Begin(c *Conversation) { w.form.begin(c) }

// Turn writes what an exchange added.
func (w *Writer) Turn(t *record.Turn) {
	for _, list := range [][]record.Message{t.Messages, t.Answer} {
		for i := range list {
			w.form.message(&list[i], t.Started, t.Model)
		}
	}
}

// End ends the conversation.
func (w *Writer) End() { w.form.end() }

// Flush writes what is buffered.
func (w *Writer) Flush() error { return w.out.Flush() }

// jsonList writes the elements of a list in a JSON object.
type jsonList struct {
	out   *bufio.Writer
	begun bool
}

func (l *jsonList) add(v any) {
	if l.begun {
		_ = l.out.WriteByte(',')
	}
	l.begun = true
	_, _ = l.out.Write(encode(v))
}

func encode(v any) []byte {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(v) // of strings
	return bytes.TrimSuffix(b.Bytes(), []byte{'\n'})
}

// said returns the text of a message, with names in place of media.
func said(m *record.Message) string {
	var texts []string
	for i := range m.Parts {
		switch p := &m.Parts[i]; {
		case p.Kind == "text" && p.Text != "":
			texts = append(texts, p.Text)
		case p.Kind == "media":
			texts = append(texts, strings.TrimRight("["+p.MediaType+" "+p.Name, " ")+"]")
		}
	}
	return strings.Join(texts, "\n\n")
}
