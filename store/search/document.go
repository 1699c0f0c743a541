package search

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/mnemeproxy/mneme/codec/chatkey"
	"github.com/mnemeproxy/mneme/codec/project"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/search/lexical"
)

// How much of one turn is indexed, in bytes. The rest is usually a file or a dump, whose words would drown the others.
const (
	maxSpoken    = 8 << 10 // of each speaker
	maxArguments = 8 << 10 // of all tool calls, for the names in them
	maxResult    = 2 << 10 // of each tool result, as above
	maxResults   = 8 << 10
	maxOutput    = 16 << 10 // words of all tool calls and results: of each, the first and the last maxResult
	maxToolName  = 256
)

// document is what the index knows about a turn.
type document struct {
	id      string
	session string
	time    time.Time
	said    lexical.Said
	names   string // of tool calls and results
	tools   []string
	kinds   []string // of the turn's content
	failed  []string // signatures of its failures
	files   []string // that its calls read or change
	edited  []string // that they change
	ran     []string // commands, as [ranValue] gives them
	facets  []lexical.Facet
}

// maxEmbedded is how much of the user's text is embedded, in bytes, so that the vector includes some of the answer even
// if the embedder truncates.
const maxEmbedded = 4 << 10

// embedded returns the text that the vector is made of.
func (d *document) embedded() string {
	if !d.spoken() {
		return d.names
	}
	return strings.TrimSpace(cut(d.said.User, maxEmbedded) + "\n" + d.said.Assistant)
}

// spoken reports whether the turn holds more than tool calls and their results.
func (d *document) spoken() bool { return d.said.User != "" || d.said.Assistant != "" }

// newDocument makes the document of a turn; nil if nothing finds it.
func newDocument(entry *record.TimelineEntry) *document {
	if entry.Turn == nil || entry.Exchange.Auxiliary != "" {
		return nil
	}
	info := &entry.Exchange
	d := &document{id: info.ID, session: info.Session, time: info.Started}
	var user, assistant, output, names excerpt
	for _, list := range [][]record.Message{entry.Turn.Answer, entry.Turn.Messages} {
		for i := len(list) - 1; i >= 0; i-- { // newest first: in a long imported history, the end matters
			d.take(&list[i], &user, &assistant, &output, &names)
		}
	}
	d.said = lexical.Said{User: user.text(), Assistant: assistant.text(), Output: output.text()}
	d.names = names.text()
	if d.said == (lexical.Said{}) && d.names == "" {
		return nil
	}
	if d.spoken() {
		d.kind(kindSaid)
	}
	for _, decision := range append(Decisions(d.said.User, true), Decisions(d.said.Assistant, false)...) {
		d.kind(kindDecided)
		if decision.Rejected {
			d.kind(kindRejected)
		}
	}
	if info.Error != nil {
		d.kind(kindError)
	}
	d.facets = facetsOf(info, d)
	return d
}

// FromMemory begins what this memory's own tools give to an agent.
const FromMemory = "From mneme's record."

func (d *document) take(m *record.Message, user, assistant, output, names *excerpt) {
	results := maxResults
	for i := len(m.Parts) - 1; i >= 0; i-- {
		p := &m.Parts[i]
		switch {
		case p.Kind == "call":
			d.tool(p.Name)
			d.kind(kindTool)
			d.touch(p)
			arguments := stringsIn(p.Arguments)
			names.add(arguments, maxArguments)
			output.add(headAndTail(arguments), maxOutput)
		case p.Kind == "result" || m.Role == "tool":
			d.kind(kindTool)
			if strings.HasPrefix(p.Text, FromMemory) {
				continue // it is indexed where it was said
			}
			d.fail(p)
			text := cut(p.Text, min(maxResult, results))
			results -= len(text)
			names.add(text, maxArguments+maxResults)
			output.add(headAndTail(p.Text), maxOutput)
		case p.Kind != "text":
		case m.Role == "user":
			user.add(Own(p.Text), maxSpoken)
		case m.Role == "assistant":
			assistant.add(p.Text, maxSpoken)
		}
	}
}

