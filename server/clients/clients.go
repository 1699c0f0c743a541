// Package clients knows the programs that send requests: how each names its conversations and subagents, which of its
// requests are not turns, and which answers it reads in its own way. Each program has one file. docs/wire/clients.md
// has the facts and their sources.
package clients

import (
	"bytes"
	"slices"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
	"github.com/mnemeproxy/mneme/store/record"
)

// Request has what identifies a client.
type Request struct {
	Headers
	Surface  codec.Format
	Body     []byte
	Envelope *codec.Envelope // of Body
}

// Headers returns the value of a header, "" if there is none.
type Headers interface{ Header(name string) string }

// Hints are a client's own statements about its conversation. What it does not say is "".
type Hints struct {
	Session   string
	Agent     string // the subagent, "" for the main one
	Parent    string // the agent that it works for
	Auxiliary string // why the request is not a turn, such as [record.AuxiliaryPrewarm]
}

// client is one program.
type client struct {
	headers   []string             // that identify it and its conversations; none is a credential
	hints     func(*Request) Hints // nil: it sends no ids
	titles    []string             // words with which it asks for a title, in lower case
	summaries []string             // words with which it asks for a summary, in lower case
}

// all are the clients in the order in which their ids are looked for.
var all = []*client{&claudeCode, &codex, &opencode, &geminiCLI, &generic}

// KeptHeaders are the headers that identify the client of a request, and its own conversation.
var KeptHeaders = func() (names []string) {
	for _, c := range all {
		names = append(names, c.headers...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}()

// Hints returns what the client says about its conversation.
func (r *Request) Hints() (h Hints) {
	for _, c := range all {
		if c.hints == nil {
			continue
		}
		if said := c.hints(r); said != (Hints{}) {
			h = said
		}
		if h.Session != "" {
			break
		}
	}
	h.Session, h.Agent, h.Parent = KeptID(h.Session), KeptID(h.Agent), KeptID(h.Parent)
	return h
}

// KeptID returns an id from a client's own members; "" if it cannot be kept as an id.
func KeptID(id string) string {
	if codec.CheckContinuity("id", id) != nil {
		return ""
	}
	return id
}

func (r *Request) first(names ...string) string {
	for _, name := range names {
		if value := r.Header(name); value != "" {
			return value
		}
	}
	return ""
}

// titles and summaries are the words of all clients.
var titles, summaries = func() (titles, summaries [][]byte) {
	for _, c := range all {
		for _, words := range c.titles {
			titles = append(titles, []byte(words))
		}
		for _, words := range c.summaries {
			summaries = append(summaries, []byte(words))
		}
	}
	return titles, summaries
}()

// textMember names the text of a part. Results of tools may stand before the part with which a client asks.
var textMember = []byte(`"text":`)

// firstWords is how many bytes of a message are examined for its purpose.
const firstWords = 512

// Auxiliary returns why the request is not a turn, "" for a turn. Agents also ask models for titles and summaries of
// their conversations, and say so in the first words of their instructions, or for summaries in those of the last
// message or of its last text. Only requests without tools ask for titles.
func (r *Request) Auxiliary() string {
	if !r.Surface.Converses() {
		return ""
	}
	e := r.Envelope
	for _, block := range e.Opening[:min(len(e.Opening), 3)] {
		if kind := r.auxiliaryIn(block); kind != "" {
			return kind
		}
	}
	if len(e.Items) == 0 {
		return ""
	}
	if kind := r.auxiliaryIn(e.Items[0]); kind != "" && isInstruction(e.Items[0].Of(r.Body)) {
		return kind
	}
	var room [firstWords]byte
	last := e.Items[len(e.Items)-1].Of(r.Body)
	if len(e.Items) > 1 && isInstruction(last) { // what hooks said, behind the question
		last = e.Items[len(e.Items)-2].Of(r.Body)
	}
	if has(lowered(&room, last), summaries) || has(lowered(&room, last[max(bytes.LastIndex(last, textMember), 0):]), summaries) {
		return record.AuxiliarySummary
	}
	return ""
}

func (r *Request) auxiliaryIn(block codec.Span) string {
	var room [firstWords]byte
	switch text := lowered(&room, block.Of(r.Body)); {
	case len(r.Envelope.Tools) == 0 && has(text, titles):
		return record.AuxiliaryTitle
	case has(text, summaries):
		return record.AuxiliarySummary
	}
	return ""
}

// lowered returns the beginning of a text with its ASCII letters in lower case.
func lowered(room *[firstWords]byte, text []byte) []byte {
	beginning := room[:copy(room[:], text)]
	for i, c := range beginning {
		if c >= 'A' && c <= 'Z' {
			beginning[i] = c | 0x20
		}
	}
	return beginning
}

func has(text []byte, words [][]byte) bool {
	return slices.ContainsFunc(words, func(w []byte) bool { return bytes.Contains(text, w) })
}

func isInstruction(item []byte) bool {
	role := scan.String(scan.Get(item, "role"))
	return role == "system" || role == "developer"
}

// member returns a string in a JSON object; "" if there is none.
func member(object []byte, name string) string { return scan.String(scan.Get(object, name)) }
