package docs_test

import (
	"flag"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mnemeproxy/mneme/server/config"
)

var update = flag.Bool("update", false, "write docs/configuration.md instead of comparing with it")

const configurationPage = "configuration.md"

// The page is made of the configuration's type and defaults, and of mneme.example.yaml.
func TestTheConfigurationPageIsUpToDate(t *testing.T) {
	want := configurationText(read(t, "mneme.example.yaml"))
	if *update {
		if err := os.WriteFile(configurationPage, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(configurationPage)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("docs/%s is stale; run: make docs\n%s", configurationPage, diff)
	}
}

func configurationText(example string) string {
	var b strings.Builder
	b.WriteString("# Configuration\n\n<!-- Made by \"make docs\" from the configuration's type and mneme.example.yaml. -->\n\n")
	head, groups := exampleGroups(example)
	b.WriteString(strings.Replace(head, "copy this file", "copy `mneme.example.yaml`", 1))
	b.WriteString("\n## All fields\n\n| field | default |\n|---|---|\n")
	for _, f := range configurationFields() {
		fmt.Fprintf(&b, "| [`%s`](#%s) | %s |\n", f.path, f.group, f.value)
	}
	for _, g := range groups {
		fmt.Fprintf(&b, "\n## %s\n\n", g.name)
		if g.text != "" {
			b.WriteString(g.text + "\n\n")
		}
		b.WriteString("```yaml\n" + g.yaml + "```\n")
	}
	return b.String()
}

type configurationField struct{ group, path, value string }

func configurationFields() []configurationField {
	defaults := config.Default()
	return fieldsOf(reflect.ValueOf(defaults), "", "")
}

// fieldsOf lists what a group holds. Names of the operator's choice stand as NAME, elements of lists as [].
func fieldsOf(group reflect.Value, path, top string) (fields []configurationField) {
	for i := range group.NumField() {
		name := group.Type().Field(i).Tag.Get("json")
		if name == "-" {
			continue
		}
		home := top
		if home == "" {
			home = name
		}
		value := group.Field(i)
		switch kind := value.Type(); {
		case kind.Kind() == reflect.Struct:
			fields = append(fields, fieldsOf(value, path+name+".", home)...)
		case kind.Kind() == reflect.Map:
			fields = append(fields, fieldsOf(reflect.Zero(kind.Elem()), path+name+".NAME.", home)...)
		case kind.Kind() == reflect.Slice && kind.Elem().Kind() == reflect.Struct:
			fields = append(fields, fieldsOf(reflect.Zero(kind.Elem()), path+name+"[].", home)...)
		default:
			fields = append(fields, configurationField{home, path + name, defaultText(value)})
		}
	}
	return fields
}

func defaultText(value reflect.Value) string {
	if value.IsZero() && value.Kind() != reflect.Bool {
		return "–"
	}
	return "`" + strings.Trim(fmt.Sprint(value.Interface()), "[]") + "`"
}

// An exampleGroup is one field of the top level with what the example says about it.
type exampleGroup struct{ name, text, yaml string }

var topField = regexp.MustCompile(`^#([a-z_]+):`)

// exampleGroups takes mneme.example.yaml apart. Text about the file or a field of the top level stands behind "# ", text
// inside a group behind an indented "#", and settings directly behind "#".
func exampleGroups(example string) (head string, groups []exampleGroup) {
	var about, intro []string
	flush := func() {
		intro = append(intro, about...)
		intro = append(intro, "")
		about = nil
	}
	for line := range strings.Lines(strings.TrimPrefix(example, "# mneme configuration.\n#\n")) {
		line = strings.TrimRight(line, "\n")
		if match := topField.FindStringSubmatch(line); match != nil {
			groups = append(groups, exampleGroup{name: match[1], text: strings.Join(about, "\n")})
			about = nil
		}
		switch {
		case line == "" || line == "#":
			if len(groups) == 0 {
				flush()
			}
		case strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "# ") || strings.HasPrefix(line, "#  "):
			if len(groups) > 0 {
				groups[len(groups)-1].yaml += line[1:] + "\n"
			} else {
				about = append(about, line[1:])
			}
		case strings.HasPrefix(line, "# "):
			about = append(about, line[2:])
		default: // text inside a group
			groups[len(groups)-1].yaml += line[1:] + "\n"
		}
	}
	return strings.TrimSpace(strings.Join(intro, "\n")) + "\n", groups
}

var (
	dottedName = regexp.MustCompile("`([a-z_]+(?:\\.[a-z_]+)+)`")
	fileSuffix = regexp.MustCompile(`\.(go|json|md|sock|yaml)$`)
)

func TestConfigurationFieldsThatThePagesNameExist(t *testing.T) {
	known, tops := make(map[string]bool), make(map[string]bool)
	for _, f := range configurationFields() {
		tops[f.group] = true
		for path := f.path; path != ""; {
			known[strings.ReplaceAll(path, "[]", "")] = true
			cut := strings.LastIndexByte(path, '.')
			if cut < 0 {
				break
			}
			path = path[:cut]
		}
	}
	named := 0
	for _, name := range pages(t) {
		for _, match := range dottedName.FindAllStringSubmatch(read(t, name), -1) {
			top, _, _ := strings.Cut(match[1], ".")
			if !tops[top] || fileSuffix.MatchString(match[1]) {
				continue // a member of something else, or a file
			}
			named++
			if !known[match[1]] {
				t.Errorf("%s names the field %s, which the configuration does not have", name, match[1])
			}
		}
	}
	if named < 15 {
		t.Errorf("only %d fields found: is the search for them wrong?", named)
	}
}
