package provider

import (
	"fmt"
	"strings"
)

// A prompt is what the simulated model needs to know of a request, in no particular format.
type prompt struct {
	model    string
	marker   string // a script in the model name
	stream   bool
	bytes    int // size of the request, for the token estimate
	tools    []tool
	schema   raw    // of structured output, nil when free text will do
	text     string // newest user text
	step     int    // model turns since that text
	answered bool   // the newest turn holds tool results
	compacts bool   // the answer is to be the compacted conversation
	results  int    // how many results arrived since that text

	hideReasoning bool // the request asks for no visible reasoning
	members       object
}

// A tool is a declared tool under the name that the request gives it.
type tool struct {
	name      string
	namespace string
	custom    bool // freeform, not a function
	schema    raw  // of the arguments
}

type speaker uint8

const (
	speakerNone speaker = iota // instructions and bookkeeping: no turn of the conversation
	speakerUser
	speakerModel
	speakerTool
)

// A turn is one message or item of a conversation.
type turn struct {
	speaker speaker
	text    string // what the user wrote; for speakerTool, text beside the results
	results int
}

// locate finds the newest user text and how far the tool loop after it has come. at reads item i of n.
// User text that follows tool results or other user text belongs to them, unless it has a script of its own:
// proxies and agents append reminders and pictures there.
func (p *prompt) locate(n int, at func(int) turn) {
	newest, previous := true, speakerNone
	text, open := "", false // user text that waits to see whom it follows
	for i := n - 1; i >= 0; i-- {
		t := at(i)
		if t.speaker == speakerNone {
			continue
		}
		if newest {
			newest, p.answered = false, t.speaker == speakerTool
		}
		scripted := strings.Contains(t.text, markerOpen)
		switch t.speaker {
		case speakerUser:
			if scripted {
				p.text = t.text
				return
			}
			if !open {
				text, open = t.text, true
			}
		case speakerModel:
			if open {
				p.text = text
				return
			}
			if previous != speakerModel {
				p.step++
			}
		case speakerTool:
			if scripted {
				p.text, p.answered = t.text, false
				return
			}
			p.answered = p.answered || (open && p.step == 0)
			p.results += t.results
			open = false
		}
		previous = t.speaker
	}
	if open {
		p.text = text
	}
}

// choose picks the step of the script to play, or makes one up. The script of agents is for prompts with tools that have none.
func (p *prompt) choose(ofAgents string) (*step, error) {
	if p.compacts {
		s := newStep()
		s.parts = []part{{kind: partCompaction}}
		return &s, nil
	}
	source := p.text
	switch {
	case p.marker != "":
		source = p.marker
	case len(p.tools) > 0 && !strings.Contains(p.text, markerOpen):
		source = ofAgents
	}
	parsed, found, err := findScript(source)
	if err != nil {
		return nil, err
	}
	if found && p.step < len(parsed.steps) {
		chosen := &parsed.steps[p.step]
		if !chosen.scripted {
			chosen.parts = []part{p.defaultPart(found, chosen.delivery.size)}
		}
		return chosen, nil
	}
	s := newStep()
	s.parts = []part{p.defaultPart(found, s.delivery.size)}
	return &s, nil
}

// defaultPart is the answer to a prompt that asks for nothing in particular.
func (p *prompt) defaultPart(scripted bool, size int) part {
	text := greeting
	switch {
	case p.schema != nil:
		text = sampleOf(p.schema)
	case p.answered:
		text = fmt.Sprintf("%s Tool results received: %d.", greeting, p.results)
	case !scripted && p.text != "":
		text = fmt.Sprintf("%s You wrote: %s", greeting, firstCharacters(withoutReminders(p.text), 100))
	}
	return part{kind: partText, text: text, size: size}
}

// withoutReminders returns what a person wrote: clients put blocks such as <system-reminder>…</system-reminder> before it. A
// text of nothing else is given whole.
func withoutReminders(text string) string {
	rest := strings.TrimSpace(text)
	for {
		tag, inside, opened := strings.Cut(rest, ">")
		if !opened || !strings.HasPrefix(tag, "<") || strings.ContainsAny(tag[1:], "</ \n") {
			break
		}
		_, after, closed := strings.Cut(inside, "</"+tag[1:]+">")
		if after = strings.TrimSpace(after); !closed || after == "" {
			break
		}
		rest = after
	}
	return rest
}

