package gemini

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/mnemeproxy/mneme/codec/scan"
)

// definitionRef is the prefix of references to definitions; older drafts use "#/definitions/".
const definitionRef = "#/$defs/"

// canonicalRef returns the reference in the spelling of $defs.
func canonicalRef(ref []byte) string {
	if rest, ok := bytes.CutPrefix(ref, []byte("#/definitions/")); ok {
		return definitionRef + string(rest)
	}
	return string(ref)
}

// canonicalOwner returns the definition that a reference leads into, or the root; other places have no name.
func canonicalOwner(ref []byte) string {
	name := canonicalRef(ref)
	if name == rootRef {
		return rootRef
	}
	rest, ok := strings.CutPrefix(name, definitionRef)
	if !ok {
		return ""
	}
	owner, _, _ := strings.Cut(rest, "/")
	return definitionRef + owner
}

// place returns the schema that a JSON pointer leads to, nil if there is none or it contains the same reference again.
func (c *cleaner) place(ref []byte) []byte {
	rest, ok := strings.CutPrefix(scan.Text(ref), "#/")
	if !ok {
		return nil
	}
	place := c.root
	for step := range strings.SplitSeq(rest, "/") {
		place = stepInto(place, strings.NewReplacer("~1", "/", "~0", "~").Replace(step))
		if place == nil {
			return nil
		}
	}
	eachRef(place, func(inner []byte) {
		if bytes.Equal(inner, ref) {
			place = nil
		}
	})
	return place
}

// stepInto returns the member of that name, or the element of that number.
func stepInto(value []byte, step string) []byte {
	if !scan.IsArray(value) {
		return scan.Get(value, step)
	}
	i := 0
	for e := scan.Array(value); e.Next(); i++ {
		if strconv.Itoa(i) == step {
			return e.Value
		}
	}
	return nil
}

// findDefinitions reads the definitions of the root and finds out which of them lead to which.
func (c *cleaner) findDefinitions() {
	c.definitions = map[string][]byte{}
	refs := map[string]map[string]bool{rootRef: {}}
	note := func(from string, value []byte) {
		eachRef(value, func(ref []byte) { refs[from][canonicalOwner(ref)] = true })
	}
	for m := scan.Object(c.root); m.Next(); {
		switch string(m.Key) {
		case "$ref":
			refs[rootRef][canonicalOwner(scan.Body(m.Value))] = true
		case "$defs", "definitions":
			for d := scan.Object(m.Value); d.Next(); {
				name := definitionRef + string(scan.Body(m.Value[d.Start:scan.Skip(m.Value, d.Start)]))
				c.definitions[name] = d.Value
				refs[name] = map[string]bool{}
				note(name, d.Value)
			}
		default:
			note(rootRef, m.Value)
		}
	}
	if len(refs) > maxDefinitions {
		return
	}
	c.reach = make(map[string]map[string]bool, len(refs))
	for from := range refs {
		c.reach[from] = reachable(refs, from)
	}
}

// reachable returns the set of definitions that from refers to, directly or through others.
func reachable(refs map[string]map[string]bool, from string) map[string]bool {
	seen := map[string]bool{}
	for open := []string{from}; len(open) > 0; {
		next := open[len(open)-1]
		open = open[:len(open)-1]
		for ref := range refs[next] {
			if !seen[ref] {
				seen[ref] = true
				open = append(open, ref)
			}
		}
	}
	return seen
}

// leadsTo reports whether following references from one definition reaches the other.
func (c *cleaner) leadsTo(from, to string) bool {
	return c.reach == nil || c.reach[from][to]
}

// eachRef calls found for each reference in a value, at any depth. Inside a string the quotes of the name would be
// escaped, so the quoted name is found only in names.
func eachRef(value []byte, found func(ref []byte)) {
	mark := []byte(`"$ref"`)
	for {
		at := bytes.Index(value, mark)
		if at < 0 {
			return
		}
		value = value[at+len(mark):]
		i := scan.Space(value, 0)
		if i >= len(value) || value[i] != ':' {
			continue
		}
		i = scan.Space(value, i+1)
		if ref := scan.Body(value[i:max(scan.Skip(value, i), i)]); ref != nil {
			found(ref)
		}
	}
}
