package agent

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/tailscale/hujson"
)

// members sets members of a JSON text, which may have comments. The rest of the text keeps its bytes.
type members []member

type member struct {
	path  []string
	value any
	also  bool // the value is added to the elements of an array
}

func (m members) apply(text []byte) (changed []byte, done []Edit, err error) {
	fresh := len(bytes.TrimSpace(text)) == 0
	if fresh {
		text = []byte("{}")
	}
	doc, err := hujson.Parse(text)
	if err != nil {
		return nil, nil, fmt.Errorf("it is not JSON that can be read (%w); correct it first", err)
	}
	if _, isObject := doc.Value.(*hujson.Object); !isObject {
		return nil, nil, errors.New("it holds no JSON object")
	}
	for _, one := range m {
		for depth := 1; depth <= len(one.path); depth++ {
			pointer := pointerOf(one.path[:depth])
			there := doc.Find(pointer)
			value := []byte("{}")
			if depth == len(one.path) {
				if value, err = one.text(there); err != nil {
					return nil, nil, err
				}
			} else if there != nil {
				if _, isObject := there.Value.(*hujson.Object); !isObject {
					return nil, nil, fmt.Errorf("%s in it is no object", strings.Join(one.path[:depth], "."))
				}
				continue
			}
			edit := Edit{Pointer: pointer, After: value}
			if there != nil {
				edit.Before = standard(there)
			}
			if err := set(&doc, pointer, value); err != nil {
				return nil, nil, err
			}
			done = append(done, edit)
		}
	}
	if fresh {
		doc.Format()
	}
	return doc.Pack(), done, nil
}

// text returns the new value of a member as JSON.
func (m *member) text(there *hujson.Value) ([]byte, error) {
	if !m.also {
		return json.Marshal(m.value)
	}
	list := []any{m.value}
	if there != nil {
		var present []any
		if json.Unmarshal(standard(there), &present) != nil {
			return nil, fmt.Errorf("%s in it is no array", strings.Join(m.path, "."))
		}
		list = append(present, m.value)
	}
	return json.Marshal(list)
}

// without returns an array without the elements that an edit added to it; ok is false if they are not all in it.
func (e *Edit) without(there []byte) (rest []byte, ok bool) {
	var before, after, present []json.RawMessage
	if json.Unmarshal(e.After, &after) != nil || json.Unmarshal(there, &present) != nil || e.Before != nil && json.Unmarshal(e.Before, &before) != nil {
		return nil, false
	}
	for _, added := range after[min(len(before), len(after)):] {
		i := slices.IndexFunc(present, func(one json.RawMessage) bool { return sameJSON(one, added) })
		if i < 0 {
			return nil, false
		}
		present = slices.Delete(present, i, i+1)
	}
	rest, err := json.Marshal(present)
	return rest, err == nil
}

// set adds a member, or replaces its value.
func set(doc *hujson.Value, pointer string, value []byte) error {
	op := "add"
	if doc.Find(pointer) != nil {
		op = "replace"
	}
	return doc.Patch([]byte(`[{"op":"` + op + `","path":` + asJSON(pointer) + `,"value":` + string(value) + `}]`))
}

func pointerOf(path []string) string {
	escape := strings.NewReplacer("~", "~0", "/", "~1")
	var b strings.Builder
	for _, name := range path {
		b.WriteString("/" + escape.Replace(name))
	}
	return b.String()
}

// standard returns a value as plain JSON, for comparison.
func standard(v *hujson.Value) []byte {
	c := v.Clone()
	c.Standardize()
	c.Minimize()
	return bytes.TrimSpace(c.Pack())
}

// revert undoes edits in a text that has changed since. left counts members that were set by other means in the meantime.
func revert(text []byte, edits []Edit) (reverted []byte, left int, err error) {
	if len(edits) > 0 && edits[0].Pointer == "" {
		reverted, err = revertText(text, edits)
		return reverted, 0, err
	}
	doc, err := hujson.Parse(text)
	if err != nil {
		return nil, 0, err
	}
	for _, e := range slices.Backward(edits) {
		there := doc.Find(e.Pointer)
		switch {
		case there == nil: // gone already
			continue
		case !sameJSON(standard(there), e.After):
			if rest, ok := e.without(standard(there)); ok {
				if err := set(&doc, e.Pointer, rest); err != nil {
					return nil, 0, err
				}
				continue
			}
			if string(e.After) != "{}" { // an object made by setup stays while it has other members
				left++
			}
			continue
		}
		if e.Before != nil {
			err = set(&doc, e.Pointer, e.Before)
		} else {
			err = doc.Patch([]byte(`[{"op":"remove","path":` + asJSON(e.Pointer) + `}]`))
		}
		if err != nil {
			return nil, 0, err
		}
	}
	return doc.Pack(), left, nil
}

func sameJSON(a, b []byte) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && asJSON(x) == asJSON(y)
}

func revertText(text []byte, edits []Edit) ([]byte, error) {
	for _, e := range edits {
		if bytes.Count(text, e.After) != 1 {
			return nil, errors.New("the lines between \"mneme setup\" and \"end of mneme setup\" were changed")
		}
		text = bytes.Replace(text, e.After, e.Before, 1)
	}
	return text, nil
}

