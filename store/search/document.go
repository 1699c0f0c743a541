package search

import (
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/search/lexical"
)

// What is indexed of one turn, in bytes. More of a turn is a file or a dump, whose words would drown the rest.
const (
	maxSpoken    = 8 << 10 // of each speaker
	maxArguments = 8 << 10 // of all tool calls, for the names in them
	maxResult    = 2 << 10 // of each tool result, likewise
	maxResults   = 8 << 10
	maxOutput    = 16 << 10 // words of all tool calls and results: of each, the first and the last maxResult
	maxToolName  = 256
)

// document is what the index knows of a turn.
type document struct {
	id      string
	session string
	time    time.Time
	said    lexical.Said
	names   string // of tool calls and results
	tools   []string
	facets  []lexical.Facet
}

// maxEmbedded is how much of what the user said is embedded, in bytes; so something of the answer comes into the vector
// too where the embedder cuts.
const maxEmbedded = 4 << 10

// embedded is the text that the vector is made of.
func (d *document) embedded() string {
	if !d.spoken() {
		return d.names
	}
	return strings.TrimSpace(cut(d.said.User, maxEmbedded) + "\n" + d.said.Assistant)
}

// spoken reports whether the turn holds more than tool calls and their results.
func (d *document) spoken() bool { return d.said.User != "" || d.said.Assistant != "" }

// newDocument takes what a turn says; nil if there is nothing to find it by.
func newDocument(entry *store.TimelineEntry) *document {
	if entry.Turn == nil || entry.Exchange.Auxiliary != "" {
		return nil
	}
	info := &entry.Exchange
	d := &document{id: info.ID, session: info.Session, time: info.Started}
	var user, assistant, output, names excerpt
	for _, list := range [][]store.Message{entry.Turn.Answer, entry.Turn.Messages} {
		for i := len(list) - 1; i >= 0; i-- { // newest first: of a long history taken over whole, the end matters
			d.take(&list[i], &user, &assistant, &output, &names)
		}
	}
	d.said = lexical.Said{User: user.text(), Assistant: assistant.text(), Output: output.text()}
	d.names = names.text()
	if d.said == (lexical.Said{}) && d.names == "" {
		return nil
	}
	d.facets = facetsOf(info, d.tools)
	return d
}

func (d *document) take(m *store.Message, user, assistant, output, names *excerpt) {
	results := maxResults
	for i := len(m.Parts) - 1; i >= 0; i-- {
		p := &m.Parts[i]
		switch {
		case p.Kind == "call":
			d.tool(p.Name)
			arguments := stringsIn(p.Arguments)
			names.add(arguments, maxArguments)
			output.add(headAndTail(arguments), maxOutput)
		case p.Kind == "result" || m.Role == "tool":
			text := cut(p.Text, min(maxResult, results))
			results -= len(text)
			names.add(text, maxArguments+maxResults)
			output.add(headAndTail(p.Text), maxOutput)
		case p.Kind != "text" || isBoot(p.Text):
		case m.Role == "user":
			user.add(p.Text, maxSpoken)
		case m.Role == "assistant":
			assistant.add(p.Text, maxSpoken)
		}
	}
}

func (d *document) tool(name string) {
	name = cut(name, maxToolName)
	for _, known := range d.tools {
		if known == name {
			return
		}
	}
	if name != "" && len(d.tools) < 32 {
		d.tools = append(d.tools, name)
	}
}

// isBoot tells text that a client puts before what its user says: instruction files and descriptions of the machine.
// They are the same in every conversation of a project and would be found by every word in them.
func isBoot(text string) bool {
	text = strings.TrimSpace(text)
	for _, opening := range [...]string{"<environment_context>", "<user_instructions>", "<system-reminder>", "<permissions instructions>", "# AGENTS.md instructions"} {
		if strings.HasPrefix(text, opening) {
			return true
		}
	}
	return false
}

// excerpt gathers text from its end.
type excerpt struct {
	pieces []string
	size   int
}

func (e *excerpt) add(text string, limit int) {
	if text = cut(text, limit-e.size); text != "" {
		e.pieces = append(e.pieces, text)
		e.size += len(text)
	}
}

func (e *excerpt) text() string {
	var b strings.Builder
	for i := len(e.pieces) - 1; i >= 0; i-- {
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(e.pieces[i])
	}
	return b.String()
}

// cut gives at most limit bytes of the beginning of text, whole characters.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:max(limit, 0)]
}

// headAndTail gives the first and the last maxResult bytes of a text: what was run and how it began stands there, and how
// it ended.
func headAndTail(text string) string {
	if len(text) <= 2*maxResult {
		return text
	}
	end := len(text) - maxResult
	for end < len(text) && !utf8.RuneStart(text[end]) {
		end++
	}
	return cut(text, maxResult) + "\n" + text[end:]
}

// stringsIn gives the strings in a call's arguments, one a line.
func stringsIn(arguments string) string {
	var b strings.Builder
	decoder := json.NewDecoder(strings.NewReader(arguments))
	for b.Len() < maxArguments {
		token, err := decoder.Token()
		if err != nil {
			break
		}
		if text, ok := token.(string); ok {
			b.WriteString(text)
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// Facets that a query string can name; see [lexical.Parse].
var facetNames = []string{"tool", "session", "model", "provider", "client", "surface", "outcome"}

const (
	facetDay  = "day"
	dayLayout = time.DateOnly
)

func facetsOf(info *store.ExchangeInfo, tools []string) []lexical.Facet {
	facets := []lexical.Facet{
		{Name: "session", Value: info.Session},
		{Name: "model", Value: info.ModelAsked},
		{Name: "provider", Value: info.Provider},
		{Name: "client", Value: clientOf(info)},
		{Name: "surface", Value: info.Surface},
		{Name: "outcome", Value: info.Outcome.String()},
		{Name: facetDay, Value: info.Started.UTC().Format(dayLayout)},
	}
	for _, tool := range tools {
		facets = append(facets, lexical.Facet{Name: "tool", Value: tool})
	}
	return facets
}

func (d *document) lexical(account store.AccountNumber) lexical.Document {
	return lexical.Document{
		Account: uint32(account), ID: d.id, Text: d.said.User + "\n" + d.said.Assistant, Names: d.names,
		Output: d.said.Output, Group: d.session, Facets: d.facets,
	}
}