// firstCharacters cuts a text for people to read.
func firstCharacters(s string, n int) string {
	for i := range s {
		if n == 0 {
			return s[:i] + "…"
		}
		n--
	}
	return s
}

// resolve finds the declared tool that a scripted call means, and gives the call the name and form of that tool:
// a request that came through a proxy may declare a freeform tool as a function with one string argument, and a
// namespaced one under a joined name.
func (p *prompt) resolve(pt *part) {
	declared := p.declared(pt)
	if declared == nil {
		return
	}
	pt.name, pt.namespace = declared.name, declared.namespace
	switch {
	case pt.kind == partCustom && !declared.custom:
		pt.kind = partCall
		pt.text = fmt.Sprintf("{%s:%s}", quote(firstProperty(declared.schema)), quote(pt.text))
	case pt.kind == partCall && declared.custom:
		pt.kind = partCustom
	}
}

func (p *prompt) declared(pt *part) *tool {
	for i := range p.tools {
		if p.tools[i].name == pt.name && p.tools[i].namespace == pt.namespace {
			return &p.tools[i]
		}
	}
	for i := range p.tools {
		t := &p.tools[i]
		if strings.HasSuffix(t.name, pt.name) && strings.Contains(t.name, pt.namespace) && pt.namespace != "" {
			return t
		}
	}
	return nil
}

// firstProperty names the one argument of a function that stands in for a freeform tool.
func firstProperty(schema raw) string {
	o, _ := parseObject(schema)
	for _, name := range o.list("required") {
		if s, ok := parseString(name); ok {
			return s
		}
	}
	if names := sortedNames(o.object("properties")); len(names) > 0 {
		return names[0]
	}
	return "input"
}

// contentText is the text of a message's content: a string, or the text members of its blocks joined by line ends.
func contentText(content raw, types ...string) string {
	if s, ok := parseString(content); ok {
		return s
	}
	var all []string
	blocks, _ := parseList(content)
	for _, value := range blocks {
		block, ok := parseObject(value)
		if !ok {
			continue
		}
		kind := block.text("type")
		for _, accepted := range types {
			if kind == accepted {
				all = append(all, block.text("text"))
			}
		}
	}
	return strings.Join(all, "\n")
}

// sampleOf makes the smallest value that a schema of structured output accepts, as JSON text.
func sampleOf(schema raw) string {
	return string(appendSample(nil, schema, 0))
}

// Nesting below which a sample is cut off with null; real schemas of structured output allow 5 to 10 levels.
const maxSampleDepth = 16

func appendSample(dst []byte, schema raw, depth int) []byte {
	o, ok := parseObject(schema)
	if !ok || depth > maxSampleDepth {
		return append(dst, "null"...)
	}
	if choices := o.list("enum"); len(choices) > 0 {
		return append(dst, choices[0]...)
	}
	if o.has("const") {
		return append(dst, o["const"]...)
	}
	for _, name := range []string{"anyOf", "oneOf", "allOf"} {
		if choices := o.list(name); len(choices) > 0 {
			return appendSample(dst, choices[0], depth+1)
		}
	}
	kind := strings.ToLower(o.text("type"))
	if kinds := o.list("type"); len(kinds) > 0 {
		kind, _ = parseString(kinds[0])
	}
	switch kind {
	case "string":
		return append(dst, `"simulated"`...)
	case "integer", "number":
		if low, ok := o.number("minimum"); ok && low > 0 {
			return append(dst, o["minimum"]...)
		}
		return append(dst, '0')
	case "boolean":
		return append(dst, "false"...)
	case "null":
		return append(dst, "null"...)
	case "array":
		if n, ok := o.number("minItems"); ok && n >= 1 {
			dst = append(dst, '[')
			dst = appendSample(dst, o["items"], depth+1)
			return append(dst, ']')
		}
		return append(dst, "[]"...)
	}
	dst = append(dst, '{')
	properties := o.object("properties")
	for i, required := range o.list("required") {
		name, _ := parseString(required)
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendString(dst, name)
		dst = append(dst, ':')
		dst = appendSample(dst, properties[name], depth+1)
	}
	return append(dst, '}')
}