// codexTables sets the provider in a config.toml, and adds tables at its end.
type codexTables struct{ top, tables string }

const (
	begun = "# mneme setup; take it back with: mneme setup codex --undo\n"
	ended = "# end of mneme setup\n"
)

var (
	providerLine = regexp.MustCompile(`(?m)^[ \t]*model_provider[ \t]*=.*(?:\n|\z)`)
	firstTable   = regexp.MustCompile(`(?m)^[ \t]*\[`)
	ownTables    = regexp.MustCompile(`(?m)^[ \t]*\[(?:model_providers|mcp_servers)\.["']?mneme["']?\]`)
)

func (c codexTables) apply(text []byte) (changed []byte, done []Edit, err error) {
	if at := ownTables.Find(text); at != nil {
		return nil, nil, fmt.Errorf("it has %s already; remove that first", bytes.TrimSpace(at))
	}
	top := len(text)
	if at := firstTable.FindIndex(text); at != nil {
		top = at[0]
	}
	head := Edit{After: []byte(begun + c.top + ended)}
	start, end := 0, 0
	if at := providerLine.FindIndex(text[:top]); at != nil {
		start, end = at[0], at[1]
		head.Before = slices.Clone(text[start:end])
	}
	tail := Edit{After: []byte("\n" + begun + c.tables + ended)}
	if len(text) > 0 && end < len(text) && !bytes.HasSuffix(text, []byte("\n")) {
		tail.After = append([]byte("\n"), tail.After...)
	}
	changed = slices.Concat(text[:start], head.After, text[end:], tail.After)
	return changed, []Edit{head, tail}, nil
}

func setUpClaude(h Homes, s Server) []change {
	m := members{{path: []string{"env", "ANTHROPIC_BASE_URL"}, value: s.Origin}}
	if s.OwnLogin {
		m = append(m, member{path: []string{"env", "ANTHROPIC_CUSTOM_HEADERS"}, value: "X-Service-API-Key: " + s.Key})
	} else {
		m = append(m, member{path: []string{"env", "ANTHROPIC_AUTH_TOKEN"}, value: s.Key})
	}
	if s.Recall != "" {
		m = append(m, member{path: []string{"env", EnvKey}, value: s.Key}, member{path: []string{"env", EnvURL}, value: s.Origin})
		hooks := claudeHooks(s)
		for _, event := range slices.Sorted(maps.Keys(hooks)) {
			m = append(m, member{path: []string{"hooks", event}, value: hooks[event], also: true})
		}
	}
	changes := []change{{h.in("CLAUDE_CONFIG_DIR", []string{".claude"}, "settings.json"), m}}
	if s.Memory {
		changes = append(changes, change{h.in("CLAUDE_CONFIG_DIR", nil, ".claude.json"), members{
			{path: []string{"mcpServers", "mneme"}, value: object{"type": "http", "url": s.Origin + "/mcp", "headers": object{"Authorization": "Bearer " + s.Key}}},
		}})
	}
	return changes
}

func setUpCodex(h Homes, s Server) []change {
	tables := fmt.Sprintf("[model_providers.mneme]\nname = \"mneme\"\nbase_url = %q\nwire_api = \"responses\"\nhttp_headers = { \"X-Service-API-Key\" = %q }\n",
		s.Origin+"/v1", s.Key)
	if s.Memory {
		tables += fmt.Sprintf("\n[mcp_servers.mneme]\nurl = %q\nhttp_headers = { Authorization = %q }\n", s.Origin+"/mcp", "Bearer "+s.Key)
	}
	return []change{{h.in("CODEX_HOME", []string{".codex"}, "config.toml"), codexTables{"model_provider = \"mneme\"\n", tables}}}
}

func setUpOpencode(h Homes, s Server) []change {
	var m members
	config := opencodeConfig(s, s.Key)
	for _, group := range []string{"provider", "mcp"} {
		entries, _ := config[group].(object)
		for name, value := range entries {
			if group == "provider" && name != "mneme" { // a user's other settings for a provider stay
				for option, text := range value.(object)["options"].(object) {
					m = append(m, member{path: []string{group, name, "options", option}, value: text})
				}
				continue
			}
			m = append(m, member{path: []string{group, name}, value: value})
		}
	}
	slices.SortFunc(m, func(a, b member) int { return cmp.Compare(pointerOf(a.path), pointerOf(b.path)) })
	return []change{{h.in("XDG_CONFIG_HOME", []string{".config"}, "opencode", "opencode.json"), m}}
}

func setUpCursor(h Homes, s Server) []change {
	return []change{{h.in("", []string{".cursor"}, "mcp.json"), members{
		{path: []string{"mcpServers", "mneme"}, value: object{"url": s.Origin + "/mcp", "headers": object{"Authorization": "Bearer " + s.Key}}},
	}}}
}

func setUpVSCode(h Homes, s Server) []change {
	return []change{{h.settings("Code", "User", "mcp.json"), members{
		{path: []string{"servers", "mneme"}, value: object{"type": "http", "url": s.Origin + "/mcp", "headers": object{"Authorization": "Bearer " + s.Key}}},
	}}}
}
