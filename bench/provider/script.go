package provider

import (
	"fmt"
	"strings"

	"github.com/bytedance/sonic"
)

// Bounds of a script, so that one prompt cannot make the simulated provider hold unbounded memory.
const (
	maxSteps     = 64
	maxParts     = 256
	maxTextBytes = 64 << 20 // of the parts of one step, made-up text included
)

// A script is what one marker asks for: one step per model turn of a tool loop.
type script struct {
	steps []step
}

// A step is one answer of the simulated model and the way it is delivered.
type step struct {
	parts       []part
	stop        stopReason
	stopText    string // the stop sequence that was met, for stopSequence
	openCall    bool   // the last call is cut off in the middle of its arguments
	blocked     bool   // the prompt was blocked: no answer at all
	usage       usage
	scripted    bool            // at least one directive says what the answer holds
	interleave  bool            // fragments of neighboring calls alternate
	unknown     bool            // members and events that no format defines are mixed in
	splitPairs  bool            // characters outside ASCII travel as \u escapes, and deltas may cut between the halves of a pair
	omit        map[string]bool // real things that are missing
	quirk       map[string]bool // habits of compatible hosts
	fault       *fault
	faultTimes  int // how many times the fault answers the same request; 0 means always
	insideFault *fault
	insideAfter int // events before the fault inside the stream, or beforeTerminal
	delivery    delivery
}

// beforeTerminal stands for as many events as there are before the terminal ones.
const beforeTerminal = -1

// markerOpen starts a script inside a prompt or a model name.
const markerOpen = "[[sim:"

// findScript parses the last marker in text. The second result is false when there is none.
func findScript(text string) (script, bool, error) {
	at := strings.LastIndex(text, markerOpen)
	if at < 0 {
		return script{}, false, nil
	}
	parsed, err := parseScript(text[at+len(markerOpen):])
	return parsed, true, err
}

// cutMarker removes the marker from a model name: "text-embedding-3-small[[sim: error 429]]".
func cutMarker(model string) (name, marker string) {
	at := strings.Index(model, markerOpen)
	if at < 0 {
		return model, ""
	}
	return strings.TrimSpace(model[:at]), model[at:]
}

// parseScript reads directives up to the closing "]]".
func parseScript(text string) (script, error) {
	lex := lexer{rest: text}
	var parsed script
	current := newStep()
	for {
		d, end, err := lex.directive()
		if err != nil {
			return script{}, err
		}
		switch {
		case d.name == "":
		case d.name == "then":
			if len(parsed.steps) == maxSteps {
				return script{}, fmt.Errorf("more than %d steps", maxSteps)
			}
			parsed.steps = append(parsed.steps, current)
			current = newStep()
		default:
			if err := d.apply(&current); err != nil {
				return script{}, err
			}
			if len(current.parts) > maxParts {
				return script{}, fmt.Errorf("more than %d parts in one step", maxParts)
			}
		}
		if end {
			parsed.steps = append(parsed.steps, current)
			return parsed, nil
		}
	}
}

func newStep() step { return step{delivery: delivery{size: defaultDeltaSize}} }

// A directive is a name with its arguments as written.
type directive struct {
	name string
	args []argument
}

// An argument is a word, a quoted string, a JSON object, or one of these after "key=".
type argument struct {
	key   string
	value string
	form  argumentForm
}

type argumentForm uint8

const (
	formWord argumentForm = iota
	formString
	formObject
)

type lexer struct {
	rest string
}

// directive reads up to the next ";" or "]]". end tells that the script is over.
func (l *lexer) directive() (d directive, end bool, err error) {
	for {
		l.rest = strings.TrimLeft(l.rest, " \t\r\n")
		switch {
		case l.rest == "":
			return d, true, fmt.Errorf(`the script has no closing "]]"`)
		case strings.HasPrefix(l.rest, "]]"):
			l.rest = l.rest[2:]
			return d, true, nil
		case l.rest[0] == ';':
			l.rest = l.rest[1:]
			return d, false, nil
		}
		arg, err := l.argument()
		if err != nil {
			return d, true, err
		}
		if d.name == "" {
			if arg.form != formWord || arg.key != "" {
				return d, true, fmt.Errorf("a directive starts with its name, not with %.40q", arg.value)
			}
			d.name = arg.value
			continue
		}
		d.args = append(d.args, arg)
	}
}

func (l *lexer) argument() (argument, error) {
	switch l.rest[0] {
	case '"':
		value, err := l.quoted()
		return argument{value: value, form: formString}, err
	case '{', '[':
		value, err := l.object()
		return argument{value: value, form: formObject}, err
	}
	n := strings.IndexAny(l.rest, " \t\r\n;\"{=")
	if closing := strings.Index(l.rest, "]]"); closing >= 0 && (n < 0 || closing < n) {
		n = closing
	}
	if n < 0 {
		n = len(l.rest)
	}
	if n == 0 {
		return argument{}, fmt.Errorf("unexpected %q", l.rest[:1])
	}
	word := l.rest[:n]
	l.rest = l.rest[n:]
	if !strings.HasPrefix(l.rest, "=") {
		return argument{value: word}, nil
	}
	l.rest = l.rest[1:]
	if l.rest == "" || strings.ContainsAny(l.rest[:1], " \t\r\n;=") || strings.HasPrefix(l.rest, "]]") {
		return argument{}, fmt.Errorf("%q has no value", word)
	}
	value, err := l.argument()
	if err != nil {
		return argument{}, err
	}
	if value.key != "" {
		return argument{}, fmt.Errorf("%q has two values", word)
	}
	value.key = word
	return value, nil
}

// quoted reads a JSON string.
func (l *lexer) quoted() (string, error) {
	for i := 1; i < len(l.rest); i++ {
		switch l.rest[i] {
		case '\\':
			i++
		case '"':
			var value string
			if err := wire.UnmarshalFromString(l.rest[:i+1], &value); err != nil {
				return "", fmt.Errorf("%.40s is not a JSON string", l.rest[:i+1])
			}
			l.rest = l.rest[i+1:]
			return value, nil
		}
	}
	return "", fmt.Errorf("the string %.40s is not closed", l.rest)
}

// object reads a JSON object or array, kept as written.
func (l *lexer) object() (string, error) {
	depth, inString := 0, false
	for i := 0; i < len(l.rest); i++ {
		c := l.rest[i]
		switch {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			depth--
			if depth > 0 {
				continue
			}
			value := l.rest[:i+1]
			if !sonic.ValidString(value) {
				return "", fmt.Errorf("%.40s is not valid JSON", value)
			}
			l.rest = l.rest[i+1:]
			return value, nil
		}
	}
	return "", fmt.Errorf("the JSON value %.40s is not closed", l.rest)
}
