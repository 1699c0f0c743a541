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

// document is the file while it is read: the line of each value, and its problems.
type document struct {
	name     string
	env      func(string) (string, bool)
	origins  map[string]origin
	problems Problems
}

// readDocument walks the YAML tree alongside the shape of [Config], sets what the file says, and reports what does not
// fit with its line. The depth of the walk is that of the shape, whatever the file nests or aliases.
func readDocument(name string, text []byte, env func(string) (string, bool), into *Config) *document {
	d := &document{name: name, env: env, origins: map[string]origin{}}
	root, err := parseYAML(text)
	if err != nil {
		d.problems = Problems{d.syntaxProblem(err)}
		return d
	}
	if root == nil {
		return d
	}
	d.value(root, reflect.ValueOf(into).Elem(), "")
	return d
}

// parseYAML returns the top node of the only document, nil if there are only comments.
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

// value reads one node into a value, which keeps what the node does not set. It reports whether the node sets anything.
func (d *document) value(node *yaml.Node, into reflect.Value, path string) bool {
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	if node.Kind == yaml.ScalarNode && node.Tag == "!!null" {
		return false
	}
	d.origins[path] = origin{d.name, node.Line}
	switch into.Kind() {
	case reflect.Struct:
		return d.structure(node, into, path)
	case reflect.Map:
		return d.named(node, into, path)
	case reflect.Slice:
		if _, one := into.Addr().Interface().(encoding.TextUnmarshaler); one && node.Kind == yaml.ScalarNode {
			return d.scalar(node, into, path, nil)
		}
		return d.list(node, into, path)
	default:
		return d.scalar(node, into, path, nil)
	}
}

func (d *document) structure(node *yaml.Node, into reflect.Value, path string) bool {
	want := into.Type()
	if !d.isMapping(node, path, fieldNames(want)) {
		return false
	}
	for key, child := range d.members(node) {
		field, ok := fieldNamed(want, key.Value)
		if !ok {
			d.fail(key, "unknown field %q%s; %s", key.Value, within(path), remedy(want, path, key.Value))
			continue
		}
		member := into.FieldByIndex(field.Index)
		if oneof := field.Tag.Get("oneof"); oneof != "" && child.Kind == yaml.ScalarNode && child.Tag != "!!null" {
			d.origins[join(path, key.Value)] = origin{d.name, child.Line}
			d.scalar(child, member, join(path, key.Value), strings.Split(oneof, ","))
		} else {
			d.value(child, member, join(path, key.Value))
		}
	}
	return true
}

// providerName keeps names usable in a path, a metric label and a command-line argument.
var providerName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`)

func (d *document) named(node *yaml.Node, into reflect.Value, path string) bool {
	if !d.isMapping(node, path, []string{"NAME"}) {
		return false
	}
	if into.IsNil() {
		into.Set(reflect.MakeMap(into.Type()))
	}
	for key, child := range d.members(node) {
		if !providerName.MatchString(key.Value) {
			d.fail(key, "%q is not a name for %s; use lower-case letters, digits, - and _", key.Value, path)
			continue
		}
		name, member := reflect.ValueOf(key.Value), reflect.New(into.Type().Elem()).Elem()
		if set := into.MapIndex(name); set.IsValid() { // by a weaker layer
			member.Set(set)
		}
		if d.value(child, member, join(path, key.Value)) {
			into.SetMapIndex(name, member)
		}
	}
	return true
}

func (d *document) list(node *yaml.Node, into reflect.Value, path string) bool {
	if node.Kind != yaml.SequenceNode {
		d.fail(node, "%s must be a list; start each entry with \"- \"", path)
		return false
	}
	into.Set(reflect.MakeSlice(into.Type(), len(node.Content), len(node.Content)))
	for i, child := range node.Content {
		if !d.value(child, into.Index(i), join(path, strconv.Itoa(i))) && child.Tag == "!!null" {
			d.fail(child, "entry %d of %s is empty; fill it in or remove it", i+1, path)
		}
	}
	return true
}

// scalar expands variables and sets the value to the text.
func (d *document) scalar(node *yaml.Node, into reflect.Value, path string, oneof []string) bool {
	if node.Kind != yaml.ScalarNode {
		d.fail(node, "%s must be a single value%s", path, exampleOf(into.Type(), oneof))
		return false
	}
	text, err := expand(node.Value, d.env)
	if err == nil {
		err = assign(text, into, oneof)
	}
	if err != nil {
		d.fail(node, "%s: %v", path, err)
		return false
	}
	return true
}

// assign sets a value to the one in text, or leaves it unchanged. Secrets are plain strings here: no error quotes one.
func assign(text string, into reflect.Value, oneof []string) error {
	fresh := reflect.New(into.Type())
	switch v := fresh.Interface().(type) {
	case encoding.TextUnmarshaler:
		if err := v.UnmarshalText([]byte(text)); err != nil {
			return err
		}
	case *bool:
		if text != "true" && text != "false" {
			return fmt.Errorf("%q is neither true nor false", text)
		}
		*v = text == "true"
	default:
		if oneof != nil && !slices.Contains(oneof, text) {
			return fmt.Errorf("%q is not one of %s", text, strings.Join(oneof, ", "))
		}
		fresh.Elem().SetString(text)
	}
	into.Set(fresh.Elem())
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

// members yields the keys and values of a mapping, and reports keys that are not plain text or occur twice.
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
