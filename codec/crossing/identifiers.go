package crossing

import (
	"crypto/sha256"

	"github.com/mnemeproxy/mneme/codec"
)

// identifierStep makes names and ids legal.
type identifierStep struct{ *adaptation }

// run gives tools legal names and calls legal ids. Both are pure functions of the client's values, so that a
// conversation keeps its bytes from turn to turn and nothing has to be remembered (docs/wire/translation.md#4).
func (a identifierStep) run() error {
	names := make([][]byte, 0, len(a.r.Tools)+len(a.r.Messages))
	for i := range a.r.Tools {
		if len(a.r.Tools[i].Name) > 0 {
			names = append(names, a.r.Tools[i].Name)
		}
	}
	legal := true // all ids are
	for i := range a.r.Messages {
		for j := range a.r.Messages[i].Parts {
			p := &a.r.Messages[i].Parts[j]
			if isCall(p) {
				names = append(names, p.Name)
			}
			legal = legal && (!hasCallID(p) || legalID(a.takes.CallID, p.CallID))
		}
	}
	a.back.names.declare(a.to.ToolName, names)
	a.renameTools()
	if legal && len(a.back.names.sent) == 0 {
		return nil // all names and ids are unchanged
	}
	short := newIDMap(a.takes.CallID)
	short.ids, short.taken = make(map[string][]byte, len(a.r.Messages)), make(map[string]bool, len(a.r.Messages))
	for i := range a.r.Messages {
		for j := range a.r.Messages[i].Parts {
			p := &a.r.Messages[i].Parts[j]
			if !hasCallID(p) {
				continue
			}
			a.rename(&p.Name)
			p.CallID = short.of(p.CallID)
		}
	}
	return nil
}

// hasCallID reports whether a part is a call or the result of one.
func hasCallID(p *codec.Part) bool { return isCall(p) || p.Kind == codec.PartToolResult }

func (a identifierStep) renameTools() {
	kept := 0
	seen := make(map[string]bool, len(a.r.Tools))
	for i := range a.r.Tools {
		tool := &a.r.Tools[i]
		if len(tool.Name) > 0 && (tool.Kind == codec.ToolFunction || tool.Kind == codec.ToolCustom) {
			a.rename(&tool.Name)
			if seen[view(tool.Name)] {
				continue // the first of a name counts
			}
			seen[view(tool.Name)] = true
		}
		if kept < i {
			a.r.Tools[kept] = *tool
		}
		kept++
	}
	a.r.Tools = a.r.Tools[:kept]
	if len(a.r.ToolChoice.Name) > 0 {
		a.rename(&a.r.ToolChoice.Name)
	}
	for i := range a.r.ToolChoice.Allowed {
		a.rename(&a.r.ToolChoice.Allowed[i].Name)
	}
}

func (a identifierStep) rename(name *[]byte) {
	if sent, ok := a.back.names.sent[string(*name)]; ok {
		*name = append(a.r.Alloc(len(sent)), sent...)
		a.r.Notes.Emulate("tools.name")
	}
}

// idMap makes call ids legal for a target.
type idMap struct {
	rule  codec.IDRule
	ids   map[string][]byte
	taken map[string]bool
}

func newIDMap(rule codec.IDRule) *idMap {
	return &idMap{rule: rule, ids: make(map[string][]byte), taken: make(map[string]bool)}
}

func legalID(rule codec.IDRule, id []byte) bool {
	switch {
	case rule.Strict > 0:
		return len(id) == rule.Strict && isAlphanumeric(id)
	case rule.Slug && !isSlug(id):
		return false
	}
	return len(id) > 0 && (rule.Max == 0 || len(id) <= rule.Max)
}

func (m *idMap) made(id []byte, try int) string {
	if m.rule.Strict > 0 {
		return base62(hashOf(id, try), m.rule.Strict)
	}
	return "t_" + base62(hashOf(id, try), 22)
}

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

// of returns the id to send for a client's id: equal ids for equal ones, different ids for different ones.
func (m *idMap) of(id []byte) []byte {
	if sent, ok := m.ids[string(id)]; ok {
		return sent
	}
	sent := id
	if !legalID(m.rule, id) {
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