// Kinds of content in turns.
const (
	kindSaid  = "said"  // a person or a model said something
	kindTool  = "tool"  // a tool was called, or has answered
	kindError = "error" // a tool or the exchange failed

	kindDecided  = "decided"  // a sentence decides something; see [Decisions]
	kindRejected = "rejected" // a sentence rejects something
)

func (d *document) kind(name string) {
	if !slices.Contains(d.kinds, name) {
		d.kinds = append(d.kinds, name)
	}
}

// maxFailures bounds the signatures kept per turn.
const maxFailures = 16

// maxExamined bounds how much of one result is searched for failures, in bytes.
const maxExamined = 64 << 10

// fail records the failures in a tool's result: first those at its ends, which say most, then those in between.
func (d *document) fail(p *record.Part) {
	code, known := ExitCode(p.Text)
	if known && code == 0 && !p.Failed { // see [Failure]
		return
	}
	var found []string
	if long := len(p.Text) > 2*maxResult; !long || len(p.Text) > maxExamined || failureSigns.in(p.Text) { // most have none
		found = Signatures(headAndTail(p.Text))
		if long {
			found = append(found, Signatures(cut(p.Text, maxExamined))...)
		}
	}
	if p.Failed || code != 0 || len(found) > 0 {
		d.kind(kindError)
	}
	for _, signature := range found {
		if len(d.failed) < maxFailures && !slices.Contains(d.failed, signature) {
			d.failed = append(d.failed, signature)
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

// boots are the beginnings of texts that clients insert on their own (docs/wire/clients.md#1).
var boots = [...]string{
	"<environment_context>", "<user_instructions>", "<system-reminder>", "<permissions instructions>", "# AGENTS.md instructions",
	"<command-name>", "<command-message>", "<local-command-", "Caveat: The messages below were generated by the user while running local commands",
	"This is the Gemini CLI", "This is the Qwen Code", interruption,
	"Base directory for this skill:", "Stop hook feedback:",
}

// IsBoot reports whether a client puts the text before its user's words: instruction files and descriptions of the
// machine. They are the same in every conversation of a project, and every word in them would find all of them.
func IsBoot(text string) bool {
	if chatkey.IsSummary(text) {
		return true
	}
	text = strings.TrimSpace(text)
	for _, opening := range boots {
		if strings.HasPrefix(text, opening) {
			return true
		}
	}
	return false
}

// excerpt collects text from its end.
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
	if len(e.pieces) == 1 {
		return e.pieces[0]
	}
	var b strings.Builder
	for i := len(e.pieces) - 1; i >= 0; i-- {
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(e.pieces[i])
	}
	return b.String()
}

func cut(text string, limit int) string { return lexical.Cut(text, limit) }

// headAndTail returns the first and the last maxResult bytes of a text: the command and its start are there, and its
// end.
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

// stringsIn returns the strings in a call's arguments, one per line, without the names of members.
func stringsIn(arguments string) string {
	var b strings.Builder
	decoder := json.NewDecoder(strings.NewReader(arguments))
	var objects []bool // of what is open: whether it is an object
	name := false      // the next string is the name of a member
	for b.Len() < maxArguments {
		token, err := decoder.Token()
		if err != nil {
			break
		}
		text, isString := token.(string)
		switch {
		case isString && name:
			name = false
			continue
		case isString:
			b.WriteString(text)
			b.WriteByte('\n')
		case token == json.Delim('{') || token == json.Delim('['):
			objects = append(objects, token == json.Delim('{'))
		case token == json.Delim('}') || token == json.Delim(']'):
			objects = objects[:len(objects)-1]
		}
		name = len(objects) > 0 && objects[len(objects)-1]
	}
	return b.String()
}

// mostTouched bounds the files and commands of a turn.
const mostTouched = 16

// touch records the files and the command of a call.
func (d *document) touch(p *record.Part) {
	add := func(list []string, value string) []string {
		if len(list) == mostTouched || slices.Contains(list, value) {
			return list
		}
		return append(list, value)
	}
	arguments := argumentsOf(p)
	files, edits := arguments.files(p)
	for _, file := range files {
		d.files = add(d.files, file)
		if edits {
			d.edited = add(d.edited, file)
		}
	}
	if command := arguments.shell(); command != "" {
		d.ran = add(d.ran, ranValue(command))
	}
}

// Facets that a query string can name; see [lexical.Parse].
var facetNames = []string{"tool", "session", "model", "provider", "client", "surface", "outcome", facetProject, "kind", facetFile, facetEdited, facetFailure, facetRan}

const (
	facetDay     = "day"
	facetProject = "project"
	facetFile    = "file"    // that a call reads or changes
	facetEdited  = "edited"  // that a call changes
	facetRan     = "ran"     // commands, see [ranValue]
	facetFailure = "failure" // signatures of failures, see [Signatures]
	dayLayout    = time.DateOnly
)

func facetsOf(info *record.ExchangeInfo, d *document) []lexical.Facet {
	const alone = 8 // facets of which a document has one at most
	const paths = 3 // facets of a path at most
	facets := append(make([]lexical.Facet, 0, alone+paths+len(d.kinds)+len(d.tools)+len(d.failed)+len(d.ran)+paths*(len(d.files)+len(d.edited))),
		lexical.Facet{Name: "session", Value: info.Session},
		lexical.Facet{Name: "model", Value: info.ModelAsked},
		lexical.Facet{Name: "provider", Value: info.Provider},
		lexical.Facet{Name: "client", Value: info.Client()},
		lexical.Facet{Name: "surface", Value: info.Surface},
		lexical.Facet{Name: "outcome", Value: info.Outcome.String()},
		lexical.Facet{Name: facetDay, Value: info.Started.UTC().Format(dayLayout)},
	)
	if info.Project != "" {
		facets = addPath(facets, facetProject, info.Project, "")
	}
	for _, file := range d.files {
		facets = addPath(facets, facetFile, file, info.Project)
	}
	for _, file := range d.edited {
		facets = addPath(facets, facetEdited, file, info.Project)
	}
	for _, list := range []struct {
		name   string
		values []string
	}{{"kind", d.kinds}, {"tool", d.tools}, {facetFailure, d.failed}, {facetRan, d.ran}} {
		for _, value := range list.values {
			facets = append(facets, lexical.Facet{Name: list.name, Value: value})
		}
	}
	return facets
}

// lastPart ends the name of the facet that holds the last parts of the paths of another.
const lastPart = "/last"

// addPath adds the facets of a path: the path, the path within the project, and its last part.
func addPath(facets []lexical.Facet, name, value, within string) []lexical.Facet {
	facets = append(facets, lexical.Facet{Name: name, Value: value})
	if inside, ok := strings.CutPrefix(value, within+"/"); ok && within != "" && strings.Contains(inside, "/") {
		facets = append(facets, lexical.Facet{Name: name, Value: inside})
	}
	return append(facets, lexical.Facet{Name: name + lastPart, Value: project.Last(value)})
}

// facetOf returns the indexed facet for what a person asks for. A path without a slash is the last part of one.
func facetOf(name, value string) (facet, indexed string) {
	switch name {
	case "client":
		return name, record.ClientName(value)
	case facetProject, facetFile, facetEdited:
		if !strings.ContainsAny(value, `/\\`) {
			return name + lastPart, value
		}
	case facetRan:
		return name, ranValue(value)
	}
	return name, value
}

func (d *document) lexical(account record.AccountNumber) lexical.Document {
	return lexical.Document{
		Account: uint32(account), ID: d.id, Own: d.said.User, Text: d.said.Assistant, Names: d.names,
		Output: d.said.Output, Group: d.session, Facets: d.facets,
	}
}
