package config

import (
	"bytes"
	"encoding"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// document is the file after checking: values as text under the file's names, and the line of each.
// It is a koanf.Provider.
type document struct {
	name     string
	env      func(string) (string, bool)
	values   map[string]any
	origins  map[string]origin
	problems Problems
}

// readDocument walks the YAML tree beside the shape of [Config], so that whatever does not fit can be named
// with its line. The depth of the walk is that of the shape, whatever the file nests or aliases.
func readDocument(name string, text []byte, env func(string) (string, bool)) *document {
	d := &document{name: name, env: env, origins: map[string]origin{}}
	root, err := parseYAML(text)
	if err != nil {
		d.problems = Problems{d.syntaxProblem(err)}
		return d
	}
	if root == nil {
		return d
	}
	values, _ := d.value(root, reflect.TypeFor[Config](), "").(map[string]any)
	d.values = values
	return d
}

// Read gives the nested map that koanf merges.
func (d *document) Read() (map[string]any, error) { return d.values, nil }

// ReadBytes is the other half of koanf.Provider, for providers whose text koanf is to parse.
func (d *document) ReadBytes() ([]byte, error) { return nil, errors.ErrUnsupported }

// parseYAML gives the top node of the only document, nil when there is nothing but comments.
func parseYAML(text []byte) (*yaml.Node, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var root, second yaml.Node
	if err := decoder.Decode(&root); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		return nil, err
	}
	if err := decoder.Decode(&second); err == nil {
		return nil, fmt.Errorf("yaml: line %d: a second document starts here; keep everything in one", second.Line)
	}
	return root.Content[0], nil
}

var syntaxError = regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)$`)

func (d *document) syntaxProblem(err error) Problem {
	p := Problem{Source: d.name, Message: err.Error()}
	if m := syntaxError.FindStringSubmatch(err.Error()); m != nil {
		p.Line, _ = strconv.Atoi(m[1])
		p.Message = "not valid YAML: " + m[2]
	}
	return p
}

func (d *document) fail(node *yaml.Node, format string, args ...any) {
	d.problems = append(d.problems, origin{d.name, node.Line}.problem(format, args...))
}

// value reads one node as the given type and returns what koanf is to merge: a map, a list or a text.
// nil means not set.
func (d *document) value(node *yaml.Node, want reflect.Type, path string) any {
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	if node.Kind == yaml.ScalarNode && node.Tag == "!!null" {
		return nil
	}
	d.origins[path] = origin{d.name, node.Line}
	switch want.Kind() {
	case reflect.Struct:
		return d.structure(node, want, path)
	case reflect.Map:
		return d.named(node, want.Elem(), path)
	case reflect.Slice:
		if node.Kind == yaml.ScalarNode && reflect.PointerTo(want).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
			return d.scalar(node, want, path, nil)
		}
		return d.list(node, want.Elem(), path)
	default:
		return d.scalar(node, want, path, nil)
	}
}

func (d *document) structure(node *yaml.Node, want reflect.Type, path string) any {
	if !d.isMapping(node, path, fieldNames(want)) {
		return nil
	}
	values := map[string]any{}
	for key, child := range d.members(node) {
		field, ok := fieldNamed(want, key.Value)
		if !ok {
			d.fail(key, "unknown field %q%s; %s", key.Value, within(path), remedy(want, path, key.Value))
			continue
		}
		var v any
		if oneof := field.Tag.Get("oneof"); oneof != "" && child.Kind == yaml.ScalarNode && child.Tag != "!!null" {
			d.origins[join(path, key.Value)] = origin{d.name, child.Line}
			v = d.scalar(child, field.Type, join(path, key.Value), strings.Split(oneof, ","))
		} else {
			v = d.value(child, field.Type, join(path, key.Value))
		}
		if v != nil {
			values[key.Value] = v
		}
	}
	return values
}

// providerName keeps names usable as part of a path, a metric label and a command-line argument.
var providerName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`)

func (d *document) named(node *yaml.Node, elem reflect.Type, path string) any {
	if !d.isMapping(node, path, []string{"NAME"}) {
		return nil
	}
	values := map[string]any{}
	for key, child := range d.members(node) {
		if !providerName.MatchString(key.Value) {
			d.fail(key, "%q is not a name for %s; use lower-case letters, digits, - and _", key.Value, path)
			continue
		}
		if v := d.value(child, elem, join(path, key.Value)); v != nil {
			values[key.Value] = v
		}
	}
	return values
}

func (d *document) list(node *yaml.Node, elem reflect.Type, path string) any {
	if node.Kind != yaml.SequenceNode {
		d.fail(node, "%s must be a list; start each entry with \"- \"", path)
		return nil
	}
	values := make([]any, 0, len(node.Content))
	for i, child := range node.Content {
		v := d.value(child, elem, join(path, strconv.Itoa(i)))
		if v == nil && child.Tag == "!!null" {
			d.fail(child, "entry %d of %s is empty; fill it or take it away", i+1, path)
		}
		values = append(values, v)
	}
	return values
}

// scalar expands variables and tries the text against its type; what koanf gets is the text.
func (d *document) scalar(node *yaml.Node, want reflect.Type, path string, oneof []string) any {
	if node.Kind != yaml.ScalarNode {
		d.fail(node, "%s must be a single value%s", path, exampleOf(want, oneof))
		return nil
	}
	text, err := expand(node.Value, d.env)
	if err != nil {
		d.fail(node, "%s: %v", path, err)
		return nil
	}
	if err := try(text, want, oneof); err != nil {
		d.fail(node, "%s: %v", path, err)
		return nil
	}
	return text
}

// try reports whether text can become a value of the type. Secrets are plain strings here: no error quotes one.
func try(text string, want reflect.Type, oneof []string) error {
	switch v := reflect.New(want).Interface().(type) {
	case encoding.TextUnmarshaler:
		return v.UnmarshalText([]byte(text))
	case *bool:
		if text != "true" && text != "false" {
			return fmt.Errorf("%q is neither true nor false", text)
		}
	}
	if oneof != nil && !slices.Contains(oneof, text) {
		return fmt.Errorf("%q is not one of %s", text, strings.Join(oneof, ", "))
	}
	return nil
}

func exampleOf(want reflect.Type, oneof []string) string {
	switch {
	case oneof != nil:
		return ", " + strings.Join(oneof, " or ")
	case want.Kind() == reflect.Bool:
		return ", true or false"
	case want == reflect.TypeFor[Size]():
		return ", such as 64MiB"
	case want == reflect.TypeFor[Duration]():
		return ", such as 30s"
	}
	return ""
}

func (d *document) isMapping(node *yaml.Node, path string, names []string) bool {
	if node.Kind == yaml.MappingNode {
		return true
	}
	what := path
	if what == "" {
		what = "the file"
	}
	d.fail(node, "%s must be a group of fields (%s), each written \"name: value\"", what, strings.Join(names, ", "))
	return false
}

// members yields the keys and values of a mapping, reporting keys that are no plain text or come twice.
func (d *document) members(node *yaml.Node) func(yield func(key, value *yaml.Node) bool) {
	return func(yield func(key, value *yaml.Node) bool) {
		first := map[string]int{}
		for i := 0; i+1 < len(node.Content); i += 2 {
			key, value := node.Content[i], node.Content[i+1]
			if key.Kind != yaml.ScalarNode {
				d.fail(key, "a field name must be plain text")
				continue
			}
			if line, twice := first[key.Value]; twice {
				d.fail(key, "%q is set twice (first on line %d); keep one", key.Value, line)
				continue
			}
			first[key.Value] = key.Line
			if !yield(key, value) {
				return
			}
		}
	}
}
