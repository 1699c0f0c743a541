package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// fieldNames lists the names allowed in a group, in the order of the struct.
func fieldNames(group reflect.Type) []string {
	var names []string
	for i := range group.NumField() {
		if name := group.Field(i).Tag.Get("json"); name != "-" {
			names = append(names, name)
		}
	}
	return names
}

func fieldNamed(group reflect.Type, name string) (reflect.StructField, bool) {
	for i := range group.NumField() {
		if field := group.Field(i); name != "-" && field.Tag.Get("json") == name {
			return field, true
		}
	}
	return reflect.StructField{}, false
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func within(path string) string {
	if path == "" {
		return ""
	}
	return " in " + path
}

// removed maps former fields to what became of them.
var removed = map[string]string{
	"upstream.hedge_after": "removed, because it paid two providers for one answer; delete this line",
	"centre.search":        "the database finds the candidates of searches, and there is no other engine; take the line out",
}

// remedy returns advice about a name that the group at path does not have: remove it, move it to the group that has
// it, use the nearest name of this group, or choose from all of them.
func remedy(group reflect.Type, path, name string) string {
	if text, ok := removed[join(path, name)]; ok {
		return text
	}
	root := reflect.TypeFor[Config]()
	if _, top := fieldNamed(root, name); top {
		return "it belongs at the top of the file, not indented"
	}
	if home := groupOf(root, name); home != "" {
		return fmt.Sprintf("it belongs under %q", home)
	}
	known := fieldNames(group)
	nearest := slices.MinFunc(known, func(a, b string) int { return distance(name, a) - distance(name, b) })
	if distance(name, nearest) <= max(2, len(name)/3) {
		return fmt.Sprintf("did you mean %q?", nearest)
	}
	return "known here: " + strings.Join(known, ", ")
}

// groupOf finds the top-level group that has a field of this name.
func groupOf(root reflect.Type, name string) string {
	for i := range root.NumField() {
		field := root.Field(i)
		if field.Type.Kind() != reflect.Struct {
			continue
		}
		if _, ok := fieldNamed(field.Type, name); ok {
			return field.Tag.Get("json")
		}
	}
	return ""
}

// distance is the number of single-character edits between two names, ignoring case and the choice of - or _.
func distance(a, b string) int {
	fold := func(s string) string { return strings.ReplaceAll(strings.ToLower(s), "-", "_") }
	a, b = fold(a), fold(b)
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}
