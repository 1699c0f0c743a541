package crossing

import (
	"crypto/sha256"

	"github.com/mnemeproxy/mneme/codec"
)

// identifiers gives tools legal names and calls legal ids. Both are pure functions of what the client sent, so that a
// conversation keeps its bytes from turn to turn and nothing has to be remembered (docs/wire/translation.md#4).
func (a *adaption) identifiers() error {
	names := make([][]byte, 0, 2*len(a.r.Tools)+len(a.r.Messages))
	for i := range a.r.Tools {
		if len(a.r.Tools[i].Name) > 0 {
			names = append(names, a.r.Tools[i].Name)
		}
	}
	for i := range a.r.Messages {
		for j := range a.r.Messages[i].Parts {
			if p := &a.r.Messages[i].Parts[j]; isCall(p) {
				names = append(names, p.Name)
			}
		}
	}
	a.undo.names.declare(a.format, names)
	a.renameTools()
	short := newIDMap(a.format, a.target)
	short.ids, short.taken = make(map[string][]byte, len(a.r.Messages)), make(map[string]bool, len(a.r.Messages))
	for i := range a.r.Messages {
		for j := range a.r.Messages[i].Parts {
			p := &a.r.Messages[i].Parts[j]
			if !isCall(p) && p.Kind != codec.PartToolResult {
				continue
			}
			a.rename(&p.Name)
			p.CallID = short.of(p.CallID)
		}
	}
	return nil
}

func (a *adaption) renameTools() {
	kept := a.r.Tools[:0]
	seen := make(map[string]bool, len(a.r.Tools))
	for _, tool := range a.r.Tools {
		if len(tool.Name) > 0 && (tool.Kind == codec.ToolFunction || tool.Kind == codec.ToolCustom) {
			a.rename(&tool.Name)
			if seen[view(tool.Name)] {
				continue // the first of a name counts
			}
			seen[view(tool.Name)] = true
		}
		kept = append(kept, tool)
	}
	a.r.Tools = kept
	if len(a.r.ToolChoice.Name) > 0 {
		a.rename(&a.r.ToolChoice.Name)
	}
	for i := range a.r.ToolChoice.Allowed {
		a.rename(&a.r.ToolChoice.Allowed[i].Name)
	}
}

func (a *adaption) rename(name *[]byte) {
	if sent, ok := a.undo.names.sent[string(*name)]; ok && sent != string(*name) {
		*name = append(a.r.Alloc(len(sent)), sent...)
		a.r.Notes.Emulate("tools.name")
	}
}

// maxCallID is the longest call id that OpenAI takes. In Chat ids above 40 characters were seen to fail at some times and
// above 64 at others; the shorter limit is the safe one.
var maxCallID = map[codec.Format]int{codec.Chat: 40, codec.Responses: 64}

// idMap makes call ids legal for a target.
type idMap struct {
	legal func([]byte) bool
	made  func(id []byte, try int) string
	ids   map[string][]byte
	taken map[string]bool
}

func newIDMap(format codec.Format, t *codec.Target) *idMap {
	m := &idMap{ids: make(map[string][]byte), taken: make(map[string]bool)}
	switch {
	case format == codec.Chat && t.Dialect.CallIDPattern == "mistral9":
		m.legal = func(id []byte) bool { return len(id) == 9 && isAlphanumeric(id) }
		m.made = func(id []byte, try int) string { return base62(hashOf(id, try), 9) }
	case format == codec.Messages:
		m.legal = isSlug
		m.made = madeID
	case format == codec.Gemini:
		m.legal = func(id []byte) bool { return len(id) > 0 }
		m.made = madeID
	default:
		m.legal = func(id []byte) bool { return len(id) > 0 && len(id) <= maxCallID[format] }
		m.made = madeID
	}
	return m
}

func madeID(id []byte, try int) string { return "t_" + base62(hashOf(id, try), 22) }

func hashOf(id []byte, try int) [sha256.Size]byte {
	if try == 0 {
		return sha256.Sum256(id)
	}
	return sha256.Sum256(append(append([]byte{}, id...), byte(try)))
}

func isSlug(id []byte) bool {
	for _, c := range id {
		if !isWord(c) && c != '-' {
			return false
		}
	}
	return len(id) > 0
}

func isAlphanumeric(id []byte) bool {
	for _, c := range id {
		if !isWord(c) || c == '_' {
			return false
		}
	}
	return true
}

// of is the id to send for a client's id: the same for the same, another for another.
func (m *idMap) of(id []byte) []byte {
	if sent, ok := m.ids[string(id)]; ok {
		return sent
	}
	sent := id
	if !m.legal(id) {
		for try := 0; ; try++ {
			made := m.made(id, try)
			if !m.taken[made] {
				sent = []byte(made)
				break
			}
		}
	}
	m.ids[view(id)] = sent
	m.taken[view(sent)] = true
	return sent
}
